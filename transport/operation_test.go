package transport

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/99designs/gqlgen/graphql/handler"

	"tidings/services"
)

// tickMessage returns the message for an event of the field ticks of the test schema.
func tickMessage(id string, value int) string {
	return fmt.Sprintf(`{"type":"next","id":"%s","payload":{"data":{"ticks":%d}}}`, id, value)
}

func TestQueryAndMutationOverASocket(t *testing.T) {
	runWithAndWithoutPoller(t, nil, func(w *socketFixture) {
		c := w.openSocket("alice")
		c.subscribe("q", "{ hello }")
		c.expectMessage(`{"type":"next","id":"q","payload":{"data":{"hello":"world"}}}`)
		c.expectMessage(`{"type":"complete","id":"q"}`)
		c.send(`{"type":"subscribe","id":"q","payload":{"query":"mutation M($t: String!) { set(text: $t) } query Q { hello }",` +
			`"operationName":"M","variables":{"t":"it"},"extensions":{"a":1}}}`) // the ID is free again
		c.expectMessage(`{"type":"next","id":"q","payload":{"data":{"set":"it"}}}`)
		c.expectMessage(`{"type":"complete","id":"q"}`)
		c.subscribe("f", "{ fails }")
		got := c.nextMessage()
		if !strings.Contains(got, `"type":"next"`) || !strings.Contains(got, `"data":{"fails":null}`) || !strings.Contains(got, "it failed") {
			t.Errorf("an error of a field: %s", got)
		}
		c.expectMessage(`{"type":"complete","id":"f"}`)
	})
}

// The ID of an operation, which the client chooses, is escaped in the server's messages.
func TestIDsAreEscaped(t *testing.T) {
	runWithAndWithoutPoller(t, nil, func(w *socketFixture) {
		c := w.openSocket("alice")
		c.subscribe(`a\"\u00fc\n`, "{ hello }")
		var got struct{ ID, Type string }
		if err := json.Unmarshal([]byte(c.nextMessage()), &got); err != nil || got.ID != "a\"ü\n" {
			t.Errorf("%+v %v", got, err)
		}
	})
}

// An operation that fails before it starts is answered by a message of the type error, and not by one of the type next.
func TestErrorsBeforeTheStartAreErrorMessages(t *testing.T) {
	for name, query := range map[string]string{
		"Parse": "{", "Validation": "{ nothing }", "Subscription": "subscription { nothing }", "Empty": "# a comment",
		"TwoStreams": "subscription { ticks plain }", "Resolver": "subscription { refused }",
	} {
		t.Run(name, func(t *testing.T) {
			runWithAndWithoutPoller(t, nil, func(w *socketFixture) {
				c := w.openSocket("alice")
				c.subscribe("1", query)
				var got struct {
					Type, ID string
					Payload  []struct {
						Message    string
						Extensions struct{ Code services.Code }
					}
				}
				text := c.nextMessage()
				if err := json.Unmarshal([]byte(text), &got); err != nil {
					t.Fatal(err)
				}
				if got.Type != "error" || got.ID != "1" || len(got.Payload) == 0 || got.Payload[0].Message == "" {
					t.Errorf("got %s", text)
				}
				if name != "Resolver" && got.Payload[0].Extensions.Code != services.Invalid {
					t.Errorf("code: %s", text)
				}
				c.expectNothing()
				c.subscribe("1", "{ hello }") // the id is free
				c.expectMessage(`{"type":"next","id":"1","payload":{"data":{"hello":"world"}}}`)
			})
		})
	}
}

func TestSubscriptionDeliversAndCompletes(t *testing.T) {
	for _, field := range []string{"ticks", "plain"} {
		t.Run(field, func(t *testing.T) {
			runWithAndWithoutPoller(t, nil, func(w *socketFixture) {
				next := func(value int) string { return strings.Replace(tickMessage("1", value), "ticks", field, 1) }
				c := w.openSocket("alice")
				c.subscribe("1", "subscription { "+field+" }")
				synctest.Wait()
				for value := range 3 {
					w.schema.hub.publish(value)
					c.expectMessage(next(value))
				}
				w.schema.hub.endAllWatchers()
				c.expectMessage(`{"type":"complete","id":"1"}`)
				if n := w.sockets.Stats(); n.Operations != 0 || n.Events != 3 {
					t.Errorf("%+v", n)
				}
				c.expectNothing()
			})
		})
	}
}

// A client ends an operation by the message complete. The server then sends nothing more for the operation.
func TestCompleteCancelsWithoutAnAnswer(t *testing.T) {
	for _, field := range []string{"ticks", "plain", "stuck"} {
		t.Run(field, func(t *testing.T) {
			runWithAndWithoutPoller(t, nil, func(w *socketFixture) {
				c := w.openSocket("alice")
				c.send(`{"type":"complete","id":"never begun"}`)
				c.subscribe("1", "subscription { "+field+" }")
				synctest.Wait()
				c.send(`{"type":"complete","id":"1"}`)
				synctest.Wait()
				if n := w.schema.hub.countWatchers(); n != 0 {
					t.Errorf("the hub still has %d watchers", n)
				}
				w.schema.hub.publish(1)
				c.expectNothing()
				if n := w.sockets.Stats().Operations; n != 0 {
					t.Errorf("%d operations are left", n)
				}
			})
		})
	}
}

func TestAnIDUsedAgainBelongsToTheNewOperation(t *testing.T) {
	runWithAndWithoutPoller(t, nil, func(w *socketFixture) {
		w.schema.lingersMayEnd = make(chan struct{})
		c := w.openSocket("alice")
		c.subscribe("1", "subscription { lingers }")
		synctest.Wait()
		c.send(`{"type":"complete","id":"1"}`)
		c.subscribe("1", "subscription { ticks }")
		synctest.Wait()
		close(w.schema.lingersMayEnd) // the first operation ends only now
		c.expectNothing()
		w.schema.hub.publish(4)
		c.expectMessage(tickMessage("1", 4))
		if n := w.sockets.Stats().Operations; n != 1 {
			t.Errorf("%d operations", n)
		}
	})
}

// checkHangingEventTimesOut checks a waking subscription whose events are never ready. An event ends it with UNAVAILABLE after the
// operation timeout. If the client completes it earlier, nothing is sent.
func checkHangingEventTimesOut(t *testing.T) {
	const field = "hangs"
	runWithAndWithoutPoller(t, nil, func(w *socketFixture) {
		c := w.openSocket("alice")
		c.subscribe("1", "subscription { "+field+" }")
		synctest.Wait()
		start := time.Now()
		w.schema.hub.publish(1)
		if got := c.nextMessage(); !strings.HasPrefix(got, `{"type":"error","id":"1"`) || !strings.Contains(got, `"UNAVAILABLE"`) {
			t.Errorf("got %s", got)
		}
		if took := time.Since(start); took != 5*time.Second {
			t.Errorf("took %v", took)
		}
		c.subscribe("1", "subscription { "+field+" }")
		synctest.Wait()
		w.schema.hub.publish(1)
		synctest.Wait()
		c.send(`{"type":"complete","id":"1"}`) // while the event is being delivered
		passTime(10 * time.Second)
		c.expectNothing()
	})
}

// A query, the start of a subscription and each event have the operation timeout of 5 s. A subscription that waits has no timeout.
func TestOperationsAreBounded(t *testing.T) {
	t.Run("Query", func(t *testing.T) {
		runWithAndWithoutPoller(t, nil, func(w *socketFixture) {
			c := w.openSocket("alice")
			start := time.Now()
			c.subscribe("1", "{ slow }")
			if got := c.nextMessage(); !strings.Contains(got, "not done in time") {
				t.Errorf("got %s", got)
			}
			if took := time.Since(start); took != 5*time.Second {
				t.Errorf("took %v", took)
			}
		})
	})
	t.Run("StartOfASubscription", func(t *testing.T) {
		runWithAndWithoutPoller(t, nil, func(w *socketFixture) {
			c := w.openSocket("alice")
			start := time.Now()
			c.subscribe("1", "subscription { stuck }")
			if got := c.nextMessage(); !strings.HasPrefix(got, `{"type":"error","id":"1"`) || !strings.Contains(got, `"UNAVAILABLE"`) {
				t.Errorf("got %s", got)
			}
			if took := time.Since(start); took != 5*time.Second {
				t.Errorf("took %v", took)
			}
			c.expectNothing()
		})
	})
	t.Run("Event", checkHangingEventTimesOut)
	t.Run("ASubscriptionLivesOn", func(t *testing.T) {
		runWithAndWithoutPoller(t, nil, func(w *socketFixture) {
			c := w.openSocket("alice")
			c.subscribe("1", "subscription { ticks }")
			passTime(time.Hour)
			w.schema.hub.publish(1)
			c.expectMessage(tickMessage("1", 1))
		})
	})
}

func TestAPanicEndsOnlyItsOperation(t *testing.T) {
	runWithAndWithoutPoller(t, nil, func(w *socketFixture) {
		c := w.openSocket("alice")
		c.subscribe("1", "{ panics hello }")
		if got := c.nextMessage(); !strings.Contains(got, `"hello":"world"`) || !strings.Contains(got, "an error on our side") {
			t.Errorf("in a field: %s", got)
		}
		c.expectMessage(`{"type":"complete","id":"1"}`)
		c.subscribe("2", "subscription { panics }")
		synctest.Wait()
		w.schema.hub.publish(1)
		if got := c.nextMessage(); !strings.HasPrefix(got, `{"type":"error","id":"2"`) || strings.Contains(got, "in an event") {
			t.Errorf("in an event: %s", got)
		}
		c.subscribe("3", "{ hello }")
		c.expectMessage(`{"type":"next","id":"3","payload":{"data":{"hello":"world"}}}`)
	})
}

// TestMiddlewareMayAnswerAnEvent has a middleware that answers without taking the event from eventSlot. Later events still arrive.
func TestMiddlewareMayAnswerAnEvent(t *testing.T) {
	schema := newTestSchema()
	var skip atomic.Bool
	runWithAndWithoutPoller(t, nil, func(w *socketFixture) {
		w.server.Handler = Handler(Config{
			Schema: schema, Identity: w.identity, Sockets: w.sockets,
			AddMiddleware: func(server *handler.Server) {
				server.AroundResponses(func(ctx context.Context, next graphql.ResponseHandler) *graphql.Response {
					if skip.Load() {
						return &graphql.Response{Data: []byte(`{"ticks":-1}`)}
					}
					return next(ctx)
				})
			},
		})
		c := w.openSocket("alice")
		c.subscribe("1", "subscription { ticks }")
		synctest.Wait()
		skip.Store(true)
		for range 3 {
			schema.hub.publish(1)
			c.expectMessage(tickMessage("1", -1))
		}
		skip.Store(false)
		schema.hub.publish(9)
		c.expectMessage(tickMessage("1", 9))
	})
}
