package push

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"tidings/services"
	"tidings/services/trace"
)

func TestSweepFindsChangesWithoutAHint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngines()
		e.set(7, 100, 1)
		withHub(t, e, e.config(), func(h *Hub) {
			states := mustWatch(t, h, 7, "")
			pass(300 * time.Millisecond)
			wantTaken(t, states, 1, "the first state")
			e.set(7, 101, 2)
			pass(time.Second)
			wantTaken(t, states, 2, "1 s after a change without a hint")
			if repairs := h.Stats().Repairs; repairs != 1 {
				t.Errorf("%d repairs, want 1", repairs)
			}
			pass(10 * time.Second)
			if stats := h.Stats(); stats.Repairs != 1 || len(e.calls(&e.renders)) != 2 {
				t.Errorf("%d repairs, %d renders; want 1 and 2: nothing changed any more", stats.Repairs, len(e.calls(&e.renders)))
			}
		})
	})
}

// TestSweepRereadsAfterAFailedRender: if the render of a shared change finds no engine, it returns the earlier state, STALE
// and under its own version. The document does not show that change, so reconciliation reads the user again once Redis
// answers.
func TestSweepRereadsAfterAFailedRender(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngines()
		e.set(7, 100, 1)
		withHub(t, e, e.config(), func(h *Hub) {
			states := mustWatch(t, h, 7, "")
			synctest.Wait()
			wantTaken(t, states, 1, "the first state")
			show := func(precision services.Precision, value int, shared uint64) {
				e.withLock(func(e *engines) {
					e.docs[7] = &services.Badges{Version: services.Version(100, shared), Total: services.NewCount(value, precision, time.Time{})}
				})
			}
			show(services.Stale, 1, 0)
			e.withLock(func(e *engines) { e.versionsErr = errAway })
			h.HintShared()
			pass(2 * time.Second)
			wantTaken(t, states, -1, "the earlier state again")
			show(services.Exact, 2, 5)
			e.withLock(func(e *engines) { e.versionsErr = nil })
			pass(time.Second)
			wantTaken(t, states, 2, "1 s after the engines answer")
			renders := len(e.calls(&e.renders))
			pass(10 * time.Second)
			if got := len(e.calls(&e.renders)); got != renders {
				t.Errorf("%d more renders of an exact state", got-renders)
			}
		})
	})
}

func TestHintAll(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngines()
		e.set(7, 100, 1)
		withHub(t, e, e.config(), func(h *Hub) {
			states := mustWatch(t, h, 7, "")
			synctest.Wait()
			take(states)
			e.set(7, 101, 2)
			h.HintAll()
			synctest.Wait()
			wantTaken(t, states, 2, "at once")
		})
	})
}

// TestSweepAfterLostData: a document whose version fell is read again, once, and that version is never sent; a missing one
// is rebuilt by Render. In both cases the lease may be lost too, and is written again.
func TestSweepAfterLostData(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngines()
		e.set(7, 100, 1)
		withHub(t, e, e.config(), func(h *Hub) {
			states := mustWatch(t, h, 7, "")
			synctest.Wait()
			take(states)
			e.set(7, 50, 2)
			pass(5 * time.Second)
			wantTaken(t, states, -1, "a version that fell")
			if renders, enters := len(e.calls(&e.renders)), len(e.calls(&e.enters)); renders != 2 || enters != 2 {
				t.Errorf("%d renders, %d enters; want 2 and 2", renders, enters)
			}
			e.set(7, 101, 3)
			pass(time.Second)
			wantTaken(t, states, 3, "a version that rose again")

			e.withLock(func(e *engines) { delete(e.docs, 7) })
			rebuilt := false
			e.holdUp(func(_ context.Context, call string) {
				if call == "render" && !rebuilt {
					rebuilt = true
					e.set(7, 102, 4)
				}
			})
			pass(time.Second)
			wantTaken(t, states, 4, "a document that was lost")
			if enters := len(e.calls(&e.enters)); enters != 3 {
				t.Errorf("%d enters, want 3", enters)
			}
		})
	})
}

// TestSweepReportsVersionsThatFell: a document that is older than the shown state is reported with the shown version, whether
// reconciliation or a render before it finds it. The state rendered after that is sent. If the shown version came from a clock, a
// lower version of the document is not reported.
func TestSweepReportsVersionsThatFell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngines()
		e.set(7, 100, 1)
		config := e.config()
		var reports []uint64
		var refuses error
		config.Lost = func(_ context.Context, users []services.UserID, shown []uint64) error {
			if len(users) != 1 || users[0] != 7 || len(shown) != 1 {
				t.Errorf("reported: %v at %v", users, shown)
			}
			var refused error
			e.withLock(func(*engines) { reports, refused = append(reports, shown[0]), refuses })
			if refused == nil {
				e.set(7, shown[0]+1, 5)
			}
			return refused
		}
		seen := func() (list []uint64) {
			e.withLock(func(*engines) { list = slices.Clone(reports) })
			return list
		}
		withHub(t, e, config, func(h *Hub) {
			states := mustWatch(t, h, 7, "")
			synctest.Wait()
			take(states)
			e.set(7, 50, 2)
			pass(2 * time.Second)
			wantTaken(t, states, 5, "a document that fell")
			e.set(7, 60, 3)
			h.HintShared()
			synctest.Wait()
			wantTaken(t, states, -1, "the older one, rendered before the sweep")
			e.withLock(func(*engines) { refuses = errAway })
			pass(2 * time.Second)
			e.withLock(func(*engines) { refuses = nil })
			pass(2 * time.Second)
			wantTaken(t, states, 5, "a document that fell and was rendered")
			if reports := seen(); !slices.Equal(reports, []uint64{100, 101, 101, 101}) {
				t.Errorf("reported at %v, want 100 once and 101 until it was taken", reports)
			}
			e.withLock(func(e *engines) {
				guess := services.Badges{Version: services.Version(900, 0), Total: services.NewCount(8, services.Stale, time.Now())}
				e.docs[7] = &guess
			})
			h.HintShared()
			pass(500 * time.Millisecond)
			wantTaken(t, states, 8, "a guess")
			e.set(7, 200, 9)
			pass(5 * time.Second)
			if reports := seen(); len(reports) != 4 {
				t.Errorf("what follows a guess is reported: %v", reports)
			}
		})
	})
}

// TestSweepWhileRedisIsAway: reconciliation is tried each second, and states are right within a second after Redis is back.
func TestSweepWhileRedisIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngines()
		e.set(7, 100, 1)
		withHub(t, e, e.config(), func(h *Hub) {
			states := mustWatch(t, h, 7, "")
			synctest.Wait()
			take(states)
			e.withLock(func(e *engines) { e.versionsErr = errAway })
			if err := h.sweep(t.Context()); services.CodeOf(err) != services.Unavailable {
				t.Errorf("Sweep: %v, want UNAVAILABLE as Versions said", err)
			}
			e.set(7, 101, 2)
			before := len(e.calls(&e.versions))
			pass(5500 * time.Millisecond)
			if tries := len(e.calls(&e.versions)) - before; tries != 5 {
				t.Errorf("%d tries in 5.5 s, want 5", tries)
			}
			wantTaken(t, states, -1, "while Redis is away")
			e.withLock(func(e *engines) { e.versionsErr = nil })
			pass(time.Second)
			wantTaken(t, states, 2, "1 s after Redis is back")
		})
	})
}

func TestWatchWhileRedisIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngines()
		e.set(7, 100, 1)
		e.enterErr, e.versionsErr = errAway, errAway
		withHub(t, e, e.config(), func(h *Hub) {
			states := mustWatch(t, h, 7, "")
			synctest.Wait()
			wantTaken(t, states, 1, "the first state, without a lease")
			pass(2500 * time.Millisecond)
			if tries := len(e.calls(&e.enters)); tries != 3 {
				t.Errorf("%d tries to enter, want 3: one on coming and one a sweep", tries)
			}
			e.withLock(func(e *engines) { e.enterErr, e.versionsErr = nil, nil })
			pass(time.Second)
			e.withLock(func(e *engines) {
				if !e.leased[7] {
					t.Error("not entered 1 s after Redis is back")
				}
			})
			pass(20 * time.Second)
			if tries := len(e.calls(&e.enters)); tries != 4 {
				t.Errorf("%d tries to enter, want 4: none after the one that worked", tries)
			}
		})
	})
}

func TestLeaseIsRenewedAtAThird(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngines()
		e.set(7, 100, 1)
		withHub(t, e, e.config(), func(h *Hub) {
			mustWatch(t, h, 7, "")
			pass(95 * time.Second)
			want := []recordedCall{{1, 0}, {1, 30 * time.Second}, {1, 60 * time.Second}, {1, 90 * time.Second}}
			if got := e.calls(&e.enters); !slices.Equal(got, want) {
				t.Errorf("entered at %v, want %v", got, want)
			}
		})
	})
}

func TestLinger(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngines()
		e.set(7, 100, 1)
		withHub(t, e, e.config(), func(h *Hub) {
			visit := func() {
				ctx, cancel := context.WithCancel(t.Context())
				states, err := h.Watch(ctx, 7, "")
				if err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				wantTaken(t, states, 1, "the state on coming")
				cancel()
			}
			visit()
			pass(1900 * time.Millisecond)
			if len(e.leased) != 0 || len(h.users) != 1 {
				t.Errorf("leased %d, here %d; want no lease, and a user who is remembered", len(e.leased), len(h.users))
			}
			visit() // the reconnect
			pass(1900 * time.Millisecond)
			if len(e.leased) != 0 || len(h.users) != 1 {
				t.Errorf("on %d, here %d after a reconnect", len(e.leased), len(h.users))
			}
			e.set(7, 101, 1)
			h.Hint(7, 101, trace.Cause{})
			pass(2 * time.Second)
			if leaves := e.calls(&e.leaves); len(leaves) != 2 || len(h.users) != 0 || len(h.order) != 0 {
				t.Errorf("left %v, still here %d; want two leaves, at each end, and none at the removal", leaves, len(h.users))
			}
			if renders := len(e.calls(&e.renders)); renders != 2 {
				t.Errorf("%d renders, want 2: nobody watched when the hint came", renders)
			}
			visit()
			if enters := len(e.calls(&e.enters)); enters != 3 {
				t.Errorf("entered %d times, want 3", enters)
			}
		})
	})
}

// TestReturnDuringLeave: Leave might take effect after the Enter of a user who comes back, so they enter when it is answered.
func TestReturnDuringLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngines()
		e.set(7, 100, 1)
		leaving, goOn := make(chan struct{}), make(chan struct{})
		withHub(t, e, e.config(), func(h *Hub) {
			ctx, cancel := context.WithCancel(t.Context())
			if _, err := h.Watch(ctx, 7, ""); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			e.holdUp(func(_ context.Context, call string) {
				if call == "leave" {
					leaving <- struct{}{}
					<-goOn
				}
			})
			cancel()
			<-leaving
			states := mustWatch(t, h, 7, "")
			synctest.Wait()
			wantTaken(t, states, 1, "the state, while Leave is under way")
			e.holdUp(nil)
			goOn <- struct{}{}
			synctest.Wait()
			e.withLock(func(e *engines) {
				if !e.leased[7] {
					t.Error("watched and not entered")
				}
			})
			e.set(7, 101, 2)
			h.Hint(7, 101, trace.Cause{})
			pass(100 * time.Millisecond)
			wantTaken(t, states, 2, "a hint after that")
		})
	})
}

// TestSweepPortions: every user is checked once, at most 1,000 in a call, also while some leave.
func TestSweepPortions(t *testing.T) {
	clock := &manualClock{time.Unix(1000, 0)}
	e := newEngines()
	config := e.config()
	config.Clock = clock
	seen := map[services.UserID]int{}
	versions := config.Versions
	config.Versions = func(ctx context.Context, users []services.UserID) ([]uint64, error) {
		for _, user := range users {
			seen[user]++
		}
		return versions(ctx, users)
	}
	h := New(config)
	var b batch
	var leaving []*watcher
	for i := range 4500 {
		user := services.UserID(1 + i)
		e.set(user, 100, i)
		w := &watcher{slot: newSlot[*services.Badges]("")}
		w.user = h.findOrAddUser(user)
		h.addWatcher(w.user, w)
		if i%3 == 0 {
			leaving = append(leaving, w)
		}
	}
	for h.render(t.Context(), &b) {
	}
	for _, w := range leaving {
		h.removeWatcher(w.user, w, h.now())
	}
	clock.at = clock.at.Add(31 * time.Second)
	e.enters = nil
	if err := h.sweep(t.Context()); err != nil {
		t.Fatal(err)
	}
	for user := services.UserID(1); user <= 4500; user++ {
		if want := min(1, int(user-1)%3); seen[user] != want {
			t.Fatalf("user %d was looked at %d times, want %d", user, seen[user], want)
		}
	}
	for name, list := range map[string][]recordedCall{"versions": e.versions, "enter": e.enters, "leave": e.leaves} {
		sum := 0
		for _, call := range list {
			if call.count > maxSweep {
				t.Errorf("%s: %d users in a call", name, call.count)
			}
			sum += call.count
		}
		if want := map[string]int{"versions": 3000, "enter": 3000, "leave": 1500}[name]; sum != want {
			t.Errorf("%s: %d users, want %d", name, sum, want)
		}
	}
	if len(h.users) != 3000 || len(h.order) != 3000 {
		t.Errorf("%d and %d users are left, want 3,000", len(h.users), len(h.order))
	}
}
