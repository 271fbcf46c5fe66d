package transport

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tidings/services"
)

// runWithDirectAndRelayedEvents runs a test with each of two fields of the test schema, whose subscriptions wait in a goroutine of their
// own. The channel of the field plain holds only the newest event. The channel of the field relayed is behind a goroutine that may still
// hold an older event. event returns the message that the client gets for a value of the field.
func runWithDirectAndRelayedEvents(t *testing.T, limits *fakeLimits, test func(w *socketFixture, c *socketClient, event func(value int) string)) {
	for _, field := range []string{"plain", "relayed"} {
		t.Run(field, func(t *testing.T) {
			runWithAndWithoutPoller(t, func(cfg *SocketConfig) { cfg.Limits = limits }, func(w *socketFixture) {
				limits.eventCostSum.Store(0)
				limits.refuseEvent.Store(false)
				c := w.openSocket("alice")
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
	runWithDirectAndRelayedEvents(t, limits, func(w *socketFixture, c *socketClient, event func(int) string) {
		for value, charged := range []int64{0, 1, 2} {
			w.schema.hub.publish(value)
			c.expectMessage(event(value))
			if synctest.Wait(); limits.eventCostSum.Load() != charged {
				t.Errorf("after event %d %d events are charged: want %d", value, limits.eventCostSum.Load(), charged)
			}
		}
		limits.refuseEvent.Store(true)
		w.schema.hub.publish(3)
		c.expectMessage(event(3))
		start := time.Now()
		for value := range 5 {
			w.schema.hub.publish(4 + value)
			c.expectNothing()
		}
		passTime(errRateLimited.RetryAfter + time.Second)
		c.expectNothing() // refused again
		limits.refuseEvent.Store(false)
		c.expectMessage(event(8))
		if took := time.Since(start); took != 2*errRateLimited.RetryAfter {
			t.Errorf("the latest state came after %v: want %v", took, 2*errRateLimited.RetryAfter)
		}
		if synctest.Wait(); limits.eventCostSum.Load() != 4 {
			t.Errorf("%d events are charged: want 4", limits.eventCostSum.Load())
		}
		passTime(time.Minute)
		c.expectNothing() // no older state follows
		// A subscription whose next event waits for the rate limit ends like any other.
		limits.refuseEvent.Store(true)
		w.schema.hub.publish(9)
		c.expectMessage(event(9))
		c.send(`{"type":"complete","id":"1"}`)
		synctest.Wait()
		if n := w.schema.hub.countWatchers(); n != 0 {
			t.Errorf("%d watchers are left", n)
		}
	})
}

// What is watched can end while an event waits, as when the viewer is removed from a conversation. The subscription ends at once.
func TestARateLimitedSubscriptionEndsWithItsSource(t *testing.T) {
	limits := &fakeLimits{}
	runWithDirectAndRelayedEvents(t, limits, func(w *socketFixture, c *socketClient, event func(int) string) {
		w.schema.hub.publish(1)
		c.expectMessage(event(1))
		limits.refuseEvent.Store(true)
		w.schema.hub.publish(2)
		c.expectMessage(event(2))
		w.schema.hub.publish(3)
		c.expectNothing()
		start := time.Now()
		w.schema.hub.endAllWatchers()
		c.expectMessage(`{"type":"complete","id":"1"}`)
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
			runWithAndWithoutPoller(t, func(cfg *SocketConfig) { cfg.Limits = limits }, func(w *socketFixture) {
				limits.eventCostSum.Store(0)
				event := func(value int) string { return strings.Replace(tickMessage("1", value), "ticks", field, 1) }
				w.schema.eventFault.Store(errNoDatabase)
				defer w.schema.eventFault.Store(nil)
				c := w.openSocket("alice")
				c.subscribe("1", "subscription { "+field+" }")
				synctest.Wait()
				// The first event fails too.
				for value := range 3 {
					w.schema.hub.publish(value)
					passTime(10 * time.Minute)
					c.expectNothing()
				}
				// The longest pause is 30 s, and a try takes 5 s, so there are about 50 tries. All but the first are charged.
				if tries := limits.eventCostSum.Load(); tries < 40 || tries > 80 {
					t.Errorf("%d tries are charged in half an hour", tries)
				}
				w.schema.eventFault.Store(nil)
				passTime(time.Minute)
				c.expectMessage(event(2))
				// After an event that was sent, the pauses begin anew.
				w.schema.eventFault.Store(errNoDatabase)
				w.schema.hub.publish(3)
				synctest.Wait()
				w.schema.hub.publish(4)
				passTime(4 * time.Second)
				w.schema.eventFault.Store(nil)
				passTime(5 * time.Second)
				c.expectMessage(event(4))
				passTime(time.Minute)
				c.expectNothing()
				// The end of the channel is noticed in a pause, and what has failed is not sent.
				w.schema.eventFault.Store(errNoDatabase)
				w.schema.hub.publish(5)
				passTime(6 * time.Minute)
				w.schema.hub.endAllWatchers()
				passTime(time.Minute)
				c.expectMessage(`{"type":"complete","id":"1"}`)
				// The client may end the subscription during a try or a pause.
				c.subscribe("1", "subscription { "+field+" }")
				synctest.Wait()
				w.schema.hub.publish(6)
				synctest.Wait()
				c.send(`{"type":"complete","id":"1"}`)
				passTime(time.Minute)
				c.expectNothing()
				if n := w.schema.hub.countWatchers(); n != 0 {
					t.Errorf("%d watchers are left", n)
				}
			})
		})
	}
}

// errNoDatabase is the error of events in tests in which the database does not answer.
var errNoDatabase = &services.Error{Code: services.Unavailable, Message: "the database does not answer"}

// wholeEventMessage returns the message for a whole event of the field loses of the test schema.
func wholeEventMessage(value int) string {
	return fmt.Sprintf(`{"type":"next","id":"1","payload":{"data":{"loses":{"value":%d,"part":%d}}}}`, value, value)
}

// partialEventMessage returns the message for an event of the field loses whose part is missing because of errNoDatabase.
func partialEventMessage(value int) string {
	return fmt.Sprintf(`{"type":"next","id":"1","payload":{"errors":[{"message":"the database does not answer",`+
		`"extensions":{"code":"UNAVAILABLE"}}],"data":{"loses":{"value":%d,"part":null}}}}`, value)
}

// discardReceived drops the messages that have arrived and were not read by the test.
func (c *socketClient) discardReceived() {
	for synctest.Wait(); len(c.received) > 0; {
		<-c.received
	}
}

// runWithFailingDatabase runs a test with an open subscription to a field while the database does not answer.
func runWithFailingDatabase(t *testing.T, field string, test func(w *socketFixture, c *socketClient, limits *fakeLimits)) {
	limits := &fakeLimits{}
	runWithAndWithoutPoller(t, func(cfg *SocketConfig) { cfg.Limits = limits }, func(w *socketFixture) {
		limits.eventCostSum.Store(0)
		w.schema.eventFault.Store(errNoDatabase)
		defer w.schema.eventFault.Store(nil)
		c := w.openSocket("alice")
		c.subscribe("1", "subscription { "+field+" }")
		synctest.Wait()
		test(w, c, limits)
	})
}

// An event that loses a part for now is sent once without it, and again as soon as it is whole: otherwise the client could miss the
// part for hours, until something else changes.
func TestAnEventThatLosesAPartIsSentAgainWhole(t *testing.T) {
	runWithFailingDatabase(t, "loses", func(w *socketFixture, c *socketClient, limits *fakeLimits) {
		w.schema.hub.publish(1)
		c.expectMessage(partialEventMessage(1))
		passTime(10 * time.Minute)
		c.expectNothing() // the event is not sent without the part a second time
		if tries := limits.eventCostSum.Load(); tries < 15 || tries > 40 {
			t.Errorf("%d tries are charged in ten minutes", tries)
		}
		w.schema.eventFault.Store(nil)
		c.expectMessage(wholeEventMessage(1))
		synctest.Wait()
		charged := limits.eventCostSum.Load()
		passTime(10 * time.Minute)
		c.expectNothing()
		if limits.eventCostSum.Load() != charged {
			t.Error("a whole event is tried again")
		}
		// The next event is sent at once. If it fails, its first pause is short again.
		w.schema.hub.publish(2)
		c.expectMessage(wholeEventMessage(2))
		w.schema.eventFault.Store(errNoDatabase)
		start := time.Now()
		w.schema.hub.publish(3)
		c.expectMessage(partialEventMessage(3))
		w.schema.eventFault.Store(nil)
		c.expectMessage(wholeEventMessage(3))
		if took := time.Since(start); took > 1100*time.Millisecond {
			t.Errorf("the whole event came after %v", took)
		}
	})
}

// A newer event replaces one that lost a part. While the database does not answer, the newer one is sent without its part too.
func TestANewerEventReplacesOneThatLostAPart(t *testing.T) {
	runWithFailingDatabase(t, "loses", func(w *socketFixture, c *socketClient, _ *fakeLimits) {
		w.schema.hub.publish(1)
		c.expectMessage(partialEventMessage(1))
		w.schema.hub.publish(2)
		c.expectMessage(partialEventMessage(2))
		passTime(time.Minute)
		c.expectNothing()
		w.schema.eventFault.Store(nil)
		c.expectMessage(wholeEventMessage(2))
		passTime(time.Minute)
		c.expectNothing()
	})
}

// A newer event is tried within a second of the last try, however long the pause of the older one is. After an outage of minutes the
// engines may answer long before that pause ends. During the outage newer events lead to one try a second.
func TestANewerEventShortensThePauseAfterAFailure(t *testing.T) {
	const most = 1100 * time.Millisecond // with the jitter
	for field, event := range map[string]func(int) string{
		"loses": wholeEventMessage, "fails": func(value int) string { return strings.Replace(tickMessage("1", value), "ticks", "fails", 1) },
	} {
		t.Run(field, func(t *testing.T) {
			runWithFailingDatabase(t, field, func(w *socketFixture, c *socketClient, limits *fakeLimits) {
				w.schema.hub.publish(0)
				for value := range 20 {
					passTime(10 * time.Minute) // the pauses are as long as they get
					w.schema.eventFault.Store(nil)
					c.discardReceived() // an event without its part
					start := time.Now()
					w.schema.hub.publish(2 * value)
					c.expectMessage(event(2 * value))
					if took := time.Since(start); took > most {
						t.Errorf("a newer event came after %v", took)
					}
					w.schema.eventFault.Store(errNoDatabase)
					w.schema.hub.publish(2*value + 1)
				}
				passTime(10 * time.Minute)
				before := limits.eventCostSum.Load()
				for value := range 600 {
					w.schema.hub.publish(value)
					passTime(100 * time.Millisecond)
				}
				if tries := limits.eventCostSum.Load() - before; tries < 50 || tries > 67 {
					t.Errorf("newer events of a minute lead to %d tries", tries)
				}
				// No older event follows.
				w.schema.eventFault.Store(nil)
				passTime(most)
				c.discardReceived()
				w.schema.hub.publish(1000)
				c.expectMessage(event(1000))
			})
		})
	}
}

// A subscription whose event lost a part ends like any other: with its channel, by its client, and in a drain. Further tries for the
// part end with it.
func TestASubscriptionWhoseEventLostAPartEnds(t *testing.T) {
	for name, end := range map[string]func(w *socketFixture, c *socketClient){
		"source": func(w *socketFixture, c *socketClient) {
			w.schema.hub.endAllWatchers()
			c.expectMessage(`{"type":"complete","id":"1"}`)
		},
		"client": func(_ *socketFixture, c *socketClient) { c.send(`{"type":"complete","id":"1"}`) },
		"drain": func(w *socketFixture, c *socketClient) {
			w.sockets.Drain(w.Context(), 0)
			c.expectClose(1012)
		},
	} {
		t.Run(name, func(t *testing.T) {
			runWithFailingDatabase(t, "loses", func(w *socketFixture, c *socketClient, limits *fakeLimits) {
				w.schema.hub.publish(1)
				c.expectMessage(partialEventMessage(1))
				passTime(5 * time.Minute)
				start := time.Now()
				end(w, c)
				if took := time.Since(start); took > time.Second {
					t.Errorf("the end came after %v", took)
				}
				synctest.Wait()
				if n := w.schema.hub.countWatchers(); n != 0 {
					t.Errorf("%d watchers are left", n)
				}
				w.schema.eventFault.Store(nil)
				charged := limits.eventCostSum.Load()
				passTime(time.Minute)
				if limits.eventCostSum.Load() != charged {
					t.Error("the event was tried after the end")
				}
			})
		})
	}
}

// An error with another code than UNAVAILABLE is sent to the client at once.
func TestAnEventThatFailsForGoodIsShown(t *testing.T) {
	runWithAndWithoutPoller(t, nil, func(w *socketFixture) {
		w.schema.eventFault.Store(&services.Error{Code: services.NotFound, Message: "id: it is gone"})
		defer w.schema.eventFault.Store(nil)
		c := w.openSocket("alice")
		c.subscribe("1", "subscription { fails }")
		synctest.Wait()
		w.schema.hub.publish(1)
		c.expectMessage(`{"type":"next","id":"1","payload":{"errors":[{"message":"id: it is gone","extensions":{"argument":"id","code":"NOT_FOUND"}}],"data":{"fails":null}}}`)
	})
}
