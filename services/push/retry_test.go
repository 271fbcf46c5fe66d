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

// TestRenderErrors: the next reconciliation tries a failed render again. After a second failure the first reconciliation that comes at
// least Sweep later tries, and after further failures the first that comes at least three times Sweep later. Hints do not hurry the
// render.
func TestRenderErrors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngines()
		e.set(7, 100, 1)
		withHub(t, e, e.config(), func(h *Hub) {
			states := mustWatch(t, h, 7, "")
			pass(500 * time.Millisecond)
			wantTaken(t, states, 1, "the first state")
			e.withLock(func(e *engines) { e.renderErr = errors.New("broken"); e.renders = nil })
			for i := range 160 {
				e.set(7, uint64(101+i), 2+i)
				h.Hint(7, uint64(101+i), trace.Cause{})
				pass(100 * time.Millisecond)
			}
			var at []time.Duration
			for _, call := range e.calls(&e.renders) {
				at = append(at, call.at)
			}
			s := time.Second
			if want := []time.Duration{s / 2, 1 * s, 2 * s, 5 * s, 8 * s, 11 * s, 14 * s}; !slices.Equal(at, want) {
				t.Errorf("tried at %v, want %v", at, want)
			}
			if got := h.Stats().RenderErrors; got != 7 {
				t.Errorf("%d render errors, want 7", got)
			}
			wantTaken(t, states, -1, "while it fails")
			e.withLock(func(e *engines) { e.renderErr = nil })
			pass(s / 10)
			wantTaken(t, states, -1, "before its turn")
			h.HintAll()
			synctest.Wait()
			wantTaken(t, states, 161, "a resync does not wait for the turn")

			e.withLock(func(e *engines) { e.renderErr = errors.New("broken again") })
			e.set(7, 300, 300)
			h.Hint(7, 300, trace.Cause{})
			pass(s / 10)
			e.withLock(func(e *engines) { e.renderErr = nil })
			pass(s)
			wantTaken(t, states, 300, "after a success the next sweep tries again")
		})
	})
}

// TestUnknownIsSentAndRetried: a watcher without a state gets UNKNOWN, one with a state keeps it, and both are tried again although Redis
// never reports a difference.
func TestUnknownIsSentAndRetried(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngines()
		e.set(7, 100, 1)
		withHub(t, e, e.config(), func(h *Hub) {
			old := mustWatch(t, h, 7, "")
			pass(500 * time.Millisecond)
			wantTaken(t, old, 1, "the first state")
			unknown := &services.Badges{Version: services.Version(0, 0), Total: services.NewCount(0, services.Unknown, time.Time{})}
			e.withLock(func(e *engines) { e.docs[7] = unknown; e.versionsErr = errAway; e.renders = nil })
			newcomer := mustWatch(t, h, 7, "")
			pass(5 * time.Second)
			wantTaken(t, old, -1, "who has something")
			wantTaken(t, newcomer, 0, "who has nothing")
			if tries := len(e.calls(&e.renders)); tries != 4 {
				t.Errorf("%d tries in 5 s, want 4: at their coming and by the 1st, 2nd and 5th reconciliation", tries)
			}
			e.set(7, 101, 2)
			pass(3 * time.Second)
			wantTaken(t, old, 2, "who had something, when it is known again")
			wantTaken(t, newcomer, 2, "who had nothing, when it is known again")
			pass(10 * time.Second)
			if tries := len(e.calls(&e.renders)); tries != 5 {
				t.Errorf("%d tries, want 5: none after the one that worked", tries)
			}
		})
	})
}

func TestRenderWithoutAnAnswer(t *testing.T) {
	e := newEngines()
	config := e.config()
	config.Render = func(context.Context, []services.UserID) ([]*services.Badges, []error) { return nil, nil }
	h := New(config)
	states := mustWatch(t, h, 7, "")
	var b batch
	if !h.render(t.Context(), &b) || h.render(t.Context(), &b) {
		t.Error("want one batch and no more")
	}
	wantTaken(t, states, -1, "no state")
	if got := h.Stats().RenderErrors; got != 1 {
		t.Errorf("%d render errors, want 1", got)
	}
}

// TestSweepGivesUpOnSilence: if each portion waits for an answer that does not come, the rest waits for the next
// reconciliation. So the time of one reconciliation does not grow with the number of users.
func TestSweepGivesUpOnSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngines()
		h := New(e.config())
		for i := range 5000 {
			mustWatch(t, h, services.UserID(1+i), "")
			e.set(services.UserID(1+i), 1, 1)
		}
		var b batch
		for h.render(t.Context(), &b) {
		}
		e.holdUp(func(ctx context.Context, _ string) { <-ctx.Done() })
		start := time.Now()
		if err := h.sweep(t.Context()); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("Sweep: %v, want the deadline", err)
		}
		if took := time.Since(start); took > 2*callTimeout {
			t.Errorf("the sweep took %v", took)
		}
		h.Drain()
	})
}

// TestRunEnds: Run takes back the leases of all users at its end, and does not wait forever for the answer.
func TestRunEnds(t *testing.T) {
	for name, silent := range map[string]bool{"OK": false, "Redis is silent": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newEngines()
				var states <-chan *services.Badges
				var end time.Time
				withHub(t, e, e.config(), func(h *Hub) {
					for i := range 2500 {
						e.set(services.UserID(1+i), 1, 5)
						states = mustWatch(t, h, services.UserID(1+i), "")
					}
					synctest.Wait()
					if silent {
						e.holdUp(func(ctx context.Context, _ string) { <-ctx.Done() })
					}
					end = time.Now()
				})
				if took := time.Since(end); took > leaveTimeout || !silent && took != 0 {
					t.Errorf("the end took %v", took)
				}
				wantTaken(t, states, 5, "what was not taken")
				wantTaken(t, states, -2, "the end")
				if !silent && len(e.leased) != 0 {
					t.Errorf("%d users are still entered", len(e.leased))
				}
			})
		})
	}
}

// TestUnknownIsRetriedAfterASharedChange: a shared change may repair an UNKNOWN state, so its users are tried before their
// own turn.
func TestUnknownIsRetriedAfterASharedChange(t *testing.T) {
	for name, tell := range map[string]func(*Hub){"everybody": (*Hub).HintShared, "some": func(h *Hub) { h.HintSharedOf([]services.UserID{7}) }} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newEngines()
				e.set(7, 100, 1)
				unknown := &services.Badges{Version: services.Version(100, 0), Total: services.NewCount(0, services.Unknown, time.Time{})}
				e.withLock(func(e *engines) { e.docs[7] = unknown; e.versionsErr = errAway })
				withHub(t, e, e.config(), func(h *Hub) {
					states := mustWatch(t, h, 7, "")
					pass(2500 * time.Millisecond)
					wantTaken(t, states, 0, "what is not known")
					e.set(7, 101, 2)
					tell(h)
					pass(time.Second)
					wantTaken(t, states, 2, "with the next sweep, and not at its turn")
				})
			})
		})
	}
}

// TestAPanicOfRenderFailsItsUserAlone: the other users of the batch get their states, and the process goes on.
func TestAPanicOfRenderFailsItsUserAlone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngines()
		config := e.config()
		render := config.Render
		config.Render = func(ctx context.Context, users []services.UserID) ([]*services.Badges, []error) {
			if slices.Contains(users, 8) {
				panic("while it renders")
			}
			return render(ctx, users)
		}
		for user := range services.UserID(10) {
			e.set(user, 100, int(user))
		}
		withHub(t, e, config, func(h *Hub) {
			var states []<-chan *services.Badges
			for user := range services.UserID(10) {
				states = append(states, mustWatch(t, h, user, ""))
			}
			pass(time.Second)
			for user, one := range states {
				if want := user; user == 8 {
					wantTaken(t, one, -1, "the user whose render panics")
				} else {
					wantTaken(t, one, want, "another user")
				}
			}
			if got := h.Stats().RenderErrors; got == 0 {
				t.Error("no render failed")
			}
		})
	})
}

// TestAPanicOfVersionsEndsNothing: the next reconciliation tries again.
func TestAPanicOfVersionsEndsNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngines()
		config := e.config()
		var mended atomic.Bool
		versions := config.Versions
		config.Versions = func(ctx context.Context, users []services.UserID) ([]uint64, error) {
			if !mended.Load() {
				panic("while it reads")
			}
			return versions(ctx, users)
		}
		e.set(7, 100, 1)
		withHub(t, e, config, func(h *Hub) {
			states := mustWatch(t, h, 7, "")
			pass(2 * time.Second)
			wantTaken(t, states, 1, "the first state")
			mended.Store(true)
			e.set(7, 101, 2)
			pass(2 * time.Second)
			wantTaken(t, states, 2, "after a change without a hint")
		})
	})
}
