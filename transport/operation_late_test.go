package transport

import (
	"net/http"
	"sync/atomic"
	"testing"
	"time"
)

// slowSecondMarshal is a value that takes longer than the operation timeout when it is encoded for the second time. An event is encoded
// once to measure its length, and once more to be sent.
type slowSecondMarshal struct{ marshalCount atomic.Int32 }

func (s *slowSecondMarshal) MarshalJSON() ([]byte, error) {
	if s.marshalCount.Add(1) == 2 {
		passTime(6 * time.Second)
	}
	return []byte("1"), nil
}

// The timer of an event must not end the subscription after the event was found to be in time: no error would be sent, and the
// client would wait for ever.
func TestAnEventThatIsInTimeDoesNotEndItsSubscription(t *testing.T) {
	runWithAndWithoutPoller(t, nil, func(w *socketFixture) {
		w.schema.eventExtensions = map[string]any{"slow": &slowSecondMarshal{}}
		c := w.openSocket("alice")
		c.subscribe("1", "subscription { ticks }")
		c.expectNothing()
		for value := range 3 {
			w.schema.hub.publish(value)
			if got := c.nextMessage(); got == "" {
				t.Errorf("event %d has no text", value)
			}
		}
	})
}

// A drain or the erasure of a user can close a socket as soon as the socket is counted, even before its goroutine reads.
func TestASocketCanBeClosedBeforeItReads(t *testing.T) {
	runWithAndWithoutPoller(t, nil, func(w *socketFixture) {
		conn, err := w.dial(http.Header{}, webSocketSubprotocol)
		if err != nil {
			t.Fatal(err)
		}
		one := newSocket(w.sockets, conn.NetConn(), nil, http.Header{}, "")
		w.sockets.add(&one.peer)
		one.askToReconnect()
		if !one.isClosing() {
			t.Error("the socket is open")
		}
		one.releaseSocket()
	})
}
