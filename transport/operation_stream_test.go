package transport

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tidings/services"
)

// runWithEachChannel runs a test with each of two kinds of channels for a subscription that does not wake. The channel of plain replaces an
// event that was not taken by a newer one. The channel of relayed is behind a relay, which may hold an older event. event returns the
// message that the client gets for a value.
func runWithEachChannel(t *testing.T, limits *fakeLimits, test func(w *world, c *client, event func(value int) string)) {
	for _, field := range []string{"plain", "relayed"} {
		t.Run(field, func(t *testing.T) {
			runInWorlds(t, func(cfg *SocketConfig) { cfg.Limits = limits }, func(w *world) {
				limits.events.Store(0)
				limits.refuseEvent.Store(false)
				c := w.open("alice")
				c.subscribe("1", "subscription { "+field+" }")
				synctest.Wait()
				test(w, c, func(value int) string { return strings.Replace(tickMessage("1", value), "ticks", field, 1) })
			})
		})
	}
}

// Opening a subscription pays for its first event, and each further event is charged. After a refusal the next event waits, and shows
// the latest state.
func TestARateLimitedEventWaits(t *testing.T) {
	limits := &fakeLimits{}
	runWithEachChannel(t, limits, func(w *world, c *client, event func(int) string) {
		for value, charged := range []int64{0, 1, 2} {
			w.schema.hub.publish(value)
			c.expect(event(value))
			if synctest.Wait(); limits.events.Load() != charged {
				t.Errorf("after event %d %d events are charged: want %d", value, limits.events.Load(), charged)
			}
		}
		limits.refuseEvent.Store(true)
		w.schema.hub.publish(3)
		c.expect(event(3))
		start := time.Now()
		for value := range 5 {
			w.schema.hub.publish(4 + value)
			c.expectNothing()
		}
		passTime(errLimited.RetryAfter + time.Second)
		c.expectNothing() // refused again
		limits.refuseEvent.Store(false)
		c.expect(event(8))
		if took := time.Since(start); took != 2*errLimited.RetryAfter {
			t.Errorf("the latest state came after %v: want %v", took, 2*errLimited.RetryAfter)
		}
		if synctest.Wait(); limits.events.Load() != 4 {
			t.Errorf("%d events are charged: want 4", limits.events.Load())
		}
		passTime(time.Minute)
		c.expectNothing() // no older state follows
		// A subscription that waits ends like any other.
		limits.refuseEvent.Store(true)
		w.schema.hub.publish(9)
		c.expect(event(9))
		c.send(`{"type":"complete","id":"1"}`)
		synctest.Wait()
		if n := w.schema.hub.count(); n != 0 {
			t.Errorf("%d watchers are left", n)
		}
	})
}

// What is watched can end while an event waits, as when the viewer is removed from a conversation. The subscription ends at once.
func TestARateLimitedSubscriptionEndsWithItsSource(t *testing.T) {
	limits := &fakeLimits{}
	runWithEachChannel(t, limits, func(w *world, c *client, event func(int) string) {
		w.schema.hub.publish(1)
		c.expect(event(1))
		limits.refuseEvent.Store(true)
		w.schema.hub.publish(2)
		c.expect(event(2))
		w.schema.hub.publish(3)
		c.expectNothing()
		start := time.Now()
		w.schema.hub.closeAll()
		c.expect(`{"type":"complete","id":"1"}`)
		if took := time.Since(start); took != 0 {
			t.Errorf("the end came after %v", took)
		}
	})
}

// While the database stalls, events are not ready in time, or show nothing. The subscription goes on, and sends the newest state when
// the database answers again.
func TestAnEventThatFailsForNowIsTriedAgain(t *testing.T) {
	for _, field := range []string{"stalls", "fails"} {
		t.Run(field, func(t *testing.T) {
			limits := &fakeLimits{}
			runInWorlds(t, func(cfg *SocketConfig) { cfg.Limits = limits }, func(w *world) {
				limits.events.Store(0)
				event := func(value int) string { return strings.Replace(tickMessage("1", value), "ticks", field, 1) }
				w.schema.fault.Store(errNoDatabase)
				defer w.schema.fault.Store(nil)
				c := w.open("alice")
				c.subscribe("1", "subscription { "+field+" }")
				synctest.Wait()
				// The first event fails too.
				for value := range 3 {
					w.schema.hub.publish(value)
					passTime(10 * time.Minute)
					c.expectNothing()
				}
				// The longest pause is 30 s, and a try takes 5 s, so there are about 50 tries. All but the first are charged.
				if tries := limits.events.Load(); tries < 40 || tries > 80 {
					t.Errorf("%d tries are charged in half an hour", tries)
				}
				w.schema.fault.Store(nil)
				passTime(time.Minute)
				c.expect(event(2))
				// After an event that was sent, the pauses begin anew.
				w.schema.fault.Store(errNoDatabase)
				w.schema.hub.publish(3)
				synctest.Wait()
				w.schema.hub.publish(4)
				passTime(4 * time.Second)
				w.schema.fault.Store(nil)
				passTime(5 * time.Second)
				c.expect(event(4))
				passTime(time.Minute)
				c.expectNothing()
				// The end of the channel is noticed in a pause, and what has failed is not sent.
				w.schema.fault.Store(errNoDatabase)
				w.schema.hub.publish(5)
				passTime(6 * time.Minute)
				w.schema.hub.closeAll()
				passTime(time.Minute)
				c.expect(`{"type":"complete","id":"1"}`)
				// The client may end the subscription during a try or a pause.
				c.subscribe("1", "subscription { "+field+" }")
				synctest.Wait()
				w.schema.hub.publish(6)
				synctest.Wait()
				c.send(`{"type":"complete","id":"1"}`)
				passTime(time.Minute)
				c.expectNothing()
				if n := w.schema.hub.count(); n != 0 {
					t.Errorf("%d watchers are left", n)
				}
			})
		})
	}
}

// errNoDatabase is the fault of events while the database does not answer.
var errNoDatabase = &services.Error{Code: services.Unavailable, Message: "the database does not answer"}

// wholeMessage returns the message for an event of the field loses. partialMessage returns the message while a part of the event is lost.
func wholeMessage(value int) string {
	return fmt.Sprintf(`{"type":"next","id":"1","payload":{"data":{"loses":{"value":%d,"part":%d}}}}`, value, value)
}

func partialMessage(value int) string {
	return fmt.Sprintf(`{"type":"next","id":"1","payload":{"errors":[{"message":"the database does not answer",`+
		`"extensions":{"code":"UNAVAILABLE"}}],"data":{"loses":{"value":%d,"part":null}}}}`, value)
}

// drop drops the messages that have arrived.
func (c *client) drop() {
	for synctest.Wait(); len(c.received) > 0; {
		<-c.received
	}
}

// runWhileFailing runs a test with an open subscription to a field while the database does not answer.
func runWhileFailing(t *testing.T, field string, test func(w *world, c *client, limits *fakeLimits)) {
	limits := &fakeLimits{}
	runInWorlds(t, func(cfg *SocketConfig) { cfg.Limits = limits }, func(w *world) {
		limits.events.Store(0)
		w.schema.fault.Store(errNoDatabase)
		defer w.schema.fault.Store(nil)
		c := w.open("alice")
		c.subscribe("1", "subscription { "+field+" }")
		synctest.Wait()
		test(w, c, limits)
	})
}

// An event that loses a part for now is sent once without it, and again as soon as it is whole: otherwise the client could miss the
// part for hours, until something else changes.
func TestAnEventThatLosesAPartIsSentAgainWhole(t *testing.T) {
	runWhileFailing(t, "loses", func(w *world, c *client, limits *fakeLimits) {
		w.schema.hub.publish(1)
		c.expect(partialMessage(1))
		passTime(10 * time.Minute)
		c.expectNothing() // the event is not sent without the part a second time
		if tries := limits.events.Load(); tries < 15 || tries > 40 {
			t.Errorf("%d tries are charged in ten minutes", tries)
		}
		w.schema.fault.Store(nil)
		c.expect(wholeMessage(1))
		synctest.Wait()
		charged := limits.events.Load()
		passTime(10 * time.Minute)
		c.expectNothing()
		if limits.events.Load() != charged {
			t.Error("a whole event is tried again")
		}
		// The next event is sent at once. If it fails, its first pause is short again.
		w.schema.hub.publish(2)
		c.expect(wholeMessage(2))
		w.schema.fault.Store(errNoDatabase)
		start := time.Now()
		w.schema.hub.publish(3)
		c.expect(partialMessage(3))
		w.schema.fault.Store(nil)
		c.expect(wholeMessage(3))
		if took := time.Since(start); took > 1100*time.Millisecond {
			t.Errorf("the whole event came after %v", took)
		}
	})
}

// A newer event replaces one that lost a part. While the database does not answer, the newer one is sent without its part too.
func TestANewerEventReplacesOneThatLostAPart(t *testing.T) {
	runWhileFailing(t, "loses", func(w *world, c *client, _ *fakeLimits) {
		w.schema.hub.publish(1)
		c.expect(partialMessage(1))
		w.schema.hub.publish(2)
		c.expect(partialMessage(2))
		passTime(time.Minute)
		c.expectNothing()
		w.schema.fault.Store(nil)
		c.expect(wholeMessage(2))
		passTime(time.Minute)
		c.expectNothing()
	})
}

// A newer event is tried within a second of the last try, however long the pause of the older one is. After an outage of minutes the
// engines may answer long before that pause ends. During the outage newer events lead to one try a second.
func TestANewerEventShortensThePauseAfterAFailure(t *testing.T) {
	const most = 1100 * time.Millisecond // with the jitter
	for field, event := range map[string]func(int) string{
		"loses": wholeMessage, "fails": func(value int) string { return strings.Replace(tickMessage("1", value), "ticks", "fails", 1) },
	} {
		t.Run(field, func(t *testing.T) {
			runWhileFailing(t, field, func(w *world, c *client, limits *fakeLimits) {
				w.schema.hub.publish(0)
				for value := range 20 {
					passTime(10 * time.Minute) // the pauses are as long as they get
					w.schema.fault.Store(nil)
					c.drop() // an event without its part
					start := time.Now()
					w.schema.hub.publish(2 * value)
					c.expect(event(2 * value))
					if took := time.Since(start); took > most {
						t.Errorf("a newer event came after %v", took)
					}
					w.schema.fault.Store(errNoDatabase)
					w.schema.hub.publish(2*value + 1)
				}
				passTime(10 * time.Minute)
				before := limits.events.Load()
				for value := range 600 {
					w.schema.hub.publish(value)
					passTime(100 * time.Millisecond)
				}
				if tries := limits.events.Load() - before; tries < 50 || tries > 67 {
					t.Errorf("newer events of a minute lead to %d tries", tries)
				}
				// No older event follows.
				w.schema.fault.Store(nil)
				passTime(most)
				c.drop()
				w.schema.hub.publish(1000)
				c.expect(event(1000))
			})
		})
	}
}

// A subscription whose event lost a part ends like any other: with its channel, by its client, and in a drain. Further tries for the
// part end with it.
func TestASubscriptionWhoseEventLostAPartEnds(t *testing.T) {
	for name, end := range map[string]func(w *world, c *client){
		"source": func(w *world, c *client) {
			w.schema.hub.closeAll()
			c.expect(`{"type":"complete","id":"1"}`)
		},
		"client": func(_ *world, c *client) { c.send(`{"type":"complete","id":"1"}`) },
		"drain": func(w *world, c *client) {
			w.sockets.Drain(w.Context(), 0)
			c.expectClose(1012)
		},
	} {
		t.Run(name, func(t *testing.T) {
			runWhileFailing(t, "loses", func(w *world, c *client, limits *fakeLimits) {
				w.schema.hub.publish(1)
				c.expect(partialMessage(1))
				passTime(5 * time.Minute)
				start := time.Now()
				end(w, c)
				if took := time.Since(start); took > time.Second {
					t.Errorf("the end came after %v", took)
				}
				synctest.Wait()
				if n := w.schema.hub.count(); n != 0 {
					t.Errorf("%d watchers are left", n)
				}
				w.schema.fault.Store(nil)
				charged := limits.events.Load()
				passTime(time.Minute)
				if limits.events.Load() != charged {
					t.Error("the event was tried after the end")
				}
			})
		})
	}
}

// An error with another code than UNAVAILABLE is sent to the client at once.
func TestAnEventThatFailsForGoodIsShown(t *testing.T) {
	runInWorlds(t, nil, func(w *world) {
		w.schema.fault.Store(&services.Error{Code: services.NotFound, Message: "id: it is gone"})
		defer w.schema.fault.Store(nil)
		c := w.open("alice")
		c.subscribe("1", "subscription { fails }")
		synctest.Wait()
		w.schema.hub.publish(1)
		c.expect(`{"type":"next","id":"1","payload":{"errors":[{"message":"id: it is gone","extensions":{"argument":"id","code":"NOT_FOUND"}}],"data":{"fails":null}}}`)
	})
}
