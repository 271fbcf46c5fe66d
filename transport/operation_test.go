package transport

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"runtime/pprof"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/99designs/gqlgen/graphql/handler"
	"github.com/gorilla/websocket"

	"tidings/services"
)

func tick(id string, value int) string {
	return fmt.Sprintf(`{"type":"next","id":"%s","payload":{"data":{"ticks":%d}}}`, id, value)
}

func TestQueryAndMutationOverASocket(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		c := w.open("alice")
		c.subscribe("q", "{ hello }")
		c.expect(`{"type":"next","id":"q","payload":{"data":{"hello":"world"}}}`)
		c.expect(`{"type":"complete","id":"q"}`)
		c.send(`{"type":"subscribe","id":"q","payload":{"query":"mutation M($t: String!) { set(text: $t) } query Q { hello }",` +
			`"operationName":"M","variables":{"t":"it"},"extensions":{"a":1}}}`) // the id is free again
		c.expect(`{"type":"next","id":"q","payload":{"data":{"set":"it"}}}`)
		c.expect(`{"type":"complete","id":"q"}`)
		c.subscribe("f", "{ fails }")
		got := c.next()
		if !strings.Contains(got, `"type":"next"`) || !strings.Contains(got, `"data":{"fails":null}`) || !strings.Contains(got, "it failed") {
			t.Errorf("an error of a field: %s", got)
		}
		c.expect(`{"type":"complete","id":"f"}`)
	})
}

func TestIDsAreEscaped(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		c := w.open("alice")
		c.subscribe(`a\"\u00fc\n`, "{ hello }")
		var got struct{ ID, Type string }
		if err := json.Unmarshal([]byte(c.next()), &got); err != nil || got.ID != "a\"ü\n" {
			t.Errorf("%+v %v", got, err)
		}
	})
}

func TestErrorsBeforeTheStartAreAnErrorOnly(t *testing.T) {
	for name, query := range map[string]string{
		"Parse": "{", "Validation": "{ nothing }", "Subscription": "subscription { nothing }", "Empty": "# a comment",
		"TwoStreams": "subscription { ticks plain }", "Resolver": "subscription { refused }",
	} {
		t.Run(name, func(t *testing.T) {
			inWorld(t, nil, func(w *world) {
				c := w.open("alice")
				c.subscribe("1", query)
				var got struct {
					Type, ID string
					Payload  []struct {
						Message    string
						Extensions struct{ Code services.Code }
					}
				}
				text := c.next()
				if err := json.Unmarshal([]byte(text), &got); err != nil {
					t.Fatal(err)
				}
				if got.Type != "error" || got.ID != "1" || len(got.Payload) == 0 || got.Payload[0].Message == "" {
					t.Errorf("got %s", text)
				}
				if name != "Resolver" && got.Payload[0].Extensions.Code != services.Invalid {
					t.Errorf("code: %s", text)
				}
				c.nothing()
				c.subscribe("1", "{ hello }") // the id is free
				c.expect(`{"type":"next","id":"1","payload":{"data":{"hello":"world"}}}`)
			})
		})
	}
}

func TestSubscriptionDeliversAndCompletes(t *testing.T) {
	for _, field := range []string{"ticks", "plain"} {
		t.Run(field, func(t *testing.T) {
			inWorld(t, nil, func(w *world) {
				next := func(value int) string { return strings.Replace(tick("1", value), "ticks", field, 1) }
				c := w.open("alice")
				c.subscribe("1", "subscription { "+field+" }")
				synctest.Wait()
				for value := range 3 {
					w.schema.hub.publish(value)
					c.expect(next(value))
				}
				w.schema.hub.closeAll()
				c.expect(`{"type":"complete","id":"1"}`)
				if n := w.sockets.Stats(); n.Operations != 0 || n.Events != 3 {
					t.Errorf("%+v", n)
				}
				c.nothing()
			})
		})
	}
}

func TestCompleteCancelsInSilence(t *testing.T) {
	for _, field := range []string{"ticks", "plain", "stuck"} {
		t.Run(field, func(t *testing.T) {
			inWorld(t, nil, func(w *world) {
				c := w.open("alice")
				c.send(`{"type":"complete","id":"never begun"}`)
				c.subscribe("1", "subscription { "+field+" }")
				synctest.Wait()
				c.send(`{"type":"complete","id":"1"}`)
				synctest.Wait()
				if n := w.schema.hub.count(); n != 0 {
					t.Errorf("the hub still has %d watchers", n)
				}
				w.schema.hub.publish(1)
				c.nothing()
				if n := w.sockets.Stats().Operations; n != 0 {
					t.Errorf("%d operations are left", n)
				}
			})
		})
	}
}

func TestAnIDUsedAgainBelongsToTheNewOperation(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		c := w.open("alice")
		c.subscribe("1", "{ slow }") // ends when it is cancelled, after the id is another's
		synctest.Wait()
		c.send(`{"type":"complete","id":"1"}`)
		c.subscribe("1", "subscription { ticks }")
		synctest.Wait()
		w.schema.hub.publish(4)
		c.expect(tick("1", 4))
		c.nothing()
		if n := w.sockets.Stats().Operations; n != 1 {
			t.Errorf("%d operations", n)
		}
	})
}

func TestOperationsAreBounded(t *testing.T) {
	t.Run("Query", func(t *testing.T) {
		inWorld(t, nil, func(w *world) {
			c := w.open("alice")
			start := time.Now()
			c.subscribe("1", "{ slow }")
			if got := c.next(); !strings.Contains(got, "not done in time") {
				t.Errorf("got %s", got)
			}
			if took := time.Since(start); took != 5*time.Second {
				t.Errorf("took %v", took)
			}
		})
	})
	t.Run("StartOfASubscription", func(t *testing.T) {
		inWorld(t, nil, func(w *world) {
			c := w.open("alice")
			start := time.Now()
			c.subscribe("1", "subscription { stuck }")
			if got := c.next(); !strings.HasPrefix(got, `{"type":"error","id":"1"`) || !strings.Contains(got, `"UNAVAILABLE"`) {
				t.Errorf("got %s", got)
			}
			if took := time.Since(start); took != 5*time.Second {
				t.Errorf("took %v", took)
			}
			c.nothing()
		})
	})
	t.Run("ASubscriptionLivesOn", func(t *testing.T) {
		inWorld(t, nil, func(w *world) {
			c := w.open("alice")
			c.subscribe("1", "subscription { ticks }")
			pass(time.Hour)
			w.schema.hub.publish(1)
			c.expect(tick("1", 1))
		})
	})
}

func TestPanicsEndNothingButTheirOperation(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		c := w.open("alice")
		c.subscribe("1", "{ panics hello }")
		if got := c.next(); !strings.Contains(got, `"hello":"world"`) || !strings.Contains(got, "an error on our side") {
			t.Errorf("in a field: %s", got)
		}
		c.expect(`{"type":"complete","id":"1"}`)
		c.subscribe("2", "subscription { panics }")
		synctest.Wait()
		w.schema.hub.publish(1)
		if got := c.next(); !strings.HasPrefix(got, `{"type":"error","id":"2"`) || strings.Contains(got, "in an event") {
			t.Errorf("in an event: %s", got)
		}
		c.subscribe("3", "{ hello }")
		c.expect(`{"type":"next","id":"3","payload":{"data":{"hello":"world"}}}`)
	})
}

// TestAMiddlewareMayAnswerItself is the case in which an event is not taken out of the channel that was made for it.
func TestAMiddlewareMayAnswerItself(t *testing.T) {
	schema := newTestSchema()
	var skip atomic.Bool
	inWorld(t, nil, func(w *world) {
		w.server.Handler = Handler(Config{
			Schema: schema, Identity: w.identity, Sockets: w.sockets,
			Around: func(server *handler.Server) {
				server.AroundResponses(func(ctx context.Context, next graphql.ResponseHandler) *graphql.Response {
					if skip.Load() {
						return &graphql.Response{Data: []byte(`{"ticks":-1}`)}
					}
					return next(ctx)
				})
			},
		})
		c := w.open("alice")
		c.subscribe("1", "subscription { ticks }")
		synctest.Wait()
		skip.Store(true)
		for range 3 {
			schema.hub.publish(1)
			c.expect(tick("1", -1))
		}
		skip.Store(false)
		schema.hub.publish(9)
		c.expect(tick("1", 9))
	})
}

// TestASlowReaderGetsTheLatest holds a reader up while many events come: the one under way and the last arrive.
func TestASlowReaderGetsTheLatest(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		conn, err := w.dial(http.Header{}, protocol)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		read := func() string {
			_, text, err := conn.ReadMessage()
			if err != nil {
				t.Fatal(err)
			}
			return string(text)
		}
		write := func(text string) {
			if err := conn.WriteMessage(websocket.TextMessage, []byte(text)); err != nil {
				t.Fatal(err)
			}
		}
		write(`{"type":"connection_init"}`)
		read()
		write(`{"type":"subscribe","id":"1","payload":{"query":"subscription { ticks }"}}`)
		synctest.Wait()
		for value := 1; value <= 100; value++ {
			w.schema.hub.publish(value)
			synctest.Wait()
		}
		got := []string{read(), read()}
		if want := []string{tick("1", 1), tick("1", 100)}; !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		synctest.Wait()
		if events := w.sockets.Stats().Events; events != 2 {
			t.Errorf("%d events were written, want the first and the last", events)
		}
	})
}

func TestASlowReaderIsCutOffAndHoldsUpNobody(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		const slow = 100 // more than there are workers
		for range slow {
			conn, err := w.dial(http.Header{}, protocol)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			for _, text := range []string{`{"type":"connection_init"}`, `{"type":"subscribe","id":"1","payload":{"query":"subscription { ticks }"}}`} {
				if err := conn.WriteMessage(websocket.TextMessage, []byte(text)); err != nil {
					t.Fatal(err)
				}
				if text == `{"type":"connection_init"}` {
					if _, _, err := conn.ReadMessage(); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
		c := w.open("alice")
		c.subscribe("1", "subscription { ticks }")
		synctest.Wait()
		start := time.Now()
		for value := range 5 {
			w.schema.hub.publish(value)
			c.expect(tick("1", value))
		}
		if held := time.Since(start); held != 0 {
			t.Errorf("others were held up for %v", held)
		}
		pass(10*time.Second - time.Millisecond)
		synctest.Wait()
		if open := w.sockets.Stats().Open; open != slow+1 {
			t.Errorf("%d sockets before the write deadline", open)
		}
		pass(2 * time.Millisecond)
		synctest.Wait()
		if stats := w.sockets.Stats(); stats.Open != 1 || stats.Slow != slow {
			t.Errorf("after the write deadline: %+v", stats)
		}
		w.schema.hub.publish(9)
		c.expect(tick("1", 9))
	})
}

func TestAHubThatRefusesWhileDrainingEndsNoSubscription(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		c := w.open("alice")
		w.schema.hub.mu.Lock()
		w.schema.hub.refuse = errors.New("going away")
		w.schema.hub.mu.Unlock()
		go w.sockets.Drain(w.Context(), 10*time.Second)
		synctest.Wait()
		c.subscribe("1", "subscription { ticks }")
		c.subscribe("2", "{ hello }") // what was begun is finished: a client would send a mutation again
		c.expect(`{"type":"next","id":"2","payload":{"data":{"hello":"world"}}}`)
		c.expect(`{"type":"complete","id":"2"}`)
		c.expectClose(1012)
		if len(c.received) > 0 {
			t.Errorf("got %s", <-c.received)
		}
	})
}

// TestSubscriptionsThatWakeCostNoGoroutine counts: one for each socket, and one for each subscription that does not wake.
func TestSubscriptionsThatWakeCostNoGoroutine(t *testing.T) {
	inWorld(t, nil, func(w *world) {
		c := w.open("alice")
		c.subscribe("first", "subscription { ticks }")
		for round, field := range []string{"ticks", "plain"} {
			for i := range 9 {
				c.subscribe(fmt.Sprintf("%s%d", field, i), "subscription { "+field+" }")
			}
			synctest.Wait()
			if got, want := ownGoroutines(t), 1+round*9; got != want {
				t.Errorf("after 9 more of %s: %d goroutines, want %d", field, got, want)
			}
		}
		w.schema.hub.publish(1) // and the workers are gone when there is nothing to do
		synctest.Wait()
		if got, want := ownGoroutines(t), 10; got != want {
			t.Errorf("after the events: %d goroutines, want %d", got, want)
		}
	})
}

// ownGoroutines counts the goroutines that sockets, operations and workers started.
func ownGoroutines(t *testing.T) int {
	t.Helper()
	var stacks strings.Builder
	if err := pprof.Lookup("goroutine").WriteTo(&stacks, 2); err != nil {
		t.Fatal(err)
	}
	return strings.Count(stacks.String(), "created by tidings/transport.(*socket)") +
		strings.Count(stacks.String(), "created by tidings/transport.(*workers)")
}

// TestAThousandSocketsOverTCP has real sockets, all woken at once.
func TestAThousandSocketsOverTCP(t *testing.T) {
	const count = 1000
	w := newWorld(t, nil)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: w.server.Handler}
	go server.Serve(listener)
	t.Cleanup(func() {
		w.server.Close()
		w.listener.Close()
		server.Close()
	})
	conns := make([]*websocket.Conn, count)
	for i := range conns {
		dialer := websocket.Dialer{Subprotocols: []string{protocol}, ReadBufferSize: 512, WriteBufferSize: 512}
		conn, _, err := dialer.Dial("ws://"+listener.Addr().String(), nil)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
		conns[i] = conn
		for _, text := range []string{`{"type":"connection_init"}`, `{"type":"subscribe","id":"1","payload":{"query":"subscription { ticks }"}}`} {
			if err := conn.WriteMessage(websocket.TextMessage, []byte(text)); err != nil {
				t.Fatal(err)
			}
		}
	}
	until(t, func() bool { return w.schema.hub.count() == count })
	w.schema.hub.publish(42)
	for i, conn := range conns {
		for _, want := range []string{ack, tick("1", 42)} {
			if _, text, err := conn.ReadMessage(); err != nil || string(text) != want {
				t.Fatalf("socket %d: got %s %v, want %s", i, text, err, want)
			}
		}
	}
	until(t, func() bool { return w.sockets.Stats().Events == count })
	go w.sockets.Drain(t.Context(), 100*time.Millisecond)
	for i, conn := range conns {
		if _, _, err := conn.ReadMessage(); !websocket.IsCloseError(err, 1012) {
			t.Fatalf("socket %d: %v, want 1012", i, err)
		}
	}
	until(t, func() bool { return w.sockets.Stats().Open == 0 && w.schema.hub.count() == 0 })
}

// until waits for a condition, with a deadline.
func until(t *testing.T, condition func() bool) {
	t.Helper()
	ticker := time.NewTicker(time.Millisecond)
	defer ticker.Stop()
	for end := time.Now().Add(time.Minute); !condition(); <-ticker.C {
		if time.Now().After(end) {
			t.Fatal("the condition did not come true within a minute")
		}
	}
}
