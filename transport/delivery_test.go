package transport

import (
	"fmt"
	"net/http"
	"runtime/pprof"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"

	"tidings/tests/eventually"
)

// TestASlowReaderGetsTheLatest publishes many events to a client that does not read: only the event being written and the last
// one arrive.
func TestASlowReaderGetsTheLatest(t *testing.T) {
	runWithAndWithoutPoller(t, nil, func(w *socketFixture) {
		conn, err := w.dial(http.Header{}, webSocketSubprotocol)
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
		if want := []string{tickMessage("1", 1), tickMessage("1", 100)}; !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
		synctest.Wait()
		if events := w.sockets.Stats().Events; events != 2 {
			t.Errorf("%d events were written, want the first and the last", events)
		}
	})
}

func TestASlowReaderIsCutOffAndDelaysNoOther(t *testing.T) {
	runWithAndWithoutPoller(t, nil, func(w *socketFixture) {
		const slow = 100 // clients that do not read: more than there are goroutines for events (see workers)
		for range slow {
			conn, err := w.dial(http.Header{}, webSocketSubprotocol)
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
		c := w.openSocket("alice")
		c.subscribe("1", "subscription { ticks }")
		synctest.Wait()
		start := time.Now()
		for value := range 5 {
			w.schema.hub.publish(value)
			c.expectMessage(tickMessage("1", value))
		}
		if held := time.Since(start); held != 0 {
			t.Errorf("others were held up for %v", held)
		}
		passTime(10*time.Second - time.Millisecond)
		synctest.Wait()
		if open := w.sockets.Stats().Open; open != slow+1 {
			t.Errorf("%d sockets before the write deadline", open)
		}
		passTime(2 * time.Millisecond)
		synctest.Wait()
		if stats := w.sockets.Stats(); stats.Open != 1 || stats.SlowClients != slow {
			t.Errorf("after the write deadline: %+v", stats)
		}
		w.schema.hub.publish(9)
		c.expectMessage(tickMessage("1", 9))
	})
}

// TestSubscriptionsThatWakeCostNoGoroutine counts goroutines. There is one for each subscription to plain, which is not woken for
// events (see SocketConfig.WithWakeConsumer), and none for subscriptions to ticks. A socket without an inputPoller has one too.
func TestSubscriptionsThatWakeCostNoGoroutine(t *testing.T) {
	runWithAndWithoutPoller(t, nil, func(w *socketFixture) {
		c := w.openSocket("alice")
		c.subscribe("first", "subscription { ticks }")
		sockets := 1
		if w.usesInputPoller {
			sockets = 0
		}
		for round, field := range []string{"ticks", "plain"} {
			for i := range 9 {
				c.subscribe(fmt.Sprintf("%s%d", field, i), "subscription { "+field+" }")
			}
			synctest.Wait()
			if got, want := countTransportGoroutines(t), sockets+round*9; got != want {
				t.Errorf("after 9 more of %s: %d goroutines, want %d", field, got, want)
			}
		}
		w.schema.hub.publish(1) // the workers end when there is no work left
		synctest.Wait()
		if got, want := countTransportGoroutines(t), sockets+9; got != want {
			t.Errorf("after the events: %d goroutines, want %d", got, want)
		}
	})
}

// countTransportGoroutines counts the goroutines that sockets, operations and workers started.
func countTransportGoroutines(t *testing.T) int {
	t.Helper()
	var stacks strings.Builder
	if err := pprof.Lookup("goroutine").WriteTo(&stacks, 2); err != nil {
		t.Fatal(err)
	}
	return strings.Count(stacks.String(), "created by tidings/transport.(*socket)") +
		strings.Count(stacks.String(), "created by tidings/transport.(*workers)")
}

// TestAThousandSocketsOverTCP sends one event to a thousand sockets over TCP, and drains them: each gets the event and the close
// code 1012.
func TestAThousandSocketsOverTCP(t *testing.T) {
	const count = 1000
	w := newTCPFixture(t)
	conns := make([]*websocket.Conn, count)
	for i := range conns {
		conn, err := w.dial(nil, webSocketSubprotocol)
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
	eventually.Holds(t, "the subscriptions are open", func() bool { return w.schema.hub.countWatchers() == count })
	w.schema.hub.publish(42)
	for i, conn := range conns {
		for _, want := range []string{connectionAck, tickMessage("1", 42)} {
			if _, text, err := conn.ReadMessage(); err != nil || string(text) != want {
				t.Fatalf("socket %d: got %s %v, want %s", i, text, err, want)
			}
		}
	}
	eventually.Holds(t, "the events are sent", func() bool { return w.sockets.Stats().Events == count })
	go w.sockets.Drain(t.Context(), 100*time.Millisecond)
	for i, conn := range conns {
		if _, _, err := conn.ReadMessage(); !websocket.IsCloseError(err, 1012) {
			t.Fatalf("socket %d: %v, want 1012", i, err)
		}
	}
	eventually.Holds(t, "all sockets are closed", func() bool { return w.sockets.Stats().Open == 0 && w.schema.hub.countWatchers() == 0 })
}
