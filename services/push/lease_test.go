package push

import (
	"context"
	"testing"
	"tidings/services/trace"
	"time"
)

// TestReconciliationWritesLeasesBeforeItCompares: a change before the lease is written has no hint to this node, so the same
// reconciliation finds it.
func TestReconciliationWritesLeasesBeforeItCompares(t *testing.T) {
	e := newEngines()
	e.set(7, 100, 1)
	e.enterErr = errAway
	h := New(e.config())
	states := mustWatch(t, h, 7, "")
	var b batch
	h.render(t.Context(), &b)
	wantTaken(t, states, 1, "the first state, without a lease")
	e.enterErr = nil
	e.hold = func(_ context.Context, call string) {
		if call == "enter" {
			e.set(7, 101, 2)
		}
	}
	if err := h.sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	e.hold = nil
	h.render(t.Context(), &b)
	wantTaken(t, states, 2, "after one sweep")
}

// TestDoubtDuringEnter: if reconciliation finds lost data while Enter is in flight, the lease is written again, because the
// order of the two in Redis is unknown.
func TestDoubtDuringEnter(t *testing.T) {
	clock := &manualClock{time.Unix(1000, 0)}
	e := newEngines()
	e.set(7, 100, 1)
	config := e.config()
	config.Clock = clock
	h := New(config)
	mustWatch(t, h, 7, "")
	var b batch
	h.render(t.Context(), &b)

	clock.at = clock.at.Add(31 * time.Second) // the lease is renewed with the next read
	h.Hint(7, 101, trace.Cause{})
	e.hold = func(ctx context.Context, call string) {
		if call == "enter" {
			e.holdUp(nil)
			e.set(7, 50, 2)
			if err := h.sweep(ctx); err != nil {
				t.Error(err)
			}
		}
	}
	h.render(t.Context(), &b)
	clock.at = clock.at.Add(time.Second)
	h.fire()
	h.render(t.Context(), &b)
	if got := len(e.enters); got != 3 {
		t.Errorf("entered %d times, want 3: on coming, at a third of the lease, and after the loss", got)
	}
}
