package fanouttest

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/jobs"
	"tidings/services/redis"
)

// RegisterFaultyRebuild registers a part of rebuilds that panics for the users that the last call of panicFor names.
func (w *World) RegisterFaultyRebuild() (panicFor func(users ...services.UserID)) {
	var broken atomic.Pointer[[]services.UserID]
	broken.Store(new([]services.UserID))
	w.Projector.RegisterRebuildPart("a part with a fault", func(_ context.Context, user services.UserID) ([]redis.SequenceStep, error) {
		if slices.Contains(*broken.Load(), user) {
			panic("while it rebuilds")
		}
		return nil, nil
	})
	return func(users ...services.UserID) { broken.Store(&users) }
}

// FactScenario is a fact with its job, and the events before it. Its functions get UsersPerScenario users: the first is the author.
type FactScenario struct {
	Name       string
	Prepare    func(w *World, users []services.UserID) // what happened before the fact
	CommitFact func(w *World, users []services.UserID) // writes the fact and queues its job
}

// UsersPerScenario is how many users a scenario is given.
const UsersPerScenario = 6

// maxContextChecks is the most checks of its context that the work of a scenario may take.
const maxContextChecks = 2000

// countdownContext is a context that ends after a given number of checks. Every call of an engine checks its context, so the work
// can stop between any two steps: for each step there is a number of checks with which it stops there.
type countdownContext struct {
	context.Context
	cancel     context.CancelFunc // ends the embedded context
	checksLeft atomic.Int64       // how many checks are left; below 0 the context has ended
}

// newCountdownContext makes a context that lives for the given number of checks.
func newCountdownContext(ctx context.Context, checks int) *countdownContext {
	m := &countdownContext{}
	m.Context, m.cancel = context.WithCancel(ctx)
	m.checksLeft.Store(int64(checks))
	return m
}

// countCheck counts one check of the context, and ends the context when none is left.
func (m *countdownContext) countCheck() {
	if m.checksLeft.Add(-1) < 0 {
		m.cancel()
	}
}

// Done counts a check, and returns the channel that is closed when the context ends.
func (m *countdownContext) Done() <-chan struct{} {
	m.countCheck()
	return m.Context.Done()
}

// Err counts a check, and returns why the context has ended; nil if it has not.
func (m *countdownContext) Err() error {
	m.countCheck()
	return m.Context.Err()
}

// expired says whether the context ended before the work did.
func (m *countdownContext) expired() bool { return m.checksLeft.Load() < 0 }

// CheckAfterEachCrash lets the same work be done again and again, each time by a worker that dies at a later moment, and then by
// the worker of another node. happen queues the jobs of the work, and returns a check of their effects.
func CheckAfterEachCrash(t *testing.T, w *World, happen func() (check func())) {
	t.Helper()
	deaths := 0
	// The worker dies after 1, 2, 3, 4, 6, 8, 11 and so on checks of its context. The steps of one job are a few checks apart,
	// so these deaths fall into all parts of the job, at a fraction of the cost of every number.
	for checks, died := 1, true; died; checks += 1 + checks/4 {
		if checks > maxContextChecks {
			t.Fatal("the work has no end")
		}
		// Each round has new users, so that it meets all steps, and not only the steps that the round before has not done.
		check := happen()
		if died = runAndCrash(t, w, checks); died {
			deaths++
		}
		check()
		if _, dead := w.CountJobs(); dead != 0 {
			t.Errorf("%d jobs are dead", dead)
		}
		if t.Failed() {
			t.Fatalf("the worker died after %d checks", checks)
		}
	}
	// A rebuild continues when its first caller has stopped, because other callers may wait for it. So the worker can die only in
	// the steps after the rebuild.
	if deaths < 3 {
		t.Errorf("the worker died %d times only: the steps were not met", deaths)
	}
}

// runAndCrash runs all due jobs with a worker that dies after some checks of its context, and the other jobs with another node's
// worker.
func runAndCrash(t *testing.T, w *World, checks int) (died bool) {
	t.Helper()
	ctx := newCountdownContext(t.Context(), checks)
	defer ctx.cancel()
	for busy := true; busy && !ctx.expired(); {
		var err error
		busy, err = w.runSomeJobs(ctx, 1000)
		w.Must(err)
	}
	// The leases of the dead worker end, and another node finds its jobs.
	w.Clock.Advance(31 * time.Second)
	w.RunAllJobs(w.AnotherFanout())
	return ctx.expired()
}

// awaitRebuilds waits for the rebuilds of the world's node. When a process dies, its rebuilds end with it. A worker that dies here
// leaves its rebuild running, and the user's document is not shown until it ends. The rebuild may also not have begun when the
// worker dies.
func (w *World) awaitRebuilds() {
	w.TB.Helper()
	late := time.After(time.Minute)
	for w.Projector.RebuildStats().Pending > 0 {
		select {
		case <-late:
			w.TB.Fatal("a rebuild still runs after a minute")
		case <-time.After(time.Millisecond):
		}
	}
}

// CheckAfterEachCrash lets a worker die at any moment of a scenario, on new users each time. When its leases have expired another node
// finishes the work, and readers are shown the facts.
func (s FactScenario) CheckAfterEachCrash(t *testing.T, w *World) {
	t.Helper()
	CheckAfterEachCrash(t, w, func() (check func()) {
		users := w.MakeUsers(UsersPerScenario)
		s.Prepare(w, users)
		w.RunAllJobs(w.Fanout)
		s.CommitFact(w, users)
		return func() { w.CheckAgainstFacts(users...) }
	})
}

// CheckConverges runs a scenario and its jobs. It fails unless the users' documents and inboxes then equal the facts, and unless
// a further ProjectSeen and ReconcileFollow of each reader change nothing.
func (s FactScenario) CheckConverges(t *testing.T, w *World) {
	t.Helper()
	users := w.MakeUsers(UsersPerScenario)
	s.Prepare(w, users)
	w.RunAllJobs(w.Fanout)
	w.CheckAgainstFacts(users...)
	s.CommitFact(w, users)
	// A scenario without a job would prove nothing.
	if waiting, _ := w.CountJobs(); waiting == 0 {
		t.Fatal("nothing is to be done")
	}
	w.RunAllJobs(w.Fanout)
	w.CheckAgainstFacts(users...)
	// The readers are projected once more: idempotent work changes no version. The version of a reader of pulled authors may change,
	// because a node may have counted their posts in SQL before the reader's follow was projected.
	versions, err := w.Redis.DocumentVersions(t.Context(), users)
	w.Must(err)
	for _, user := range users[1:] {
		w.Must(w.Fanout.ProjectSeen(t.Context(), user))
		w.Must(w.Fanout.ReconcileFollow(t.Context(), user, users[0]))
	}
	again, err := w.Redis.DocumentVersions(t.Context(), users)
	w.Must(err)
	for i := range versions {
		if versions[i] != again[i] && len(w.Document(users[i]).PulledAuthors) == 0 {
			t.Errorf("user %d got a new version without a change", users[i])
		}
	}
	w.CheckAgainstFacts(users...)
	if _, dead := w.CountJobs(); dead != 0 {
		t.Errorf("%d dead jobs", dead)
	}
}

// RunSomeJobs runs at most count of the jobs that are due with a worker that dies after some checks of its context, or never if
// checks is negative. A worker that dies is no error.
func (w *World) RunSomeJobs(count, checks int) error {
	if checks < 0 {
		checks = math.MaxInt64
	}
	ctx := newCountdownContext(w.TB.Context(), checks)
	defer ctx.cancel()
	_, err := w.runSomeJobs(ctx, count)
	return err
}

// runSomeJobs claims jobs as a worker does and runs them under a context that ends. busy is false when none is due.
func (w *World) runSomeJobs(ctx *countdownContext, count int) (busy bool, err error) {
	// The claim has the test's own context: it is the work that dies, and not the claim.
	claimed, err := w.claimJobs(count)
	if err != nil || len(claimed) == 0 {
		return false, err
	}
	err = w.Fanout.RunJobs(ctx, claimed)
	if ctx.expired() {
		w.awaitRebuilds()
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("a worker that lives failed: %w", err)
	}
	return true, nil
}

// ClaimDueJobs claims all jobs that are due, as a worker of the world's node does that is slow or dies.
func (w *World) ClaimDueJobs() []jobs.Job {
	w.TB.Helper()
	claimed, err := w.claimJobs(1000)
	w.Must(err)
	return claimed
}

// claimJobs claims at most limit of the jobs that are due, for half a minute.
func (w *World) claimJobs(limit int) ([]jobs.Job, error) {
	return jobs.Claim(w.TB.Context(), w.DB, w.Fanout.Kinds(), limit, 30*time.Second, 0)
}
