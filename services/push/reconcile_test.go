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

// Reconciliation finds a change whose hint was lost, and reads the user again once.
func TestReconciliationFindsChangesWithoutAHint(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFakeBackend()
		e.setDocument(7, 100, 1)
		withHub(t, e, e.config(), func(h *Hub) {
			states := mustWatch(t, h, 7, "")
			passTime(300 * time.Millisecond)
			wantTotal(t, states, 1, "the first state")
			e.setDocument(7, 101, 2)
			passTime(time.Second)
			wantTotal(t, states, 2, "1 s after a change without a hint")
			if repairs := h.Stats().UsersRepaired; repairs != 1 {
				t.Errorf("%d repairs, want 1", repairs)
			}
			passTime(10 * time.Second)
			if stats := h.Stats(); stats.UsersRepaired != 1 || len(e.copyCalls(&e.renderCalls)) != 2 {
				t.Errorf("%d repairs, %d renders; want 1 and 2: nothing changed any more", stats.UsersRepaired, len(e.copyCalls(&e.renderCalls)))
			}
		})
	})
}

// If the render of a shared change finds no engine, it returns the earlier state, STALE
// and under its own version. The document does not show that change, so reconciliation reads the user again once Redis
// answers.
func TestReconciliationReadsAgainAfterAFailedRender(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFakeBackend()
		e.setDocument(7, 100, 1)
		withHub(t, e, e.config(), func(h *Hub) {
			states := mustWatch(t, h, 7, "")
			synctest.Wait()
			wantTotal(t, states, 1, "the first state")
			show := func(precision services.Precision, value int, shared uint64) {
				e.withLock(func(e *fakeBackend) {
					e.docs[7] = &services.Badges{Version: services.BadgesVersion(100, shared), Total: services.NewCount(value, precision, time.Time{})}
				})
			}
			show(services.Stale, 1, 0)
			e.withLock(func(e *fakeBackend) { e.versionsErr = errBackendUnavailable })
			h.HintSharedContent()
			passTime(2 * time.Second)
			wantTotal(t, states, -1, "the earlier state again")
			show(services.Exact, 2, 5)
			e.withLock(func(e *fakeBackend) { e.versionsErr = nil })
			passTime(time.Second)
			wantTotal(t, states, 2, "1 s after the engines answer")
			renders := len(e.copyCalls(&e.renderCalls))
			passTime(10 * time.Second)
			if got := len(e.copyCalls(&e.renderCalls)); got != renders {
				t.Errorf("%d more renders of an exact state", got-renders)
			}
		})
	})
}

// ReconcileAll finds a change without a hint at once, and not at the next tick.
func TestReconcileAllFindsChangesAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFakeBackend()
		e.setDocument(7, 100, 1)
		withHub(t, e, e.config(), func(h *Hub) {
			states := mustWatch(t, h, 7, "")
			synctest.Wait()
			takeTotal(states)
			e.setDocument(7, 101, 2)
			h.ReconcileAll()
			synctest.Wait()
			wantTotal(t, states, 2, "at once")
		})
	})
}

// A document whose version fell is read again, once, and that version is never sent; a missing one
// is rebuilt by Render. In both cases the lease may be lost too, and is written again.
func TestReconciliationRereadsLostDocuments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFakeBackend()
		e.setDocument(7, 100, 1)
		withHub(t, e, e.config(), func(h *Hub) {
			states := mustWatch(t, h, 7, "")
			synctest.Wait()
			takeTotal(states)
			e.setDocument(7, 50, 2)
			passTime(5 * time.Second)
			wantTotal(t, states, -1, "a version that fell")
			if renders, enters := len(e.copyCalls(&e.renderCalls)), len(e.copyCalls(&e.writeLeasesCalls)); renders != 2 || enters != 2 {
				t.Errorf("%d renders, leases written %d times; want 2 and 2", renders, enters)
			}
			e.setDocument(7, 101, 3)
			passTime(time.Second)
			wantTotal(t, states, 3, "a version that rose again")

			e.withLock(func(e *fakeBackend) { delete(e.docs, 7) })
			rebuilt := false
			e.setBeforeCall(func(_ context.Context, call string) {
				if call == "Render" && !rebuilt {
					rebuilt = true
					e.setDocument(7, 102, 4)
				}
			})
			passTime(time.Second)
			wantTotal(t, states, 4, "a document that was lost")
			if enters := len(e.copyCalls(&e.writeLeasesCalls)); enters != 3 {
				t.Errorf("leases written %d times, want 3", enters)
			}
		})
	})
}

// A document that is older than the shown state is reported with the shown version, whether
// reconciliation or a render before it finds it. The state rendered after that is sent. If the shown version came from a clock, a
// lower version of the document is not reported.
func TestReconciliationReportsVersionsThatFell(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFakeBackend()
		e.setDocument(7, 100, 1)
		config := e.config()
		var reports []uint64
		var refuses error
		config.MarkDocumentsLost = func(_ context.Context, users []services.UserID, shown []uint64) error {
			if len(users) != 1 || users[0] != 7 || len(shown) != 1 {
				t.Errorf("reported: %v at %v", users, shown)
			}
			var refused error
			e.withLock(func(*fakeBackend) { reports, refused = append(reports, shown[0]), refuses })
			if refused == nil {
				e.setDocument(7, shown[0]+1, 5)
			}
			return refused
		}
		seen := func() (list []uint64) {
			e.withLock(func(*fakeBackend) { list = slices.Clone(reports) })
			return list
		}
		withHub(t, e, config, func(h *Hub) {
			states := mustWatch(t, h, 7, "")
			synctest.Wait()
			takeTotal(states)
			e.setDocument(7, 50, 2)
			passTime(2 * time.Second)
			wantTotal(t, states, 5, "a document that fell")
			e.setDocument(7, 60, 3)
			h.HintSharedContent()
			synctest.Wait()
			wantTotal(t, states, -1, "the older one, rendered before the reconciliation")
			e.withLock(func(*fakeBackend) { refuses = errBackendUnavailable })
			passTime(2 * time.Second)
			e.withLock(func(*fakeBackend) { refuses = nil })
			passTime(2 * time.Second)
			wantTotal(t, states, 5, "a document that fell and was rendered")
			if reports := seen(); !slices.Equal(reports, []uint64{100, 101, 101, 101}) {
				t.Errorf("reported at %v, want 100 once and 101 until it was taken", reports)
			}
			e.withLock(func(e *fakeBackend) {
				fallback := services.Badges{Version: services.BadgesVersion(900, 0), Total: services.NewCount(8, services.Stale, time.Now())}
				e.docs[7] = &fallback
			})
			h.HintSharedContent()
			passTime(500 * time.Millisecond)
			wantTotal(t, states, 8, "a fallback")
			e.setDocument(7, 200, 9)
			passTime(5 * time.Second)
			if reports := seen(); len(reports) != 4 {
				t.Errorf("what follows a fallback is reported: %v", reports)
			}
		})
	})
}

// While Redis is away, reconciliation is tried each second, and states are right within a second after Redis is back.
func TestReconciliationContinuesWhileRedisIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFakeBackend()
		e.setDocument(7, 100, 1)
		withHub(t, e, e.config(), func(h *Hub) {
			states := mustWatch(t, h, 7, "")
			synctest.Wait()
			takeTotal(states)
			e.withLock(func(e *fakeBackend) { e.versionsErr = errBackendUnavailable })
			if err := h.reconcile(t.Context()); services.CodeOf(err) != services.Unavailable {
				t.Errorf("reconcile: %v, want UNAVAILABLE as DocumentVersions said", err)
			}
			e.setDocument(7, 101, 2)
			before := len(e.copyCalls(&e.versionsCalls))
			passTime(5500 * time.Millisecond)
			if tries := len(e.copyCalls(&e.versionsCalls)) - before; tries != 5 {
				t.Errorf("%d tries in 5.5 s, want 5", tries)
			}
			wantTotal(t, states, -1, "while Redis is away")
			e.withLock(func(e *fakeBackend) { e.versionsErr = nil })
			passTime(time.Second)
			wantTotal(t, states, 2, "1 s after Redis is back")
		})
	})
}

func TestWatchWhileRedisIsAway(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFakeBackend()
		e.setDocument(7, 100, 1)
		e.writeLeasesErr, e.versionsErr = errBackendUnavailable, errBackendUnavailable
		withHub(t, e, e.config(), func(h *Hub) {
			states := mustWatch(t, h, 7, "")
			synctest.Wait()
			wantTotal(t, states, 1, "the first state, without a lease")
			passTime(2500 * time.Millisecond)
			if tries := len(e.copyCalls(&e.writeLeasesCalls)); tries != 3 {
				t.Errorf("%d tries to write the lease, want 3: one on coming and one a reconciliation", tries)
			}
			e.withLock(func(e *fakeBackend) { e.writeLeasesErr, e.versionsErr = nil, nil })
			passTime(time.Second)
			e.withLock(func(e *fakeBackend) {
				if !e.leasedUsers[7] {
					t.Error("no lease 1 s after Redis is back")
				}
			})
			passTime(20 * time.Second)
			if tries := len(e.copyCalls(&e.writeLeasesCalls)); tries != 4 {
				t.Errorf("%d tries to write the lease, want 4: none after the one that worked", tries)
			}
		})
	})
}

// The lease of a watched user is written again when a third of its time has passed.
func TestLeaseIsRenewedAtAThird(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFakeBackend()
		e.setDocument(7, 100, 1)
		withHub(t, e, e.config(), func(h *Hub) {
			mustWatch(t, h, 7, "")
			passTime(95 * time.Second)
			want := []recordedCall{{1, 0}, {1, 30 * time.Second}, {1, 60 * time.Second}, {1, 90 * time.Second}}
			if got := e.copyCalls(&e.writeLeasesCalls); !slices.Equal(got, want) {
				t.Errorf("leases written at %v, want %v", got, want)
			}
		})
	})
}

// A user whose last watcher left loses the lease at once, and stays in the hub's memory for KeepUnwatchedFor.
func TestAnUnwatchedUserKeepsItsStateAndLosesItsLease(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFakeBackend()
		e.setDocument(7, 100, 1)
		withHub(t, e, e.config(), func(h *Hub) {
			visit := func() {
				ctx, cancel := context.WithCancel(t.Context())
				states, err := h.Watch(ctx, 7, "")
				if err != nil {
					t.Fatal(err)
				}
				synctest.Wait()
				wantTotal(t, states, 1, "the state on coming")
				cancel()
			}
			visit()
			passTime(1900 * time.Millisecond)
			if len(e.leasedUsers) != 0 || len(h.users) != 1 {
				t.Errorf("leased %d, here %d; want no lease, and a user who is remembered", len(e.leasedUsers), len(h.users))
			}
			visit() // the reconnect
			passTime(1900 * time.Millisecond)
			if len(e.leasedUsers) != 0 || len(h.users) != 1 {
				t.Errorf("on %d, here %d after a reconnect", len(e.leasedUsers), len(h.users))
			}
			e.setDocument(7, 101, 1)
			h.Hint(7, 101, trace.Cause{})
			passTime(2 * time.Second)
			if leaves := e.copyCalls(&e.removeLeasesCalls); len(leaves) != 2 || len(h.users) != 0 || len(h.reconcileOrder) != 0 {
				t.Errorf("leases removed %v, still here %d; want two calls, at each end, and none at the removal of the user", leaves, len(h.users))
			}
			if renders := len(e.copyCalls(&e.renderCalls)); renders != 2 {
				t.Errorf("%d renders, want 2: nobody watched when the hint came", renders)
			}
			visit()
			if enters := len(e.copyCalls(&e.writeLeasesCalls)); enters != 3 {
				t.Errorf("leases written %d times, want 3", enters)
			}
		})
	})
}

// RemoveLeases might take effect after the WriteLeases of a user who comes back, so their lease is written when RemoveLeases is
// answered.
func TestReturnDuringRemoveLeases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFakeBackend()
		e.setDocument(7, 100, 1)
		leaving, goOn := make(chan struct{}), make(chan struct{})
		withHub(t, e, e.config(), func(h *Hub) {
			ctx, cancel := context.WithCancel(t.Context())
			if _, err := h.Watch(ctx, 7, ""); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			e.setBeforeCall(func(_ context.Context, call string) {
				if call == "RemoveLeases" {
					leaving <- struct{}{}
					<-goOn
				}
			})
			cancel()
			<-leaving
			states := mustWatch(t, h, 7, "")
			synctest.Wait()
			wantTotal(t, states, 1, "the state, while RemoveLeases is under way")
			e.setBeforeCall(nil)
			goOn <- struct{}{}
			synctest.Wait()
			e.withLock(func(e *fakeBackend) {
				if !e.leasedUsers[7] {
					t.Error("watched and without a lease")
				}
			})
			e.setDocument(7, 101, 2)
			h.Hint(7, 101, trace.Cause{})
			passTime(100 * time.Millisecond)
			wantTotal(t, states, 2, "a hint after that")
		})
	})
}

// Every user is checked once, at most 1,000 in a call, also while some leave.
func TestReconciliationChecksEachUserOnceInPortions(t *testing.T) {
	clock := &manualClock{time.Unix(1000, 0)}
	e := newFakeBackend()
	config := e.config()
	config.Clock = clock
	seen := map[services.UserID]int{}
	versions := config.DocumentVersions
	config.DocumentVersions = func(ctx context.Context, users []services.UserID) ([]uint64, error) {
		for _, user := range users {
			seen[user]++
		}
		return versions(ctx, users)
	}
	h := New(config)
	var b renderBatch
	var leaving []*watcher
	for i := range 4500 {
		user := services.UserID(1 + i)
		e.setDocument(user, 100, i)
		w := &watcher{slot: newLatestSlot[*services.Badges]("")}
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
	e.writeLeasesCalls = nil
	if err := h.reconcile(t.Context()); err != nil {
		t.Fatal(err)
	}
	for user := services.UserID(1); user <= 4500; user++ {
		if want := min(1, int(user-1)%3); seen[user] != want {
			t.Fatalf("user %d was looked at %d times, want %d", user, seen[user], want)
		}
	}
	for name, list := range map[string][]recordedCall{"DocumentVersions": e.versionsCalls, "WriteLeases": e.writeLeasesCalls, "RemoveLeases": e.removeLeasesCalls} {
		sum := 0
		for _, call := range list {
			if call.userCount > maxUsersPerCall {
				t.Errorf("%s: %d users in a call", name, call.userCount)
			}
			sum += call.userCount
		}
		if want := map[string]int{"DocumentVersions": 3000, "WriteLeases": 3000, "RemoveLeases": 1500}[name]; sum != want {
			t.Errorf("%s: %d users, want %d", name, sum, want)
		}
	}
	if len(h.users) != 3000 || len(h.reconcileOrder) != 3000 {
		t.Errorf("%d and %d users are left, want 3,000", len(h.users), len(h.reconcileOrder))
	}
}
