package push

import (
	"context"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"tidings/services"
)

func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngines()
		e.set(7, 100, 1)
		var states <-chan *services.Badges
		running(t, e, e.config(), func(h *Hub) {
			states = mustWatch(t, h, 7, "")
			synctest.Wait()
			wantTaken(t, states, 1, "the first state")

			e.set(7, 101, 2)
			h.Hint(7, 101)
			synctest.Wait()
			wantTaken(t, states, 2, "the first change, no time having passed")

			h.Hint(7, 101)
			h.Hint(7, 99)
			h.Hint(8, 1000)
			pass(500 * time.Millisecond)
			wantTaken(t, states, -1, "after hints that are old, doubled or about others")
			if got := len(e.calls(&e.renders)); got != 2 {
				t.Errorf("%d renders, want 2", got)
			}
		})
		wantTaken(t, states, -2, "after Run ended")
	})
}

func TestWatchSince(t *testing.T) {
	held := services.Version(100, 0)
	for _, test := range []struct {
		name, since string
		first       int
	}{
		{"none", "", 1},
		{"older", services.Version(99, 5), 1},
		{"equal", held, -1},
		{"newer than the state", services.Version(200, 0), -1},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newEngines()
				e.set(7, 100, 1)
				running(t, e, e.config(), func(h *Hub) {
					states := mustWatch(t, h, 7, test.since)
					synctest.Wait()
					wantTaken(t, states, test.first, "the first state")
					e.set(7, 101, 2)
					h.Hint(7, 101)
					synctest.Wait()
					wantTaken(t, states, 2, "the next version")
				})
			})
		})
	}
}

func TestWatchRefusesWhatIsNoVersion(t *testing.T) {
	h := New(newEngines().config())
	good := services.Version(1, 2)
	for _, since := range []string{"1", "zzz", good + "0", strings.Replace(good, ".", ",", 1), "x" + good[1:], good[:32] + "x"} {
		_, err := h.Watch(t.Context(), 7, since)
		if services.CodeOf(err) != services.Invalid || !strings.Contains(err.Error(), since) {
			t.Errorf("since %q: got %v, want INVALID with the value", since, err)
		}
	}
	if stats := h.Stats(); stats != (Stats{}) {
		t.Errorf("refused watches left %+v", stats)
	}
}

// TestConflation: of a change every 10 ms each tenth is sent, and it is the newest of its moment.
func TestConflation(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngines()
		e.set(7, 100, 0)
		running(t, e, e.config(), func(h *Hub) {
			states := mustWatch(t, h, 7, "")
			synctest.Wait()
			wantTaken(t, states, 0, "the first state")
			for i := range 100 {
				e.set(7, uint64(101+i), 1+i)
				h.Hint(7, uint64(101+i))
				synctest.Wait()
				want := -1
				if i%10 == 0 {
					want = 1 + i
				}
				// The timer of the tenth step and the step itself share a moment: the step's hint comes
				// first or the timer does, and either way the newest is sent within it.
				if got := taken(states); got != want && got != want-1 {
					t.Fatalf("after %d ms: got %d, want %d", i*10, got, want)
				}
				<-time.After(10 * time.Millisecond)
			}
			pass(100 * time.Millisecond)
			wantTaken(t, states, 100, "the last change")
			pass(900 * time.Millisecond)
			wantTaken(t, states, -1, "nothing after the last")
			if got := len(e.calls(&e.renders)); got > 13 {
				t.Errorf("%d renders for 100 changes in one second, want 13 at most", got)
			}
		})
	})
}

// TestConflationOfASlowConsumer: nothing queues, and the newest is there when he comes.
func TestConflationOfASlowConsumer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngines()
		e.set(7, 100, 0)
		running(t, e, e.config(), func(h *Hub) {
			slow, quick := mustWatch(t, h, 7, ""), mustWatch(t, h, 7, "")
			synctest.Wait()
			for i := range 5 {
				taken(quick)
				e.set(7, uint64(101+i), 1+i)
				h.Hint(7, uint64(101+i))
				pass(150 * time.Millisecond)
			}
			wantTaken(t, quick, 5, "the quick one")
			wantTaken(t, slow, 5, "the slow one")
			wantTaken(t, slow, -1, "the slow one, again")
			stats := h.Stats()
			if stats.Delivered != 12 || stats.Conflated != 5 {
				t.Errorf("delivered %d, conflated %d; want 12 and 5", stats.Delivered, stats.Conflated)
			}
		})
	})
}

// TestNewcomer: a watcher who comes while the others wait for their turn has his state at once, and they
// have theirs no sooner and no later for it.
func TestNewcomer(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngines()
		e.set(7, 100, 0)
		running(t, e, e.config(), func(h *Hub) {
			first := mustWatch(t, h, 7, "")
			synctest.Wait()
			e.set(7, 101, 1)
			h.Hint(7, 101)
			synctest.Wait()
			wantTaken(t, first, 1, "the first change")
			e.set(7, 102, 2)
			h.Hint(7, 102)
			pass(50 * time.Millisecond)
			second := mustWatch(t, h, 7, "")
			synctest.Wait()
			wantTaken(t, second, 2, "the newcomer, at once")
			wantTaken(t, first, -1, "the other, before his turn")
			pass(49 * time.Millisecond)
			wantTaken(t, first, -1, "the other, still before his turn")
			pass(time.Millisecond)
			wantTaken(t, first, 2, "the other, in his turn")
			wantTaken(t, second, -1, "the newcomer has it already")
		})
	})
}

// TestHintDuringRender: the read under way may have missed the change, so another follows it.
func TestHintDuringRender(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngines()
		e.set(7, 100, 0)
		config := e.config()
		read, goOn := make(chan struct{}), make(chan struct{})
		render := config.Render
		slow := false
		config.Render = func(ctx context.Context, users []services.UserNumber) ([]*services.Badges, []error) {
			badges, errs := render(ctx, users)
			if slow {
				read <- struct{}{}
				<-goOn
			}
			return badges, errs
		}
		running(t, e, config, func(h *Hub) {
			states := mustWatch(t, h, 7, "")
			synctest.Wait()
			wantTaken(t, states, 0, "the first state")
			slow = true
			e.set(7, 101, 1)
			h.Hint(7, 101)
			<-read
			slow = false
			e.set(7, 102, 2)
			h.Hint(7, 102)
			goOn <- struct{}{}
			synctest.Wait()
			wantTaken(t, states, 1, "what was under way")
			pass(100 * time.Millisecond)
			wantTaken(t, states, 2, "what was hinted meanwhile, without a sweep")
			if repairs := h.Stats().Repairs; repairs != 0 {
				t.Errorf("%d repairs, want none", repairs)
			}
		})
	})
}

// TestNextAt: time alone changes the state, and a renderer whose clock is behind keeps nobody busy.
func TestNextAt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngines()
		at := time.Now().Add(3500 * time.Millisecond)
		config := e.config()
		config.Render = func(_ context.Context, users []services.UserNumber) ([]*services.Badges, []error) {
			e.change(func(e *engines) { e.note(&e.renders, users) })
			badges := &services.Badges{Version: services.Version(5, 0), NextAt: at}
			if time.Now().After(at.Add(2500 * time.Millisecond)) {
				badges = &services.Badges{Version: services.Version(5, 1), Total: services.Count{Value: 1}}
			}
			return []*services.Badges{badges}, []error{nil}
		}
		e.set(7, 5, 0)
		running(t, e, config, func(h *Hub) {
			states := mustWatch(t, h, 7, "")
			synctest.Wait()
			wantTaken(t, states, 0, "the first state")
			pass(3499 * time.Millisecond)
			if got := len(e.calls(&e.renders)); got != 1 {
				t.Errorf("%d renders before the moment, want 1", got)
			}
			pass(time.Millisecond)
			if got := len(e.calls(&e.renders)); got != 2 {
				t.Errorf("%d renders at the moment, want 2", got)
			}
			pass(2500 * time.Millisecond)
			if got := len(e.calls(&e.renders)); got != 4 {
				t.Errorf("%d renders by a clock 2.5 s behind, want 4: one for each second", got)
			}
			pass(500 * time.Millisecond)
			wantTaken(t, states, 1, "after the moment by the renderer's clock")
			pass(10 * time.Second)
			if got := len(e.calls(&e.renders)); got != 5 {
				t.Errorf("%d renders, want 5: nothing more without a NextAt", got)
			}
		})
	})
}

func TestWatchEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngines()
		e.set(7, 100, 1)
		running(t, e, e.config(), func(h *Hub) {
			ctx, cancel := context.WithCancel(t.Context())
			states, err := h.Watch(ctx, 7, "")
			if err != nil {
				t.Fatal(err)
			}
			other := mustWatch(t, h, 7, "")
			synctest.Wait()
			cancel()
			synctest.Wait()
			wantTaken(t, states, 1, "a value that was not taken")
			wantTaken(t, states, -2, "the end")
			if stats := h.Stats(); stats.Watchers != 1 || stats.Online != 1 {
				t.Errorf("%d watchers, %d online; want 1 and 1", stats.Watchers, stats.Online)
			}
			wantTaken(t, other, 1, "the other one")

			dead, err := h.Watch(ctx, 7, "")
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			for range dead { // a state may have been quicker than the end
			}
			if stats := h.Stats(); stats.Watchers != 1 {
				t.Errorf("%d watchers, want 1", stats.Watchers)
			}
		})
	})
}

func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngines()
		e.set(7, 100, 1)
		e.set(8, 100, 1)
		running(t, e, e.config(), func(h *Hub) {
			var wakes atomic.Int32
			ctx := WithWake(t.Context(), func() { wakes.Add(1) })
			var open []<-chan *services.Badges
			for _, user := range []services.UserNumber{7, 7, 8} {
				states, err := h.Watch(ctx, user, "")
				if err != nil {
					t.Fatal(err)
				}
				open = append(open, states)
			}
			synctest.Wait()
			taken(open[0])
			h.Drain()
			h.Drain()
			if got := wakes.Load(); got != 6 {
				t.Errorf("%d wake-ups, want 3 for the states and 3 for the ends", got)
			}
			wantTaken(t, open[0], -2, "the end")
			wantTaken(t, open[1], 1, "a value that was not taken")
			wantTaken(t, open[1], -2, "the end behind it")
			_, err := h.Watch(t.Context(), 7, "")
			if services.CodeOf(err) != services.Unavailable {
				t.Errorf("Watch on a drained hub: %v, want UNAVAILABLE", err)
			}
			stats := h.Stats()
			if stats.Watchers != 0 || stats.Online != 0 {
				t.Errorf("after the drain: %+v", stats)
			}
			e.set(7, 101, 2)
			h.Hint(7, 101)
			pass(time.Second)
			if got := h.Stats().Delivered; got != stats.Delivered {
				t.Errorf("%d states were delivered after the drain", got-stats.Delivered)
			}
		})
	})
}

// TestWake: whoever receives without waiting when he is woken, and only then, misses nothing.
func TestWake(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngines()
		e.set(7, 100, 0)
		running(t, e, e.config(), func(h *Hub) {
			woken := make(chan struct{}, 100)
			ctx, cancel := context.WithCancel(WithWake(t.Context(), func() { woken <- struct{}{} }))
			states, err := h.Watch(ctx, 7, "")
			if err != nil {
				t.Fatal(err)
			}
			for i := range 5 {
				<-woken
				wantTaken(t, states, i, "on being woken")
				e.set(7, uint64(101+i), i+1)
				h.Hint(7, uint64(101+i))
			}
			<-woken
			wantTaken(t, states, 5, "on being woken")
			cancel()
			<-woken
			wantTaken(t, states, -2, "on being woken for the end")
			pass(time.Second)
			if len(woken) != 0 {
				t.Errorf("woken %d times more, for nothing", len(woken))
			}
		})
	})
}

// TestNoGoroutinePerWatcher counts them while 2,000 users are watched twice.
func TestNoGoroutinePerWatcher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newEngines()
		running(t, e, e.config(), func(h *Hub) {
			before := runtime.NumGoroutine()
			for i := range 4000 {
				user := services.UserNumber(1 + i%2000)
				e.set(user, 1, 1)
				mustWatch(t, h, user, "")
			}
			pass(3 * time.Second)
			if after := runtime.NumGoroutine(); after > before+10 {
				t.Errorf("%d goroutines with 4,000 watchers, %d without", after, before)
			}
			if stats := h.Stats(); stats.Delivered != 4000 || stats.Watchers != 4000 || stats.Online != 2000 {
				t.Errorf("%+v, want 4,000 delivered to 4,000 watchers of 2,000 users", stats)
			}
		})
	})
}

// TestBatches: who waits is read together, entered before, and in no larger batches than promised.
func TestBatches(t *testing.T) {
	e := newEngines()
	config := e.config()
	render := config.Render
	config.Render = func(ctx context.Context, users []services.UserNumber) ([]*services.Badges, []error) {
		for _, user := range users {
			if !e.on[user] {
				t.Errorf("user %d is read before he has entered", user)
			}
		}
		return render(ctx, users)
	}
	h := New(config)
	var open []<-chan *services.Badges
	for i := range 600 {
		e.set(services.UserNumber(1+i), 1, i)
		open = append(open, mustWatch(t, h, services.UserNumber(1+i), ""))
	}
	var b batch
	for h.render(t.Context(), &b) {
	}
	for i, states := range open {
		wantTaken(t, states, i, "the first state")
	}
	for _, list := range [][]called{e.renders, e.enters} {
		if len(list) != 3 || list[0].users != maxBatch || list[1].users != maxBatch || list[2].users != 600-2*maxBatch {
			t.Errorf("600 users were served in the batches %v", list)
		}
	}
}
