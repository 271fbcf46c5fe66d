package transport

import (
	"bytes"
	"encoding/binary"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"

	"tidings/tests/eventually"
)

// On TCP, a client that is still sending when its message is refused finds the reason: no reset discards it.
func TestARefusedClientReadsTheReason(t *testing.T) {
	w := newTCPFixture(t)
	const pieces, piece = 64, 4 << 10
	tooLong := binary.BigEndian.AppendUint64([]byte{0x81, 0xff}, pieces*piece)
	for name, test := range map[string]struct {
		head []byte
		code int
	}{
		"too long":     {append(tooLong, 0, 0, 0, 0), websocket.CloseMessageTooBig},
		"not a frame":  {[]byte{0xff, 0xff, 0, 0, 0, 0}, websocket.CloseProtocolError},
		"without mask": {[]byte{0x81, 0x05}, websocket.CloseProtocolError},
	} {
		t.Run(name, func(t *testing.T) {
			conn, err := w.dial(http.Header{}, webSocketSubprotocol)
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			raw := conn.NetConn()
			_ = raw.SetDeadline(time.Now().Add(20 * time.Second))
			if _, err := raw.Write(test.head); err != nil {
				t.Fatal(err)
			}
			for i := range pieces {
				if _, err := raw.Write(make([]byte, piece)); err != nil {
					t.Fatalf("after %d pieces: %v", i, err)
				}
			}
			if _, _, err := conn.ReadMessage(); !websocket.IsCloseError(err, test.code) {
				t.Errorf("the client reads %v, want the code %d", err, test.code)
			}
		})
	}
	eventually.Holds(t, "the sockets have ended", func() bool { return w.sockets.Stats().Open == 0 })
}

// A client that goes on sending after its frame was refused is cut off: the server discards a bounded number of bytes.
func TestARefusedClientCannotSendForEver(t *testing.T) {
	w := newTCPFixture(t)
	conn, err := w.dial(http.Header{}, webSocketSubprotocol)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	raw := conn.NetConn()
	_ = raw.SetDeadline(time.Now().Add(20 * time.Second))
	head := append(binary.BigEndian.AppendUint64([]byte{0x81, 0xff}, 1<<40), 0, 0, 0, 0)
	sent := 0
	for text := head; err == nil && sent < 256<<20; text = make([]byte, 64<<10) {
		var n int
		n, err = raw.Write(text)
		sent += n
	}
	if timeout, ok := errors.AsType[net.Error](err); err == nil || ok && timeout.Timeout() {
		t.Errorf("%d bytes were taken, and then %v", sent, err)
	}
	eventually.Holds(t, "the socket has ended", func() bool { return w.sockets.Stats().Open == 0 })
}

// A client that does not close a connection whose frame was refused is cut off.
func TestARefusedClientThatStaysIsCutOff(t *testing.T) {
	runWithAndWithoutPoller(t, nil, func(w *socketFixture) {
		conn, err := w.dial(http.Header{}, webSocketSubprotocol)
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		if _, err := conn.NetConn().Write([]byte{0xff, 0xff, 0, 0, 0, 0}); err != nil {
			t.Fatal(err)
		}
		if _, _, err := conn.ReadMessage(); !websocket.IsCloseError(err, websocket.CloseProtocolError) {
			t.Errorf("the client reads %v", err)
		}
		passTime(closeAnswerTimeout - time.Millisecond)
		synctest.Wait()
		if open := w.sockets.Stats().Open; open != 1 {
			t.Errorf("%d sockets while it may still close the connection", open)
		}
		passTime(2 * time.Millisecond)
		synctest.Wait()
		if open := w.sockets.Stats().Open; open != 0 {
			t.Errorf("%d sockets after that", open)
		}
	})
}

// A panic while a socket reads closes that socket and gives its counts back. The others go on, and the log has the stack.
func TestASocketSurvivesAPanicOfAnother(t *testing.T) {
	limits, log := &fakeLimits{}, &lockedBuffer{}
	runWithAndWithoutPoller(t, func(cfg *SocketConfig) { cfg.Limits, cfg.Log = limits, slog.New(slog.NewTextHandler(log, nil)) }, func(w *socketFixture) {
		limits.panicsOnCharge.Store(false)
		alice := w.openSocket("alice")
		alice.subscribe("1", "subscription { ticks }")
		synctest.Wait()
		limits.panicsOnCharge.Store(true)
		bob := w.connect()
		bob.send(`{"type":"connection_init","payload":{"authorization":"Bearer dev:bob"}}`)
		bob.expectClose(websocket.CloseInternalServerErr)
		synctest.Wait()
		limits.panicsOnCharge.Store(false)
		if stats := w.sockets.Stats(); stats.Open != 1 || len(w.sockets.perUser.openByHolder) != 1 {
			t.Errorf("%d sockets, of %v: want alice's", stats.Open, w.sockets.perUser.openByHolder)
		}
		w.schema.hub.publish(1)
		alice.expectMessage(tickMessage("1", 1))
		if text := log.String(); !strings.Contains(text, "in the limits") || !strings.Contains(text, "fakeLimits).ChargeSocket") {
			t.Errorf("the log has no stack: %s", text)
		}
	})
}

// Pongs and parts of messages are counted too, though a client may send many more of them than messages.
func TestSocketFrameRate(t *testing.T) {
	const begins, goesOn, pong = websocket.TextMessage, 0, 0x80 | websocket.PongMessage
	for name, frames := range map[string][2]byte{"pongs": {pong, pong}, "parts of a message": {begins, goesOn}} {
		t.Run(name, func(t *testing.T) {
			runWithAndWithoutPoller(t, nil, func(w *socketFixture) {
				c := w.openSocket("alice")
				send := func(first byte, count int) {
					t.Helper()
					if _, err := c.conn.NetConn().Write(bytes.Repeat(clientFrame(first, [4]byte{}, nil), count)); err != nil {
						t.Fatal(err)
					}
				}
				send(frames[0], 1)
				send(frames[1], (20+20)*framesPerMessage-1) // the burst is 20 operations and 20 messages
				c.expectNothing()
				passTime(time.Second)
				send(frames[1], 20*framesPerMessage)
				c.expectNothing()
				send(frames[1], 1)
				c.expectClose(closeTooManyRequests)
			})
		})
	}
}
