package push

import (
	"context"
	"errors"
	"slices"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"tidings/services"
	"tidings/services/trace"
)

// The next reconciliation tries a failed render again. After a second failure the first reconciliation that comes
// at least ReconcileInterval later tries, and after further failures the first that comes at least three times ReconcileInterval
// later. Hints do not hurry the render.
func TestRenderErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFakeBackend()
		e.setDocument(7, 100, 1)
		withHub(t, e, e.config(), func(h *Hub) {
			states := mustWatch(t, h, 7, "")
			passTime(500 * time.Millisecond)
			wantTotal(t, states, 1, "the first state")
			e.withLock(func(e *fakeBackend) { e.renderErr = errors.New("broken"); e.renderCalls = nil })
			for i := range 160 {
				e.setDocument(7, uint64(101+i), 2+i)
				h.Hint(7, uint64(101+i), trace.Cause{})
				passTime(100 * time.Millisecond)
			}
			var at []time.Duration
			for _, call := range e.copyCalls(&e.renderCalls) {
				at = append(at, call.sinceBackendMade)
			}
			s := time.Second
			if want := []time.Duration{s / 2, 1 * s, 2 * s, 5 * s, 8 * s, 11 * s, 14 * s}; !slices.Equal(at, want) {
				t.Errorf("tried at %v, want %v", at, want)
			}
			if got := h.Stats().RenderErrors; got != 7 {
				t.Errorf("%d render errors, want 7", got)
			}
			wantTotal(t, states, -1, "while it fails")
			e.withLock(func(e *fakeBackend) { e.renderErr = nil })
			passTime(s / 10)
			wantTotal(t, states, -1, "before its turn")
			h.ReconcileAll()
			synctest.Wait()
			wantTotal(t, states, 161, "a resync does not wait for the turn")

			e.withLock(func(e *fakeBackend) { e.renderErr = errors.New("broken again") })
			e.setDocument(7, 300, 300)
			h.Hint(7, 300, trace.Cause{})
			passTime(s / 10)
			e.withLock(func(e *fakeBackend) { e.renderErr = nil })
			passTime(s)
			wantTotal(t, states, 300, "after a success the next reconciliation tries again")
		})
	})
}

// A watcher without a state gets UNKNOWN, one with a state keeps it, and both are tried again although
// Redis never reports a difference.
func TestUnknownIsSentAndRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFakeBackend()
		e.setDocument(7, 100, 1)
		withHub(t, e, e.config(), func(h *Hub) {
			old := mustWatch(t, h, 7, "")
			passTime(500 * time.Millisecond)
			wantTotal(t, old, 1, "the first state")
			unknown := &services.Badges{Version: services.BadgesVersion(0, 0), Total: services.NewCount(0, services.Unknown, time.Time{})}
			e.withLock(func(e *fakeBackend) { e.docs[7] = unknown; e.versionsErr = errBackendUnavailable; e.renderCalls = nil })
			newcomer := mustWatch(t, h, 7, "")
			passTime(5 * time.Second)
			wantTotal(t, old, -1, "who has something")
			wantTotal(t, newcomer, 0, "who has nothing")
			if tries := len(e.copyCalls(&e.renderCalls)); tries != 4 {
				t.Errorf("%d tries in 5 s, want 4: at their coming and by the 1st, 2nd and 5th reconciliation", tries)
			}
			e.setDocument(7, 101, 2)
			passTime(3 * time.Second)
			wantTotal(t, old, 2, "who had something, when it is known again")
			wantTotal(t, newcomer, 2, "who had nothing, when it is known again")
			passTime(10 * time.Second)
			if tries := len(e.copyCalls(&e.renderCalls)); tries != 5 {
				t.Errorf("%d tries, want 5: none after the one that worked", tries)
			}
		})
	})
}

func TestRenderWithoutAnAnswer(t *testing.T) {
	e := newFakeBackend()
	config := e.config()
	config.Render = func(context.Context, []services.UserID) ([]*services.Badges, []error) { return nil, nil }
	h := New(config)
	states := mustWatch(t, h, 7, "")
	var b renderBatch
	if !h.render(t.Context(), &b) || h.render(t.Context(), &b) {
		t.Error("want one batch and no more")
	}
	wantTotal(t, states, -1, "no state")
	if got := h.Stats().RenderErrors; got != 1 {
		t.Errorf("%d render errors, want 1", got)
	}
}

// If each batch waits for an answer that does not come, the rest waits for the next
// reconciliation. So the time of one reconciliation does not grow with the number of users.
func TestReconciliationStopsWhenRendersGetNoAnswer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFakeBackend()
		h := New(e.config())
		for i := range 5000 {
			mustWatch(t, h, services.UserID(1+i), "")
			e.setDocument(services.UserID(1+i), 1, 1)
		}
		var b renderBatch
		for h.render(t.Context(), &b) {
		}
		e.setBeforeCall(func(ctx context.Context, _ string) { <-ctx.Done() })
		start := time.Now()
		if err := h.reconcile(t.Context()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("reconcile: %v, want the deadline", err)
		}
		if took := time.Since(start); took > 2*redisCallTimeout {
			t.Errorf("the reconciliation took %v", took)
		}
		h.Drain()
	})
}

// Run takes back the leases of all users at its end, and does not wait forever for the answer.
func TestRunRemovesAllLeasesAtItsEnd(t *testing.T) {
	for name, silent := range map[string]bool{"OK": false, "Redis is silent": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newFakeBackend()
				var states <-chan *services.Badges
				var end time.Time
				withHub(t, e, e.config(), func(h *Hub) {
					for i := range 2500 {
						e.setDocument(services.UserID(1+i), 1, 5)
						states = mustWatch(t, h, services.UserID(1+i), "")
					}
					synctest.Wait()
					if silent {
						e.setBeforeCall(func(ctx context.Context, _ string) { <-ctx.Done() })
					}
					end = time.Now()
				})
				if took := time.Since(end); took > removeAllLeasesTimeout || !silent && took != 0 {
					t.Errorf("the end took %v", took)
				}
				wantTotal(t, states, 5, "what was not taken")
				wantTotal(t, states, -2, "the end")
				if !silent && len(e.leasedUsers) != 0 {
					t.Errorf("%d users still have leases", len(e.leasedUsers))
				}
			})
		})
	}
}

// A shared change may repair an UNKNOWN state, so its users are tried before their
// own turn.
func TestUnknownIsRetriedAfterASharedChange(t *testing.T) {
	for name, tell := range map[string]func(*Hub){"everybody": (*Hub).HintSharedContent, "some": func(h *Hub) { h.HintSharedContentOf([]services.UserID{7}) }} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newFakeBackend()
				e.setDocument(7, 100, 1)
				unknown := &services.Badges{Version: services.BadgesVersion(100, 0), Total: services.NewCount(0, services.Unknown, time.Time{})}
				e.withLock(func(e *fakeBackend) { e.docs[7] = unknown; e.versionsErr = errBackendUnavailable })
				withHub(t, e, e.config(), func(h *Hub) {
					states := mustWatch(t, h, 7, "")
					passTime(2500 * time.Millisecond)
					wantTotal(t, states, 0, "what is not known")
					e.setDocument(7, 101, 2)
					tell(h)
					passTime(time.Second)
					wantTotal(t, states, 2, "with the next reconciliation, and not at its turn")
				})
			})
		})
	}
}

// The other users of the batch get their states, and the process goes on.
func TestAPanicOfRenderFailsItsUserAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFakeBackend()
		config := e.config()
		render := config.Render
		config.Render = func(ctx context.Context, users []services.UserID) ([]*services.Badges, []error) {
			if slices.Contains(users, 8) {
				panic("while it renders")
			}
			return render(ctx, users)
		}
		for user := range services.UserID(10) {
			e.setDocument(user, 100, int(user))
		}
		withHub(t, e, config, func(h *Hub) {
			var states []<-chan *services.Badges
			for user := range services.UserID(10) {
				states = append(states, mustWatch(t, h, user, ""))
			}
			passTime(time.Second)
			for user, one := range states {
				if want := user; user == 8 {
					wantTotal(t, one, -1, "the user whose render panics")
				} else {
					wantTotal(t, one, want, "another user")
				}
			}
			if got := h.Stats().RenderErrors; got == 0 {
				t.Error("no render failed")
			}
		})
	})
}

// After a panic of DocumentVersions the hub goes on, and the next reconciliation tries again.
func TestAPanicOfDocumentVersionsIsTriedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFakeBackend()
		config := e.config()
		var mended atomic.Bool
		versions := config.DocumentVersions
		config.DocumentVersions = func(ctx context.Context, users []services.UserID) ([]uint64, error) {
			if !mended.Load() {
				panic("while it reads")
			}
			return versions(ctx, users)
		}
		e.setDocument(7, 100, 1)
		withHub(t, e, config, func(h *Hub) {
			states := mustWatch(t, h, 7, "")
			passTime(2 * time.Second)
			wantTotal(t, states, 1, "the first state")
			mended.Store(true)
			e.setDocument(7, 101, 2)
			passTime(2 * time.Second)
			wantTotal(t, states, 2, "after a change without a hint")
		})
	})
}
