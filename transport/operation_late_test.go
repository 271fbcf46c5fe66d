package transport

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"
)

// slowSecond takes longer than the operation timeout when it is encoded for the second time: the first time measures the event.
type slowSecond struct{ times atomic.Int32 }

func (s *slowSecond) MarshalJSON() ([]byte, error) {
	if s.times.Add(1) == 2 {
		passTime(6 * time.Second)
	}
	return []byte("1"), nil
}

// The timer of an event must not end the subscription after the event was found to be in time: no error would be sent, and the
// client would wait for ever.
func TestAnEventThatIsInTimeDoesNotEndItsSubscription(t *testing.T) {
	runInWorlds(t, nil, func(w *world) {
		w.schema.extensions = map[string]any{"slow": &slowSecond{}}
		c := w.open("alice")
		c.subscribe("1", "subscription { ticks }")
		c.expectNothing()
		for value := range 3 {
			w.schema.hub.publish(value)
			if got := c.next(); got == "" {
				t.Errorf("event %d has no text", value)
			}
		}
	})
}

// A drain or the erasure of a user can close a socket as soon as the socket is counted, even before its goroutine reads.
func TestASocketCanBeClosedBeforeItReads(t *testing.T) {
	runInWorlds(t, nil, func(w *world) {
		conn, err := w.dial(http.Header{}, protocol)
		if err != nil {
			t.Fatal(err)
		}
		one := newSocket(w.sockets, conn.NetConn(), nil, http.Header{}, "")
		w.sockets.add(&one.peer)
		one.restart()
		if !one.isClosing() {
			t.Error("the socket is open")
		}
		one.end()
	})
}
