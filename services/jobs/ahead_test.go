package jobs_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"tidings/services/jobs"
	"tidings/services/sql"
)

const burstCommandCount = 300 // commands that are committed together: so many that their jobs do not go ahead of others

// newEnqueueingCommand makes a command that enqueues one job.
func newEnqueueingCommand(job jobs.NewJob) *jobs.Command {
	return &jobs.Command{Name: "add", Actor: 1, Apply: func(ctx context.Context, tx *sql.Tx) ([]string, error) {
		return nil, jobs.Enqueue(ctx, tx, job)
	}}
}

// commitEnqueueingCommands commits count commands together. Each enqueues one job of the kind and key.
func (n *node) commitEnqueueingCommands(count int, kind, key string) {
	n.tb.Helper()
	commands := make([]*jobs.Command, count)
	for i := range commands {
		commands[i] = newEnqueueingCommand(jobs.KeyedJob(kind, key))
	}
	for _, err := range n.Commit(n.tb.Context(), commands...) {
		n.must(err)
	}
}

// jobKeys are the keys of jobs in their order.
func jobKeys(claimed []jobs.Job) (keys []string) {
	for _, job := range claimed {
		keys = append(keys, job.Key)
	}
	return keys
}

// The jobs of a small commit go ahead of those of a burst that waits: a separate worker claims only them, and the worker of all
// short jobs claims them first. The jobs that they enqueue go ahead too; the jobs that the burst's jobs enqueue do not.
func TestJobsOfSmallCommitsGoAheadOfABurst(t *testing.T) {
	eachDatabase(t, func(t *testing.T, n *node) {
		var done []string
		n.Register(shortJobKind("last", func(_ context.Context, job jobs.Job) error {
			done = append(done, job.Key)
			return nil
		}), shortJobKind("first", func(ctx context.Context, job jobs.Job) error {
			if job.Key == "" {
				return nil
			}
			return n.Replace(ctx, job, []jobs.NewJob{jobs.KeyedJob("last", job.Key)})
		}))
		n.commitEnqueueingCommands(burstCommandCount, "first", "")
		n.enqueue(jobs.KeyedJob("first", "of the burst"))
		n.commitEnqueueingCommands(1, "first", "of a mutation")
		workers := n.Workers(1)
		prompt := workers[len(workers)-1]
		for step := range 2 { // the first step runs the job, the second the job that it enqueues
			if claimed, err := prompt.RunOnce(t.Context()); claimed != 1 || err != nil {
				t.Fatalf("step %d: %d jobs went ahead (%v), want 1", step, claimed, err)
			}
		}
		if claimed, err := prompt.RunOnce(t.Context()); claimed != 0 || err != nil {
			t.Errorf("then %d jobs went ahead (%v), want none of the burst", claimed, err)
		}
		n.commitEnqueueingCommands(1, "first", "of a mutation")
		if _, err := workers[0].RunOnce(t.Context()); err != nil {
			t.Fatal(err)
		}
		claimed := n.claimOf("last")
		if want := []string{"of a mutation", "of the burst"}; !slices.Equal(done, want[:1]) || !slices.Equal(jobKeys(claimed), want) {
			t.Errorf("done were %v, then claimed %v, want %v", done, jobKeys(claimed), want)
		}
	})
}

// No job waits for ever behind the jobs of small commits, which go ahead, and a planned job is not claimed before its time.
func TestNoJobWaitsForeverBehindSmallCommits(t *testing.T) {
	n := sqliteNode(t, nil, shortJobKind("a", doNothing))
	n.commitEnqueueingCommands(burstCommandCount, "a", "long")
	n.clock.advance(jobs.PriorityHeadStart + time.Second)
	n.commitEnqueueingCommands(1, "a", "short")
	n.must(n.Commit(t.Context(), newEnqueueingCommand(jobs.NewJob{Kind: "a", Key: "planned", NotBefore: n.clock.Now().Add(time.Second)}))[0])
	if got := jobKeys(n.claim()); !slices.Equal(got, []string{"long", "short"}) {
		t.Errorf("claimed were %v, want those of the burst first, which have waited for longer, and not the planned one", got)
	}
	n.clock.advance(time.Second)
	if got := jobKeys(n.claim()); !slices.Equal(got, []string{"planned"}) {
		t.Errorf("claimed were %v, want the planned one", got)
	}
}
