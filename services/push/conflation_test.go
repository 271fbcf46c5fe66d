package push

import (
	"context"
	"runtime"
	"testing"
	"testing/synctest"
	"time"

	"tidings/services"
	"tidings/services/trace"
)

// If a change comes every 10 ms, every tenth state is sent, and it is the newest at that time.
func TestFrequentChangesAreConflated(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFakeBackend()
		e.setDocument(7, 100, 0)
		withHub(t, e, e.config(), func(h *Hub) {
			states := mustWatch(t, h, 7, "")
			synctest.Wait()
			wantTotal(t, states, 0, "the first state")
			for i := range 100 {
				e.setDocument(7, uint64(101+i), 1+i)
				h.Hint(7, uint64(101+i), trace.Cause{})
				synctest.Wait()
				want := -1
				if i%10 == 0 {
					want = 1 + i
				}
				// The timer of the tenth step and the step itself happen at the same time, in either order. In both cases
				// the newest state is sent at that time.
				if got := takeTotal(states); got != want && got != want-1 {
					t.Fatalf("after %d ms: got %d, want %d", i*10, got, want)
				}
				<-time.After(10 * time.Millisecond)
			}
			passTime(100 * time.Millisecond)
			wantTotal(t, states, 100, "the last change")
			passTime(900 * time.Millisecond)
			wantTotal(t, states, -1, "nothing after the last")
			if got := len(e.copyCalls(&e.renderCalls)); got > 13 {
				t.Errorf("%d renders for 100 changes in one second, want 13 at most", got)
			}
		})
	})
}

// Nothing queues, and the next receive gets the newest state.
func TestConflationOfASlowConsumer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFakeBackend()
		e.setDocument(7, 100, 0)
		withHub(t, e, e.config(), func(h *Hub) {
			slow, quick := mustWatch(t, h, 7, ""), mustWatch(t, h, 7, "")
			synctest.Wait()
			for i := range 5 {
				takeTotal(quick)
				e.setDocument(7, uint64(101+i), 1+i)
				h.Hint(7, uint64(101+i), trace.Cause{})
				passTime(150 * time.Millisecond)
			}
			wantTotal(t, quick, 5, "the quick one")
			wantTotal(t, slow, 5, "the slow one")
			wantTotal(t, slow, -1, "the slow one, again")
			stats := h.Stats()
			if stats.StatesDelivered != 12 || stats.StatesReplaced != 5 {
				t.Errorf("delivered %d, conflated %d; want 12 and 5", stats.StatesDelivered, stats.StatesReplaced)
			}
		})
	})
}

// A watcher who arrives while the others are throttled gets the first state at once. The others
// still get their next state when it is due.
func TestANewWatcherIsServedAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFakeBackend()
		e.setDocument(7, 100, 0)
		withHub(t, e, e.config(), func(h *Hub) {
			first := mustWatch(t, h, 7, "")
			synctest.Wait()
			e.setDocument(7, 101, 1)
			h.Hint(7, 101, trace.Cause{})
			synctest.Wait()
			wantTotal(t, first, 1, "the first change")
			e.setDocument(7, 102, 2)
			h.Hint(7, 102, trace.Cause{})
			passTime(50 * time.Millisecond)
			second := mustWatch(t, h, 7, "")
			synctest.Wait()
			wantTotal(t, second, 2, "the newcomer, at once")
			wantTotal(t, first, -1, "the other, before their turn")
			passTime(49 * time.Millisecond)
			wantTotal(t, first, -1, "the other, still before their turn")
			passTime(time.Millisecond)
			wantTotal(t, first, 2, "the other, in their turn")
			wantTotal(t, second, -1, "the newcomer has it already")
		})
	})
}

// A read that is in flight when a hint comes may have missed the change, so another read
// follows it.
func TestAHintDuringARenderCausesAnother(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFakeBackend()
		e.setDocument(7, 100, 0)
		config := e.config()
		read, goOn := make(chan struct{}), make(chan struct{})
		render := config.Render
		slow := false
		config.Render = func(ctx context.Context, users []services.UserID) ([]*services.Badges, []error) {
			badges, errs := render(ctx, users)
			if slow {
				read <- struct{}{}
				<-goOn
			}
			return badges, errs
		}
		withHub(t, e, config, func(h *Hub) {
			states := mustWatch(t, h, 7, "")
			synctest.Wait()
			wantTotal(t, states, 0, "the first state")
			slow = true
			e.setDocument(7, 101, 1)
			h.Hint(7, 101, trace.Cause{})
			<-read
			slow = false
			e.setDocument(7, 102, 2)
			h.Hint(7, 102, trace.Cause{})
			goOn <- struct{}{}
			synctest.Wait()
			wantTotal(t, states, 1, "what was under way")
			passTime(100 * time.Millisecond)
			wantTotal(t, states, 2, "what was hinted meanwhile, without a reconciliation")
			if repairs := h.Stats().UsersRepaired; repairs != 0 {
				t.Errorf("%d repairs, want none", repairs)
			}
		})
	})
}

// TestNoGoroutinePerWatcher counts goroutines while 2,000 users have two watchers each.
func TestNoGoroutinePerWatcher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFakeBackend()
		withHub(t, e, e.config(), func(h *Hub) {
			before := runtime.NumGoroutine()
			for i := range 4000 {
				user := services.UserID(1 + i%2000)
				e.setDocument(user, 1, 1)
				mustWatch(t, h, user, "")
			}
			passTime(3 * time.Second)
			if after := runtime.NumGoroutine(); after > before+10 {
				t.Errorf("%d goroutines with 4,000 watchers, %d without", after, before)
			}
			if stats := h.Stats(); stats.StatesDelivered != 4000 || stats.Watchers != 4000 || stats.OnlineUsers != 2000 {
				t.Errorf("%+v, want 4,000 delivered to 4,000 watchers of 2,000 users", stats)
			}
		})
	})
}

// Waiting users are read together, after their leases are written, and in batches of at most
// maxUsersPerRender.
func TestWaitingUsersAreReadInBatches(t *testing.T) {
	e := newFakeBackend()
	config := e.config()
	render := config.Render
	config.Render = func(ctx context.Context, users []services.UserID) ([]*services.Badges, []error) {
		for _, user := range users {
			if !e.leasedUsers[user] {
				t.Errorf("user %d is read before their lease is written", user)
			}
		}
		return render(ctx, users)
	}
	h := New(config)
	var open []<-chan *services.Badges
	for i := range 600 {
		e.setDocument(services.UserID(1+i), 1, i)
		open = append(open, mustWatch(t, h, services.UserID(1+i), ""))
	}
	var b renderBatch
	for h.render(t.Context(), &b) {
	}
	for i, states := range open {
		wantTotal(t, states, i, "the first state")
	}
	for _, list := range [][]recordedCall{e.renderCalls, e.writeLeasesCalls} {
		if len(list) != 3 || list[0].userCount != maxUsersPerRender || list[1].userCount != maxUsersPerRender || list[2].userCount != 600-2*maxUsersPerRender {
			t.Errorf("600 users were served in the batches %v", list)
		}
	}
}

// A newcomer's state comes from a read that began after they came, not from the one in flight.
func TestANewWatcherDuringARender(t *testing.T) {
	e := newFakeBackend()
	e.setDocument(7, 100, 1)
	config := e.config()
	h := New(config)
	first := mustWatch(t, h, 7, "")
	var second <-chan *services.Badges
	render := config.Render
	h.config.Render = func(ctx context.Context, users []services.UserID) ([]*services.Badges, []error) {
		badges, errs := render(ctx, users)
		if second == nil {
			e.setDocument(7, 101, 2) // before the newcomer arrives and after the read began; the hint was sent long before
			second = mustWatch(t, h, 7, "")
		}
		return badges, errs
	}
	var b renderBatch
	h.render(t.Context(), &b)
	wantTotal(t, first, 1, "who was there")
	wantTotal(t, second, -1, "who came during the read")
	h.render(t.Context(), &b)
	wantTotal(t, second, 2, "who came during the read, after another")
}
