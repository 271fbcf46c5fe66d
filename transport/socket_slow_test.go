package transport

import (
	"testing"
	"testing/synctest"
	"time"
)

// A message that comes in parts must be complete within its time, even if pings come between the parts. Pings between
// messages keep a socket open.
func TestAnIncompleteMessageIsCutOff(t *testing.T) {
	runWithAndWithoutPoller(t, nil, func(w *socketFixture) {
		idle, c := w.openSocket("bob"), w.openSocket("alice")
		ping, first, more := []byte{0x89, 0x80, 0, 0, 0, 0}, []byte{0x01, 0x81, 0, 0, 0, 0, '{'}, []byte{0x00, 0x81, 0, 0, 0, 0, ' '}
		begun := time.Now()
		if _, err := c.conn.NetConn().Write(first); err != nil {
			t.Fatal(err)
		}
		for ended := false; !ended; {
			if time.Since(begun) > time.Minute {
				t.Fatal("the message lasts for ever")
			}
			passTime(time.Second)
			synctest.Wait()
			if _, err := idle.conn.NetConn().Write(ping); err != nil {
				t.Fatal(err)
			}
			_, err := c.conn.NetConn().Write(append(append([]byte{}, ping...), more...))
			ended = err != nil
		}
		if took := time.Since(begun); took < 10*time.Second || took > 12*time.Second {
			t.Errorf("it was cut off after %v", took)
		}
		passTime(2 * time.Minute)
		idle.send(`{"type":"ping"}`)
		idle.expectMessage(`{"type":"pong"}`)
	})
}
