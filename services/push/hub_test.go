package push

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"tidings/services"
	"tidings/services/trace"
)

func TestWatch(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFakeBackend()
		e.setDocument(7, 100, 1)
		var states <-chan *services.Badges
		withHub(t, e, e.config(), func(h *Hub) {
			states = mustWatch(t, h, 7, "")
			synctest.Wait()
			wantTotal(t, states, 1, "the first state")

			e.setDocument(7, 101, 2)
			h.Hint(7, 101, trace.Cause{})
			synctest.Wait()
			wantTotal(t, states, 2, "the first change, no time having passed")

			h.Hint(7, 101, trace.Cause{})
			h.Hint(7, 99, trace.Cause{})
			h.Hint(8, 1000, trace.Cause{})
			passTime(500 * time.Millisecond)
			wantTotal(t, states, -1, "after hints that are old, doubled or about others")
			if got := len(e.copyCalls(&e.renderCalls)); got != 2 {
				t.Errorf("%d renders, want 2", got)
			}
		})
		wantTotal(t, states, -2, "after Run ended")
	})
}

func TestWatchSince(t *testing.T) {
	held := services.BadgesVersion(100, 0)
	for _, test := range []struct {
		name, since string
		first       int
	}{
		{"none", "", 1},
		{"older", services.BadgesVersion(99, 5), 1},
		{"equal", held, -1},
		{"newer than the state", services.BadgesVersion(200, 0), -1},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				e := newFakeBackend()
				e.setDocument(7, 100, 1)
				withHub(t, e, e.config(), func(h *Hub) {
					states := mustWatch(t, h, 7, test.since)
					synctest.Wait()
					wantTotal(t, states, test.first, "the first state")
					e.setDocument(7, 101, 2)
					h.Hint(7, 101, trace.Cause{})
					synctest.Wait()
					wantTotal(t, states, 2, "the next version")
				})
			})
		})
	}
}

func TestWatchRefusesAnInvalidVersion(t *testing.T) {
	h := New(newFakeBackend().config())
	good := services.BadgesVersion(1, 2)
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

// Time alone changes the state, and a renderer whose clock is behind causes no busy loop.
func TestNextAtRendersAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFakeBackend()
		at := time.Now().Add(3500 * time.Millisecond)
		config := e.config()
		config.Render = func(_ context.Context, users []services.UserID) ([]*services.Badges, []error) {
			e.withLock(func(e *fakeBackend) { e.recordCall(&e.renderCalls, users) })
			badges := &services.Badges{Version: services.BadgesVersion(5, 0), NextAt: at}
			if time.Now().After(at.Add(2500 * time.Millisecond)) {
				badges = &services.Badges{Version: services.BadgesVersion(5, 1), Total: services.Count{Value: 1}}
			}
			return []*services.Badges{badges}, []error{nil}
		}
		e.setDocument(7, 5, 0)
		withHub(t, e, config, func(h *Hub) {
			states := mustWatch(t, h, 7, "")
			synctest.Wait()
			wantTotal(t, states, 0, "the first state")
			passTime(3499 * time.Millisecond)
			if got := len(e.copyCalls(&e.renderCalls)); got != 1 {
				t.Errorf("%d renders before the moment, want 1", got)
			}
			passTime(time.Millisecond)
			if got := len(e.copyCalls(&e.renderCalls)); got != 2 {
				t.Errorf("%d renders at the moment, want 2", got)
			}
			passTime(2500 * time.Millisecond)
			if got := len(e.copyCalls(&e.renderCalls)); got != 4 {
				t.Errorf("%d renders by a clock 2.5 s behind, want 4: one for each second", got)
			}
			passTime(500 * time.Millisecond)
			wantTotal(t, states, 1, "after the moment by the renderer's clock")
			passTime(10 * time.Second)
			if got := len(e.copyCalls(&e.renderCalls)); got != 5 {
				t.Errorf("%d renders, want 5: nothing more without a NextAt", got)
			}
		})
	})
}

func TestWatchEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFakeBackend()
		e.setDocument(7, 100, 1)
		withHub(t, e, e.config(), func(h *Hub) {
			ctx, cancel := context.WithCancel(t.Context())
			states, err := h.Watch(ctx, 7, "")
			if err != nil {
				t.Fatal(err)
			}
			other := mustWatch(t, h, 7, "")
			synctest.Wait()
			cancel()
			synctest.Wait()
			wantTotal(t, states, 1, "a value that was not taken")
			wantTotal(t, states, -2, "the end")
			if stats := h.Stats(); stats.Watchers != 1 || stats.OnlineUsers != 1 {
				t.Errorf("%d watchers, %d online; want 1 and 1", stats.Watchers, stats.OnlineUsers)
			}
			wantTotal(t, other, 1, "the other one")

			dead, err := h.Watch(ctx, 7, "")
			if err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			for range dead { // a state may arrive before the channel is closed
			}
			if stats := h.Stats(); stats.Watchers != 1 {
				t.Errorf("%d watchers, want 1", stats.Watchers)
			}
		})
	})
}

func TestDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFakeBackend()
		e.setDocument(7, 100, 1)
		e.setDocument(8, 100, 1)
		withHub(t, e, e.config(), func(h *Hub) {
			var wakes atomic.Int32
			ctx := WithConsumer(t.Context(), &consumer{wake: func() { wakes.Add(1) }})
			var open []<-chan *services.Badges
			for _, user := range []services.UserID{7, 7, 8} {
				states, err := h.Watch(ctx, user, "")
				if err != nil {
					t.Fatal(err)
				}
				open = append(open, states)
			}
			synctest.Wait()
			takeTotal(open[0])
			h.Drain()
			h.Drain()
			if got := wakes.Load(); got != 6 {
				t.Errorf("%d wake-ups, want 3 for the states and 3 for the ends", got)
			}
			wantTotal(t, open[0], -2, "the end")
			wantTotal(t, open[1], 1, "a value that was not taken")
			wantTotal(t, open[1], -2, "the end behind it")
			_, err := h.Watch(t.Context(), 7, "")
			if services.CodeOf(err) != services.Unavailable {
				t.Errorf("Watch on a drained hub: %v, want UNAVAILABLE", err)
			}
			stats := h.Stats()
			if stats.Watchers != 0 || stats.OnlineUsers != 0 {
				t.Errorf("after the drain: %+v", stats)
			}
			e.setDocument(7, 101, 2)
			h.Hint(7, 101, trace.Cause{})
			passTime(time.Second)
			if got := h.Stats().StatesDelivered; got != stats.StatesDelivered {
				t.Errorf("%d states were delivered after the drain", got-stats.StatesDelivered)
			}
		})
	})
}

// consumer wakes a test, and ends its channels when the test wants.
type consumer struct {
	wake     func()                  // called at each wake-up
	channels []services.ChannelEnder // the channels that endChannels ends
	ended    bool                    // the consumer has ended: it ends each new channel at once
}

func (c *consumer) Wake() { c.wake() }

// OnEnd keeps a channel to end it when the consumer ends.
func (c *consumer) OnEnd(channel services.ChannelEnder) {
	if c.channels = append(c.channels, channel); c.ended {
		c.endChannels()
	}
}

func (c *consumer) endChannels() {
	for _, one := range c.channels {
		one.End()
	}
}

// A consumer that ends while Watch is under way gets a closed channel, and leaves nothing in the hub.
func TestAConsumerThatHasEndedGetsAClosedChannel(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFakeBackend()
		e.setDocument(7, 100, 0)
		withHub(t, e, e.config(), func(h *Hub) {
			wakes := 0
			states, err := h.Watch(WithConsumer(t.Context(), &consumer{wake: func() { wakes++ }, ended: true}), 7, "")
			if err != nil {
				t.Fatal(err)
			}
			wantTotal(t, states, -2, "the end")
			passTime(time.Second)
			if stats := h.Stats(); stats.Watchers != 0 || stats.OnlineUsers != 0 || wakes != 1 {
				t.Errorf("%+v after %d wake-ups", stats, wakes)
			}
		})
	})
}

// A consumer that receives without waiting when it is woken, and only then, misses nothing.
func TestAWokenConsumerMissesNothing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFakeBackend()
		e.setDocument(7, 100, 0)
		withHub(t, e, e.config(), func(h *Hub) {
			woken := make(chan struct{}, 100)
			reader := &consumer{wake: func() { woken <- struct{}{} }}
			around, end := context.WithCancel(WithConsumer(t.Context(), reader))
			states, err := h.Watch(around, 7, "")
			if err != nil {
				t.Fatal(err)
			}
			for i := range 5 {
				<-woken
				wantTotal(t, states, i, "on being woken")
				e.setDocument(7, uint64(101+i), i+1)
				h.Hint(7, uint64(101+i), trace.Cause{})
			}
			<-woken
			wantTotal(t, states, 5, "on being woken")
			end()
			passTime(time.Second)
			if len(woken) != 0 {
				t.Error("the end of a context ended the channel of a consumer")
			}
			reader.endChannels()
			<-woken
			wantTotal(t, states, -2, "on being woken for the end")
			passTime(time.Second)
			if len(woken) != 0 {
				t.Errorf("woken %d times more, for nothing", len(woken))
			}
		})
	})
}

// A user who left after a failed render is not delayed on return.
func TestAReturnAfterAFailedRenderIsNotDelayed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFakeBackend()
		e.renderErr = errBackendUnavailable
		withHub(t, e, e.config(), func(h *Hub) {
			ctx, cancel := context.WithCancel(t.Context())
			if _, err := h.Watch(ctx, 7, ""); err != nil {
				t.Fatal(err)
			}
			synctest.Wait()
			cancel()
			synctest.Wait()
			e.setDocument(7, 100, 1)
			e.withLock(func(e *fakeBackend) { e.renderErr = nil })
			states := mustWatch(t, h, 7, "")
			synctest.Wait()
			wantTotal(t, states, 1, "on coming back")
		})
	})
}

// A change of content that all badges share reaches every watched user, in a version of which only the shared half rose.
func TestASharedChangeReachesEveryWatchedUser(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFakeBackend()
		e.setDocument(7, 100, 1)
		e.setDocument(8, 100, 1)
		withHub(t, e, e.config(), func(h *Hub) {
			seven, eight := mustWatch(t, h, 7, ""), mustWatch(t, h, 8, "")
			synctest.Wait()
			wantTotal(t, seven, 1, "the first state of one")
			wantTotal(t, eight, 1, "the first state of another")
			renders := len(e.copyCalls(&e.renderCalls))
			e.setSharedVersion(5)
			h.HintSharedContent()
			h.HintSharedContent()
			synctest.Wait()
			wantTotal(t, seven, 1, "what is shared, to one")
			wantTotal(t, eight, 1, "and to another")
			passTime(500 * time.Millisecond)
			wantTotal(t, seven, -1, "nothing more")
			if got := len(e.copyCalls(&e.renderCalls)) - renders; got > 2 {
				t.Errorf("%d renders for two users", got)
			}
		})
	})
}

// A change of content that some users share reaches those users, and no others.
func TestASharedChangeOfSomeUsersReachesThoseUsers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		e := newFakeBackend()
		e.setDocument(7, 100, 1)
		e.setDocument(8, 100, 1)
		withHub(t, e, e.config(), func(h *Hub) {
			seven, eight := mustWatch(t, h, 7, ""), mustWatch(t, h, 8, "")
			synctest.Wait()
			wantTotal(t, seven, 1, "the first state of one")
			wantTotal(t, eight, 1, "the first state of another")
			e.setSharedVersion(5)
			h.HintSharedContentOf([]services.UserID{7, 99})
			synctest.Wait()
			wantTotal(t, seven, 1, "what is shared, to one")
			passTime(500 * time.Millisecond)
			wantTotal(t, eight, -1, "to another")
		})
	})
}
