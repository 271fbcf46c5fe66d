package transport

import (
	"fmt"
	"strings"
	"testing"
	"testing/synctest"

	"tidings/services"
)

// writtenFieldMessage returns the message for an event of the field written of the test schema.
func writtenFieldMessage(id string, value int) string {
	return strings.Replace(tickMessage(id, value), "ticks", "written", 1)
}

// Events that the schema writes reach the client in their order, followed by the end of the subscription. An operation with
// variables, which is not shared, behaves in the same way.
func TestEventsThatTheSchemaWrites(t *testing.T) {
	for name, message := range map[string]string{
		"no variables": `{"query":"subscription { written }"}`,
		"variables":    `{"query":"subscription W($s: String) { written(since: $s) }","variables":{"s":"it"}}`,
	} {
		t.Run(name, func(t *testing.T) {
			runWithAndWithoutPoller(t, nil, func(w *socketFixture) {
				c := w.openSocket("alice")
				c.send(`{"type":"subscribe","id":"1","payload":` + message + `}`)
				synctest.Wait()
				for value := range 3 {
					w.schema.hub.publish(value)
					c.expectMessage(writtenFieldMessage("1", value))
				}
				synctest.Wait()
				if n := w.sockets.Stats(); n.Operations != 1 || n.Events != 3 {
					t.Errorf("%+v", n)
				}
				w.schema.hub.endAllWatchers()
				c.expectMessage(`{"type":"complete","id":"1"}`)
				c.expectNothing()
				c.subscribe("1", "subscription { written }") // the ID is free
				synctest.Wait()
				w.schema.hub.publish(7)
				c.expectMessage(writtenFieldMessage("1", 7))
			})
		})
	}
}

// A subscription whose events the schema writes frees its execution after the start: it lives for hours and asks for no
// responses.
func TestAWrittenSubscriptionFreesItsExecution(t *testing.T) {
	runWithAndWithoutPoller(t, nil, func(w *socketFixture) {
		c := w.openSocket("alice")
		c.subscribe("1", "subscription { written }")
		synctest.Wait()
		if len(w.sockets.openPeers) != 1 {
			t.Fatalf("%d clients are open", len(w.sockets.openPeers))
		}
		for peer := range w.sockets.openPeers {
			one := peer.operations[0]
			if one.execution != nil || one.cancelContext.Load() != nil {
				t.Errorf("it has an execution: %v, and a context to end: %v", one.execution != nil, one.cancelContext.Load() != nil)
			}
			// The context would have one more value if it still had the value that WithWakeConsumer adds.
			if got, want := fmt.Sprint(one.context()), fmt.Sprint(services.WithRequest(peer.ctx, one)); got != want {
				t.Errorf("its context is %v, want %v", got, want)
			}
		}
		c.send(`{"type":"complete","id":"1"}`)
		synctest.Wait()
		if n := w.schema.hub.countWatchers(); n != 0 {
			t.Errorf("%d are watching after the end", n)
		}
	})
}

// An event that cannot be written ends its own subscription with an error and leaves no part of its text in the message, or in
// the next event of others.
func TestAnEventThatCannotBeWrittenEndsItsSubscription(t *testing.T) {
	runWithAndWithoutPoller(t, nil, func(w *socketFixture) {
		c, other := w.openSocket("alice"), w.openSocket("bob")
		c.subscribe("1", "subscription { written }")
		synctest.Wait()
		w.schema.hub.publish(13)
		if got := c.nextMessage(); !strings.HasPrefix(got, `{"type":"error","id":"1","payload":[{`) || !strings.Contains(got, "an error on our side") || strings.Contains(got, "written") {
			t.Errorf("got %s", got)
		}
		c.expectNothing()
		other.subscribe("2", "subscription { written }")
		synctest.Wait()
		w.schema.hub.publish(14)
		other.expectMessage(writtenFieldMessage("2", 14))
		c.expectNothing()
	})
}

// MaxAnswerBytes also bounds the events that the schema writes by itself.
func TestAWrittenEventIsBounded(t *testing.T) {
	const longest = `{"written":1234}`
	runWithAndWithoutPoller(t, func(cfg *SocketConfig) { cfg.MaxAnswerBytes = len(longest) }, func(w *socketFixture) {
		c := w.openSocket("alice")
		c.subscribe("1", "subscription { written }")
		synctest.Wait()
		w.schema.hub.publish(1234)
		c.expectMessage(writtenFieldMessage("1", 1234))
		w.schema.hub.publish(12345)
		if got := c.nextMessage(); !strings.HasPrefix(got, `{"type":"error","id":"1"`) || !strings.Contains(got, "17 bytes, up to 16 are allowed") {
			t.Errorf("got %s", got)
		}
		synctest.Wait()
		if n := w.schema.hub.countWatchers(); n != 0 {
			t.Errorf("%d are watching after the end", n)
		}
	})
}
