package push

import (
	"context"
	"testing"
	"tidings/services/trace"
	"time"
)

// A change before the lease is written has no hint to this node, so the same
// reconciliation finds it.
func TestReconciliationWritesLeasesBeforeItCompares(t *testing.T) {
	e := newFakeBackend()
	e.setDocument(7, 100, 1)
	e.writeLeasesErr = errBackendUnavailable
	h := New(e.config())
	states := mustWatch(t, h, 7, "")
	var b renderBatch
	h.render(t.Context(), &b)
	wantTotal(t, states, 1, "the first state, without a lease")
	e.writeLeasesErr = nil
	e.beforeCall = func(_ context.Context, call string) {
		if call == "WriteLeases" {
			e.setDocument(7, 101, 2)
		}
	}
	if err := h.reconcile(t.Context()); err != nil {
		t.Fatal(err)
	}
	e.beforeCall = nil
	h.render(t.Context(), &b)
	wantTotal(t, states, 2, "after one reconciliation")
}

// If reconciliation finds lost data while WriteLeases is in flight, the lease is written again: whether Redis wrote the lease before
// or after the loss is unknown.
func TestALossDuringWriteLeasesRewritesTheLease(t *testing.T) {
	clock := &manualClock{time.Unix(1000, 0)}
	e := newFakeBackend()
	e.setDocument(7, 100, 1)
	config := e.config()
	config.Clock = clock
	h := New(config)
	mustWatch(t, h, 7, "")
	var b renderBatch
	h.render(t.Context(), &b)

	clock.at = clock.at.Add(31 * time.Second) // the lease is renewed with the next read
	h.Hint(7, 101, trace.Cause{})
	e.beforeCall = func(ctx context.Context, call string) {
		if call == "WriteLeases" {
			e.setBeforeCall(nil)
			e.setDocument(7, 50, 2)
			if err := h.reconcile(ctx); err != nil {
				t.Error(err)
			}
		}
	}
	h.render(t.Context(), &b)
	clock.at = clock.at.Add(time.Second)
	h.fireDueTimers()
	h.render(t.Context(), &b)
	if got := len(e.writeLeasesCalls); got != 3 {
		t.Errorf("the lease was written %d times, want 3: on coming, at a third of the lease, and after the loss", got)
	}
}
