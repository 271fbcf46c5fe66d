package jobs_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/jobs"
	"tidings/services/sql/sqltest"
)

// unreliableEngine stands for an engine that jobs need and that may not answer.
type unreliableEngine struct {
	unavailable bool   // it does not answer
	onJobRead   func() // called each time a waiting job is read
}

// kinds returns the kinds of jobs that need the engine: the kind "paint" changes a count of one user.
func (e *unreliableEngine) kinds() []jobs.Kind {
	do := func(context.Context, jobs.Job) error {
		if e.unavailable {
			return services.Errorf(services.Unavailable, "the engine does not answer")
		}
		return nil
	}
	users := func(ctx context.Context, job jobs.Job) ([]services.UserID, bool, error) {
		e.onJobRead()
		return userFromKeyLength(ctx, job)
	}
	return []jobs.Kind{{Name: "paint", Each: do, NamesUser: jobs.NoUser, ChangedCounts: jobs.CountsOf(users, "RED")}}
}

// runJobsAndBeat lets a worker run the due jobs and checks that they fail exactly if the engine does not answer (away). Then it runs one
// turn of the heartbeat, and advances the clock by a job's pause.
func (n *node) runJobsAndBeat(heart *jobs.Heartbeat, away bool) {
	n.tb.Helper()
	if _, err := n.Workers(1)[0].RunOnce(n.tb.Context()); services.IsUnavailable(err) != away {
		n.tb.Fatalf("a worker while the engine is away (%t): %v", away, err)
	}
	n.beat(heart)
	n.clock.advance(500 * time.Millisecond)
}

// While an engine does not answer, jobs are claimed and released again and again, and newer ones take their place. After a
// long wait their counts are behind until the jobs are done, even if the engine answers again.
func TestJobsThatWaitForAnEngineAreBehind(t *testing.T) {
	sqltest.EachURL(t, func(t *testing.T, url string) {
		e := &unreliableEngine{unavailable: true, onJobRead: func() {}}
		n := newNode(t, url, "here", nil, e.kinds()...)
		heart := n.Heartbeat()
		n.must(heart.Begin(t.Context()))
		for round := range 6 {
			n.enqueue(jobs.KeyedJob("paint", "1"))
			n.runJobsAndBeat(heart, true)
			want := round > 0 // by then the job has waited for as long as a node may be silent
			if since := n.CountsBehind(1)["RED"]; since.IsZero() == want || want && !since.Equal(startTime) {
				t.Errorf("in round %d the count is behind since %v", round, since)
			}
			if want { // no later beat may forget the job, even for a moment, although another job has replaced it
				e.onJobRead = func() {
					if n.CountsBehind(1) == nil {
						t.Error("nothing is behind while the waiting jobs are looked at")
					}
				}
			}
		}
		if n.CountsBehind(2) != nil {
			t.Error("counts are behind whose jobs do not wait")
		}
		e.unavailable = false
		n.beat(heart)
		if n.CountsBehind(1) == nil {
			t.Error("nothing is behind once the engine answers, although the job is not done")
		}
		n.runJobsAndBeat(heart, false)
		if waiting, _ := n.queueCounts(); waiting != 0 || n.AnyCountsBehind() {
			t.Errorf("%d jobs wait; counts are behind: %v", waiting, n.AnyCountsBehind())
		}
	})
}

// After an engine did not answer, jobs wait behind a backlog of older jobs. CountsBehind names the counts that they change too, however
// late these jobs become overdue.
func TestJobsBehindABacklogAreBehind(t *testing.T) {
	e := &unreliableEngine{unavailable: true, onJobRead: func() {}}
	n := sqliteNode(t, nil, e.kinds()...)
	heart := n.Heartbeat()
	n.enqueue(jobs.KeyedJob("paint", "1"))
	n.runJobsAndBeat(heart, true)
	e.unavailable = false
	n.clock.advance(500 * time.Millisecond)
	n.beat(heart)
	for key := "22"; len(key) < 6; key += "2" {
		n.enqueue(jobs.KeyedJob("paint", key))
		n.clock.advance(time.Second)
		n.beat(heart)
		if n.CountsBehind(services.UserID(len(key))) == nil {
			t.Errorf("the job of user %d waits, and their count is not behind", len(key))
		}
	}
	n.runJobsAndBeat(heart, false)
	n.enqueue(jobs.KeyedJob("paint", "1"))
	n.clock.advance(time.Second)
	n.beat(heart)
	if n.AnyCountsBehind() {
		t.Error("counts are behind although nothing has waited for an engine since")
	}
}

// A node whose jobs wait for an engine reports it to the others, which may read a Redis that it cannot reach.
func TestOtherNodesLearnOfAHaltedNode(t *testing.T) {
	url := sqltest.Postgres(t)
	e := &unreliableEngine{unavailable: true, onJobRead: func() {}}
	n, other := newNode(t, url, "here", nil, e.kinds()...), newNode(t, url, "there", nil, e.kinds()...)
	hearts := []*jobs.Heartbeat{n.Heartbeat(), other.Heartbeat()}
	for _, heart := range hearts {
		n.must(heart.Begin(t.Context()))
	}
	n.enqueue(jobs.KeyedJob("paint", "1"))
	for range 2 {
		other.runJobsAndBeat(hearts[1], true)
		n.clock.advance(500 * time.Millisecond)
	}
	n.must(hearts[0].RunOnce(t.Context()))
	if n.CountsBehind(1) == nil {
		t.Error("nothing is behind on the node that answers")
	}
	e.unavailable = false
	other.runJobsAndBeat(hearts[1], false)
	n.must(hearts[0].RunOnce(t.Context()))
	if n.AnyCountsBehind() {
		t.Error("counts are behind although the job is done")
	}
}

// Jobs that collapse are as old as the oldest of them, in the queue too.
func TestCollapsedJobsKeepTheAgeOfTheOldest(t *testing.T) {
	eachDatabase(t, func(t *testing.T, n *node) {
		n.Register(shortJobKind("paint", doNothing))
		n.enqueue(jobs.KeyedJob("paint", "1"))
		n.clock.advance(time.Minute)
		n.enqueue(jobs.KeyedJob("paint", "1"))
		n.clock.advance(time.Minute)
		n.enqueue(jobs.KeyedJob("paint", "1"), jobs.KeyedJob("paint", "2"))
		claimed := n.claim()
		slices.SortFunc(claimed, func(a, b jobs.Job) int { return a.CreatedAt.Compare(b.CreatedAt) })
		if len(claimed) != 2 || !claimed[0].CreatedAt.Equal(startTime) || !claimed[1].CreatedAt.Equal(startTime.Add(2*time.Minute)) {
			t.Fatalf("claimed %+v", claimed)
		}
		if _, _, oldest, err := n.JobCounts(t.Context()); err != nil || !oldest.Equal(startTime) {
			t.Errorf("the oldest job is from %v, %v; want %v", oldest, err, startTime)
		}
	})
}
