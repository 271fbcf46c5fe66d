package fanout_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"tidings/services/fanout/fanouttest"
	"tidings/services/jobs"
)

// mortal is a context that ends after it was checked a given number of times. Every call of an engine checks its context, so
// the work under it stops between any two steps, and at each of them for some number.
type mortal struct {
	context.Context
	end  context.CancelFunc
	left atomic.Int64
}

func newMortal(ctx context.Context, looks int) *mortal {
	m := &mortal{}
	m.Context, m.end = context.WithCancel(ctx)
	m.left.Store(int64(looks))
	return m
}

func (m *mortal) look() {
	if m.left.Add(-1) < 0 {
		m.end()
	}
}

// Done is the channel of the context's end.
func (m *mortal) Done() <-chan struct{} {
	m.look()
	return m.Context.Done()
}

// Err says whether the context has ended.
func (m *mortal) Err() error {
	m.look()
	return m.Context.Err()
}

// died says whether the context ended before the work did.
func (m *mortal) died() bool { return m.left.Load() < 0 }

// maxLooks bounds the search for the end of a step.
const maxLooks = 2000

// A worker dies at any moment of any job. When its leases have expired another one finishes the work, and readers are shown
// the facts.
func TestACrashBetweenAnyTwoStepsIsMended(t *testing.T) {
	for _, step := range steps() {
		t.Run(step.name, func(t *testing.T) {
			w := served(t, smallChunks)
			deaths := 0
			// The steps of one job are a few checks apart: a stride covers all of the job at a fraction of the cost.
			for looks := 1; ; looks += 1 + looks/3 {
				if looks > maxLooks {
					t.Fatal("the work has no end")
				}
				if !crash(t, w, step, looks) {
					break
				}
				deaths++
			}
			// A rebuild continues without its first caller, because others may wait for it: only the steps after it are cut.
			if deaths < 3 {
				t.Errorf("the worker died %d times only: the steps were not met", deaths)
			}
		})
	}
}

// crash does a step with a worker that dies after some checks, and then with another worker.
func crash(t *testing.T, w *fanouttest.World, step step, looks int) (died bool) {
	users := w.Users(crowd)
	step.before(w, users)
	w.Quiet(w.Fanout)
	step.happen(w, users)
	ctx := newMortal(t.Context(), looks)
	defer ctx.end()
	for !ctx.died() {
		jobs, err := jobs.Claim(t.Context(), w.Store.DB, w.Fanout.Kinds(), 1000, 30*time.Second)
		w.Must(err)
		if len(jobs) == 0 {
			break
		}
		if err := w.Fanout.RunJobs(ctx, jobs); err != nil && !ctx.died() {
			t.Fatalf("failed alive: %v", err)
		}
	}
	w.Clock.Advance(31 * time.Second)
	w.Quiet(w.Another())
	w.Agree(users...)
	if _, dead := w.Jobs(); dead != 0 {
		t.Errorf("after %d looks: %d jobs are dead", looks, dead)
	}
	if t.Failed() {
		t.Fatalf("the worker died after %d looks", looks)
	}
	return ctx.died()
}
