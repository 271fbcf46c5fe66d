package transport

import (
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"
)

// openSlowClient opens a socket and subscribes to ticks. Nothing reads from the socket unless the test itself does.
func (w *socketFixture) openSlowClient() *websocket.Conn {
	w.Helper()
	conn, err := w.dial(http.Header{}, webSocketSubprotocol)
	if err != nil {
		w.Fatal(err)
	}
	w.Cleanup(func() { _ = conn.Close() })
	write := func(text string) {
		if err := conn.WriteMessage(websocket.TextMessage, []byte(text)); err != nil {
			w.Fatal(err)
		}
	}
	write(`{"type":"connection_init"}`)
	if _, text, err := conn.ReadMessage(); err != nil || string(text) != connectionAck {
		w.Fatalf("%s %v", text, err)
	}
	write(`{"type":"subscribe","id":"1","payload":{"query":"subscription { ticks }"}}`)
	synctest.Wait()
	return conn
}

// While an event waits for its client, a ping that is due is left out, and the socket's timer goes on. The client then reads the
// event, and receives later pings.
func TestAPingIsLeftOutWhileAMessageIsWritten(t *testing.T) {
	patient := func(cfg *SocketConfig) {
		cfg.PingInterval, cfg.WriteTimeout, cfg.InitTimeout = 4*time.Second, time.Minute, time.Minute
	}
	runWithAndWithoutPoller(t, patient, func(w *socketFixture) {
		conn := w.openSlowClient()
		pings := 0
		answer := conn.PingHandler()
		conn.SetPingHandler(func(payload string) error {
			pings++
			return answer(payload)
		})
		w.schema.hub.publish(1)
		passTime(9 * time.Second) // two pings are due
		synctest.Wait()
		if stats := w.sockets.Stats(); stats.Open != 1 || stats.SlowClients != 0 {
			t.Errorf("%+v", stats)
		}
		if _, text, err := conn.ReadMessage(); err != nil || string(text) != tickMessage("1", 1) || pings > 0 {
			t.Fatalf("%s %v after %d pings", text, err, pings)
		}
		synctest.Wait() // a ping that had waited for the event would have its turn now
		go func() {
			w.schema.hub.publish(2)
			passTime(5 * time.Second)
			w.schema.hub.publish(3)
		}()
		for _, value := range []int{2, 3} {
			if _, text, err := conn.ReadMessage(); err != nil || string(text) != tickMessage("1", value) || (pings > 0) != (value == 3) {
				t.Fatalf("%s %v after %d pings", text, err, pings)
			}
		}
	})
}

// A ping that the client does not take within a second ends the socket: a part of the ping may have been written.
func TestAClientThatTakesNoPingIsCutOff(t *testing.T) {
	runWithAndWithoutPoller(t, nil, func(w *socketFixture) {
		w.openSlowClient()
		passTime(29 * time.Second)
		synctest.Wait()
		if stats := w.sockets.Stats(); stats.Open != 0 || stats.SlowClients != 1 {
			t.Errorf("%+v", stats)
		}
	})
}

// The pong to a ping that comes while an event waits for its client comes after the event.
func TestAPongWaitsForTheMessageBeforeIt(t *testing.T) {
	runWithAndWithoutPoller(t, nil, func(w *socketFixture) {
		conn := w.openSlowClient()
		var pongs []string
		conn.SetPongHandler(func(payload string) error {
			pongs = append(pongs, payload)
			return nil
		})
		w.schema.hub.publish(1)
		synctest.Wait()
		if err := conn.WriteControl(websocket.PingMessage, []byte("hi"), time.Now().Add(time.Second)); err != nil {
			t.Fatal(err)
		}
		passTime(5 * time.Second)
		if _, text, err := conn.ReadMessage(); err != nil || string(text) != tickMessage("1", 1) || len(pongs) > 0 {
			t.Fatalf("%s %v after pongs %q", text, err, pongs)
		}
		go func() {
			synctest.Wait()
			w.schema.hub.publish(2)
		}()
		if _, text, err := conn.ReadMessage(); err != nil || string(text) != tickMessage("1", 2) || len(pongs) != 1 || pongs[0] != "hi" {
			t.Fatalf("%s %v after pongs %q", text, err, pongs)
		}
	})
}

// A drain takes a second for clients that do not read. They do not count as slow: they had less than the write timeout.
func TestADrainDoesNotWaitForSlowClients(t *testing.T) {
	runWithAndWithoutPoller(t, nil, func(w *socketFixture) {
		for range 20 {
			w.openSlowClient()
		}
		w.schema.hub.publish(1)
		synctest.Wait()
		begun := time.Now()
		w.sockets.Drain(w.Context(), 0)
		if took := time.Since(begun); took > controlFrameTimeout+drainTickInterval {
			t.Errorf("the drain took %v", took)
		}
		if stats := w.sockets.Stats(); stats.Open != 0 || stats.SlowClients != 0 {
			t.Errorf("%+v", stats)
		}
	})
}
