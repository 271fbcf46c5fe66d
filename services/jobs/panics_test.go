package jobs_test

import (
	"bytes"
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/jobs"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
)

// lockedText is a log that several workers write.
type lockedText struct {
	mu   sync.Mutex // guards text
	text bytes.Buffer
}

func (l *lockedText) Write(text []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(text)
}

func (l *lockedText) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// recordLog returns the settings of a node whose log is kept, and the log.
func recordLog() (settings func(*jobs.Config), log *lockedText) {
	log = &lockedText{}
	return func(cfg *jobs.Config) { cfg.Log = slog.New(slog.NewTextHandler(log, nil)) }, log
}

// A job that panics fails like one that returns an error: it is tried again later, and is dead after the usual number of tries. The
// other jobs of the claim are done, and the log has the kind and the stack.
func TestAPanicFailsItsJobAlone(t *testing.T) {
	settings, log := recordLog()
	tries, painted := 0, 0
	n := sqliteNode(t, settings,
		shortJobKind("explode", func(context.Context, jobs.Job) error { tries++; panic("while it works") }),
		shortJobKind("paint", func(context.Context, jobs.Job) error { painted++; return nil }))
	n.enqueue(jobs.KeyedJob("explode", ""), jobs.KeyedJob("paint", ""))
	for try := 1; try <= jobs.MaxTries; try++ {
		if waiting, dead := n.queueCounts(); try > 1 && (waiting != 1 || dead != 0) {
			t.Fatalf("after %d tries, %d jobs wait and %d are dead", tries, waiting, dead)
		}
		claimed, err := n.Workers(1)[0].RunOnce(t.Context())
		n.must(err)
		if claimed == 0 || tries != try {
			t.Fatalf("%d jobs were claimed, %d tries made, want %d", claimed, tries, try)
		}
		if claimed, err = n.Workers(1)[0].RunOnce(t.Context()); claimed != 0 || err != nil {
			t.Fatalf("it is tried again at once: %d, %v", claimed, err)
		}
		n.clock.advance(time.Minute)
	}
	if waiting, dead := n.queueCounts(); waiting != 0 || dead != 1 || painted != 1 {
		t.Errorf("%d jobs wait, %d are dead, the other ran %d times", waiting, dead, painted)
	}
	for _, word := range []string{"kind=explode", "while it works", "TestAPanicFailsItsJobAlone"} {
		if !strings.Contains(log.String(), word) {
			t.Errorf("the log has no %q:\n%s", word, log)
		}
	}
}

// If jobs that run together panic, each of them then runs alone, and only a job that panics again fails.
func TestAPanicInABatchFailsItsJobAlone(t *testing.T) {
	settings, log := recordLog()
	var done []string
	n := sqliteNode(t, settings, jobs.Kind{Name: "paint", Class: jobs.ShortClass, ChangedCounts: jobs.NoCounts(), NamesUser: jobs.NoUser, Batch: func(_ context.Context, batch []jobs.Job) []error {
		for _, job := range batch {
			if job.Key == "bad" {
				panic("while it works")
			}
		}
		for _, job := range batch {
			done = append(done, job.Key)
		}
		return make([]error, len(batch))
	}})
	n.enqueue(jobs.KeyedJob("paint", "a"), jobs.KeyedJob("paint", "bad"), jobs.KeyedJob("paint", "c"))
	_, err := n.Workers(1)[0].RunOnce(t.Context())
	n.must(err)
	slices.Sort(done)
	if waiting, dead := n.queueCounts(); waiting != 1 || dead != 0 || !slices.Equal(done, []string{"a", "c"}) {
		t.Errorf("%d jobs wait, %d are dead, %v are done", waiting, dead, done)
	}
	if strings.Count(log.String(), "job failed") != 1 || !strings.Contains(log.String(), "key=bad") {
		t.Errorf("the log is %s", log)
	}
}

// A batch that returns a wrong number of outcomes is a bug of its kind: its jobs fail, and the process goes on.
func TestABatchWithAWrongNumberOfOutcomesFails(t *testing.T) {
	n := sqliteNode(t, nil, jobs.Kind{Name: "paint", Class: jobs.ShortClass, ChangedCounts: jobs.NoCounts(), NamesUser: jobs.NoUser, Batch: func(_ context.Context, batch []jobs.Job) []error {
		return make([]error, len(batch)+1)
	}})
	n.enqueue(jobs.KeyedJob("paint", "a"), jobs.KeyedJob("paint", "b"))
	_, err := n.Workers(1)[0].RunOnce(t.Context())
	n.must(err)
	if waiting, dead := n.queueCounts(); waiting != 2 || dead != 0 {
		t.Errorf("%d jobs wait, %d are dead", waiting, dead)
	}
}

// If the update of the actor's projections panics, the command has succeeded and the projections are stale.
func TestAPanicAfterTheCommitLeavesStaleProjections(t *testing.T) {
	n := sqliteNode(t, nil, shortJobKind("paint", doNothing))
	c := &jobs.Command{
		Actor:       services.UserID(1),
		Apply:       func(context.Context, *sql.Tx) ([]string, error) { return nil, nil },
		AfterCommit: func(context.Context) error { panic("while it updates") },
	}
	if errs := n.Commit(t.Context(), c); errs[0] != nil || !c.ProjectionsStale() {
		t.Errorf("%v, the projections are stale: %v", errs[0], c.ProjectionsStale())
	}
}

// If a kind panics while it lists the users of a job, the job may concern anybody, and the heartbeat goes on.
func TestAPanicWhileUsersAreListedConcernsEverybody(t *testing.T) {
	e := &unreliableEngine{unavailable: true, onJobRead: func() { panic("while it lists") }}
	n := newNode(t, sqltest.SQLite(t), "here", nil, e.kinds()...)
	heart := n.Heartbeat()
	n.must(heart.Begin(t.Context()))
	n.enqueue(jobs.KeyedJob("paint", "1"))
	n.runJobsAndBeat(heart, true)
	n.runJobsAndBeat(heart, true)
	if n.CountsBehind(2)["RED"].IsZero() {
		t.Error("no count of another user is behind")
	}
}
