package transport

import (
	"bufio"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tidings/services"
)

// openUnreadStream opens an event stream for one operation. The client reads only when the test says so.
func (w *socketFixture) openUnreadStream() (net.Conn, *bufio.Reader) {
	w.Helper()
	conn, err := w.listener.dial(w.Context(), "", "")
	if err != nil {
		w.Fatal(err)
	}
	const request = "GET /graphql?query=subscription%7Bticks%7D HTTP/1.1\r\nHost: tidings.test\r\nAccept: text/event-stream\r\n\r\n"
	if _, err := conn.Write([]byte(request)); err != nil {
		w.Fatal(err)
	}
	reader := bufio.NewReaderSize(conn, 16) // so that nothing is read ahead
	for line := ""; line != ":\n"; {
		if line, err = reader.ReadString('\n'); err != nil {
			w.Fatal(err)
		}
	}
	for range 2 { // skip the rest of the first comment
		if _, err = reader.ReadString('\n'); err != nil {
			w.Fatal(err)
		}
	}
	return conn, reader
}

// While a reader of events is blocked, many events come: only the one that is being written and the last one arrive.
func TestASlowEventStreamGetsTheLatest(t *testing.T) {
	runWithAndWithoutPoller(t, nil, func(w *socketFixture) {
		conn, reader := w.openUnreadStream()
		defer conn.Close()
		synctest.Wait()
		for value := 1; value <= 100; value++ {
			w.schema.hub.publish(value)
			synctest.Wait()
		}
		var got []string
		for len(got) < 2 {
			line, err := reader.ReadString('\n')
			if err != nil {
				t.Fatal(err)
			}
			if data, ok := strings.CutPrefix(line, "data: "); ok {
				got = append(got, strings.TrimSpace(data))
			}
		}
		if want := []string{`{"data":{"ticks":1}}`, `{"data":{"ticks":100}}`}; !slices.Equal(got, want) {
			t.Errorf("got %v, want %v", got, want)
		}
	})
}

func TestASlowEventStreamIsCutOffAndDelaysNoOther(t *testing.T) {
	runWithAndWithoutPoller(t, nil, func(w *socketFixture) {
		const slow = 100 // more than there are workers
		for range slow {
			conn, _ := w.openUnreadStream()
			defer conn.Close()
		}
		e := w.openOperationStream("alice", "subscription { ticks }")
		synctest.Wait()
		start := time.Now()
		for value := range 5 {
			w.schema.hub.publish(value)
			e.expectEvent(nextEventText(`{"data":{"ticks":` + string(rune('0'+value)) + `}}`))
		}
		if held := time.Since(start); held != 0 {
			t.Errorf("others were held up for %v", held)
		}
		passTime(10*time.Second - time.Millisecond)
		synctest.Wait()
		if open := w.sockets.Stats().Streams; open != slow+1 {
			t.Errorf("%d event streams before the write deadline", open)
		}
		passTime(2 * time.Millisecond)
		synctest.Wait()
		if stats := w.sockets.Stats(); stats.Streams != 1 || stats.SlowClients != slow {
			t.Errorf("after the write deadline: %+v", stats)
		}
		w.schema.hub.publish(9)
		e.expectEvent(nextEventText(`{"data":{"ticks":9}}`))
	})
}

// In a drain each client gets its own time to reconnect, so that they do not return all at once. No subscription is reported as
// complete.
func TestDrainEndsEventStreamsWithARetryTime(t *testing.T) {
	runWithAndWithoutPoller(t, nil, func(w *socketFixture) {
		streams := make([]*streamClient, 20)
		for i := range streams {
			if i%2 == 0 {
				streams[i] = w.openOperationStream("alice", "subscription { ticks }")
			} else {
				streams[i] = w.openReservedStream(w.reserveStream("alice"))
			}
		}
		w.reserveStream("alice") // a reservation that no request uses
		synctest.Wait()
		start := time.Now()
		drained := make(chan struct{})
		go func() {
			w.sockets.Drain(w.Context(), 4*time.Second)
			close(drained)
		}()
		passTime(2 * time.Second)
		synctest.Wait()
		if n := w.sockets.Stats().Streams; n < 9 || n > 12 {
			t.Errorf("half way %d event streams are open", n)
		}
		for _, method := range []string{http.MethodPut, http.MethodPost} {
			response := w.sendHTTP(method, "", `{"query":"subscription { ticks }"}`, "Accept", typeEvents)
			if response.StatusCode != http.StatusServiceUnavailable || response.Header.Get("Retry-After") != "1" {
				t.Errorf("%s while draining: %d", method, response.StatusCode)
			}
			response.Body.Close()
		}
		w.schema.hub.endAllWatchers() // the hub closes too: that must not complete a subscription
		<-drained
		if took := time.Since(start); took < 3900*time.Millisecond || took > 4100*time.Millisecond {
			t.Errorf("drained in %v, want 4 s", took)
		}
		waits := map[string]bool{}
		for _, e := range streams {
			last := e.waitEnd()
			if len(last) != 1 || !strings.HasPrefix(last[0], "retry: ") {
				t.Fatalf("the last words of a stream: %q", last)
			}
			wait, err := time.ParseDuration(strings.TrimPrefix(last[0], "retry: ") + "ms")
			if err != nil || wait < minReconnectDelay || wait > minReconnectDelay+maxReconnectJitter {
				t.Errorf("%s: %v", last[0], err)
			}
			waits[last[0]] = true
		}
		if len(waits) < 5 {
			t.Errorf("all clients come back at once: %v", waits)
		}
	})
}

func TestAnEventStreamIsKeptAlive(t *testing.T) {
	runWithAndWithoutPoller(t, nil, func(w *socketFixture) {
		e := w.openOperationStream("alice", "subscription { ticks }")
		for range 5 {
			start := time.Now()
			e.expectEvent(":")
			if waited := time.Since(start); waited < 22*time.Second || waited > 28*time.Second {
				t.Errorf("a comment after %v", waited)
			}
		}
		synctest.Wait()
		w.schema.hub.publish(1)
		e.expectEvent(nextEventText(`{"data":{"ticks":1}}`))
	})
}

// A stream ends when its token expires, at the latest.
func TestAnEventStreamEndsWithItsToken(t *testing.T) {
	runWithAndWithoutPoller(t, func(cfg *SocketConfig) {
		cfg.Identity = newIdentity(t, IdentityConfig{TokenSettings: TokenSettings{HMACSecret: testHMACSecret}})
	}, func(w *socketFixture) {
		bearer := "Bearer " + signHMAC(t, testHMACSecret, claimsOf("alice", time.Now().Add(time.Minute)))
		e := w.readEventStream(w.sendHTTP(http.MethodPost, "", `{"query":"subscription { ticks }"}`, "Accept", typeEvents, "Authorization", bearer))
		start := time.Now()
		passTime(time.Minute)
		last := e.waitEnd()
		if lived := time.Since(start); lived != time.Minute+tokenLeeway {
			t.Errorf("lived for %v, want the token's life and the leeway", lived)
		}
		if len(last) == 0 || !strings.HasPrefix(last[len(last)-1], "retry: ") {
			t.Errorf("the last words: %q", last)
		}
	})
}

// DeviceGone is called when the last event stream of a device has ended, and not before.
func TestDeviceGoneIsCalledAfterTheLastEventStream(t *testing.T) {
	gone := make(chan services.Viewer, 10)
	runWithAndWithoutPoller(t, func(cfg *SocketConfig) { cfg.DeviceGone = func(viewer services.Viewer) { gone <- viewer } }, func(w *socketFixture) {
		open := func() *streamClient {
			return w.readEventStream(w.sendHTTP(http.MethodPost, "", `{"query":"subscription { ticks }"}`,
				"Accept", typeEvents, "Authorization", "Bearer dev:alice", "Tidings-Device", "phone"))
		}
		first, second := open(), open()
		first.response.Body.Close()
		first.waitEnd()
		synctest.Wait()
		if len(gone) != 0 {
			t.Error("gone with one of two")
		}
		second.response.Body.Close()
		second.waitEnd()
		synctest.Wait()
		if len(gone) != 1 || (<-gone).Device != "phone" {
			t.Error("not gone with the last")
		}
	})
}

// A line break in an answer does not end its event.
func TestAnEventHasOneLine(t *testing.T) {
	text := []byte("{\"a\":\r\n1}\n")
	joinLines(text)
	if string(text) != `{"a":  1} ` {
		t.Errorf("%q", text)
	}
}
