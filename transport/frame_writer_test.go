package transport

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gorilla/websocket"
)

// recordingConn records the bytes of each write.
type recordingConn struct {
	net.Conn
	writes        [][]byte
	maxWriteBytes int // the most bytes that one write takes; a longer write fails. 0: no limit
}

func (c *recordingConn) Write(piece []byte) (int, error) {
	if c.maxWriteBytes > 0 && len(piece) > c.maxWriteBytes {
		c.writes = append(c.writes, bytes.Clone(piece[:c.maxWriteBytes]))
		return c.maxWriteBytes, os.ErrDeadlineExceeded
	}
	c.writes = append(c.writes, bytes.Clone(piece))
	return len(piece), nil
}

func (*recordingConn) SetWriteDeadline(time.Time) error { return nil }

// payloadOfLength returns a payload of a length in bytes.
func payloadOfLength(length int) []byte {
	return bytes.Repeat([]byte("0123456789"), length/10+1)[:length]
}

// send writes one message through the writer.
func (w *frameWriter) send(opcode int, payload []byte, within time.Duration) error {
	if err := w.acquireTurn(); err != nil {
		return err
	}
	return w.write(opcode, append(appendFrameHeadRoom(nil), payload...), within)
}

// Frames of every length have the heads of section 5.2 of RFC 6455, which are spelled out here. Each frame is one write.
func TestFramesOfEveryLength(t *testing.T) {
	for length, head := range map[int]string{
		0: "\x81\x00", 1: "\x81\x01", 124: "\x81\x7c", 125: "\x81\x7d",
		126: "\x81\x7e\x00\x7e", 127: "\x81\x7e\x00\x7f", 255: "\x81\x7e\x00\xff", 256: "\x81\x7e\x01\x00", 65535: "\x81\x7e\xff\xff",
		65536: "\x81\x7f\x00\x00\x00\x00\x00\x01\x00\x00", 1<<20 + 3: "\x81\x7f\x00\x00\x00\x00\x00\x10\x00\x03",
	} {
		conn := &recordingConn{}
		writer := frameWriter{conn: conn}
		if err := writer.send(websocket.TextMessage, payloadOfLength(length), time.Second); err != nil {
			t.Fatal(err)
		}
		want := append([]byte(head), payloadOfLength(length)...)
		if len(conn.writes) != 1 || !bytes.Equal(conn.writes[0], want) {
			t.Errorf("%d bytes: %d writes, the first begins with %x, want one of %x and the payload", length, len(conn.writes), conn.writes[0][:min(14, len(conn.writes[0]))], head)
		}
	}
}

// A buffer is used for one message after another: a short head must not show bytes of an earlier long head.
func TestAFrameBuffersRoomIsUsedAgain(t *testing.T) {
	conn := &recordingConn{}
	writer := frameWriter{conn: conn}
	var buffer []byte
	for _, length := range []int{65536, 3, 126, 0} {
		buffer = append(appendFrameHeadRoom(buffer[:0]), payloadOfLength(length)...)
		if err := writer.acquireTurn(); err != nil {
			t.Fatal(err)
		}
		if err := writer.write(websocket.PongMessage, buffer, time.Second); err != nil {
			t.Fatal(err)
		}
	}
	for i, want := range []string{"\x8a\x7f\x00\x00\x00\x00\x00\x01\x00\x00" + string(payloadOfLength(65536)), "\x8a\x03012", "\x8a\x7e\x00\x7e" + string(payloadOfLength(126)), "\x8a\x00"} {
		if got := string(conn.writes[i]); got != want {
			t.Errorf("frame %d: %d bytes, want %d; it begins with %x", i, len(got), len(want), got[:2])
		}
	}
}

func TestCloseFrames(t *testing.T) {
	for _, test := range []struct {
		code         int
		reason, want string
	}{
		{1000, "", "\x88\x02\x03\xe8"},
		{1012, "later", "\x88\x07\x03\xf4later"},
		{4429, strings.Repeat("x", maxCloseReasonBytes), "\x88\x7d\x11\x4d" + strings.Repeat("x", maxCloseReasonBytes)},
		{websocket.CloseNoStatusReceived, "", "\x88\x00"},
	} {
		conn := &recordingConn{}
		writer := frameWriter{conn: conn}
		if err := writer.close(test.code, test.reason); err != nil || len(conn.writes) != 1 || string(conn.writes[0]) != test.want {
			t.Errorf("%d %q: %v, %x, want %x", test.code, test.reason, err, conn.writes, test.want)
		}
	}
}

// After a close frame, or after a part of a frame, every write is refused.
func TestNoWriteSucceedsAfterACloseOrPartialFrame(t *testing.T) {
	for name, test := range map[string]struct {
		most int // of recordingConn.maxWriteBytes
		end  func(w *frameWriter) error
		want error
	}{
		"a close frame":             {0, func(w *frameWriter) error { return w.close(1000, "") }, nil},
		"a part of a message":       {7, func(w *frameWriter) error { return w.send(websocket.TextMessage, payloadOfLength(9), 0) }, os.ErrDeadlineExceeded},
		"a part of a close frame":   {3, func(w *frameWriter) error { return w.close(1000, "bye") }, os.ErrDeadlineExceeded},
		"a part of a ping of three": {2, func(w *frameWriter) error { return w.send(websocket.PingMessage, payloadOfLength(3), 0) }, os.ErrDeadlineExceeded},
	} {
		t.Run(name, func(t *testing.T) {
			conn := &recordingConn{maxWriteBytes: test.most}
			writer := frameWriter{conn: conn}
			if err := test.end(&writer); !errors.Is(err, test.want) {
				t.Fatalf("%v, want %v", err, test.want)
			}
			if err := writer.send(websocket.TextMessage, nil, 0); !errors.Is(err, websocket.ErrCloseSent) {
				t.Errorf("a message after it: %v", err)
			}
			if writer.tryAcquireTurn() {
				t.Error("a ping after it has the turn")
			}
			if err := writer.close(1001, ""); !errors.Is(err, websocket.ErrCloseSent) {
				t.Errorf("a close after it: %v", err)
			}
			if len(conn.writes) != 1 {
				t.Errorf("%d writes: %q", len(conn.writes), conn.writes)
			}
		})
	}
}

// newPipedWriter returns a frameWriter on a connection in memory, and the client's end of the connection.
func newPipedWriter(t *testing.T) (w *frameWriter, client net.Conn) {
	client, server := net.Pipe()
	t.Cleanup(func() {
		client.Close()
		server.Close()
	})
	return &frameWriter{conn: server}, client
}

// readFrame reads one frame of a server. opcode is the whole first byte, with the final bit.
func readFrame(t *testing.T, from io.Reader) (opcode int, payload []byte) {
	t.Helper()
	var head [2]byte
	if _, err := io.ReadFull(from, head[:]); err != nil {
		t.Fatal(err)
	}
	length := uint64(head[1])
	if more := map[byte]int{126: 2, 127: 8}[head[1]]; more > 0 {
		var long [8]byte
		if _, err := io.ReadFull(from, long[8-more:]); err != nil {
			t.Fatal(err)
		}
		length = binary.BigEndian.Uint64(long[:])
	}
	payload = make([]byte, length)
	if _, err := io.ReadFull(from, payload); err != nil {
		t.Fatal(err)
	}
	return int(head[0]), payload
}

// When many goroutines write at the same time, frames arrive whole, the frames of each goroutine arrive in their order, and each
// goroutine gets its turn.
func TestWritersTakeTurns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const writers, each = 8, 50
		w, client := newPipedWriter(t)
		var group sync.WaitGroup
		for i := range writers {
			group.Go(func() {
				for n := range each {
					text := strconv.Itoa(i) + " " + strconv.Itoa(n) + " "
					if err := w.send(websocket.TextMessage, append([]byte(text), payloadOfLength(i*40)...), time.Second); err != nil {
						t.Error(err)
					}
				}
			})
		}
		var next [writers]int
		for range writers * each {
			opcode, payload := readFrame(t, client)
			parts := strings.Split(string(payload), " ")
			i, _ := strconv.Atoi(parts[0])
			if opcode != 0x81 || parts[1] != strconv.Itoa(next[i]) || parts[2] != string(payloadOfLength(i*40)) {
				t.Fatalf("%x %s, want message %d of writer %d", opcode, payload, next[i], i)
			}
			next[i]++
		}
		group.Wait()
	})
}

// startTimedCall starts a call in a goroutine. The function that it returns waits for the end of the call, and returns its duration
// and its error.
func startTimedCall(call func() error) func() (time.Duration, error) {
	begun, done := time.Now(), make(chan error, 1)
	took := time.Duration(0)
	go func() {
		err := call()
		took = time.Since(begun)
		done <- err
	}()
	return func() (time.Duration, error) { err := <-done; return took, err }
}

// A client that does not read delays a close by one second, whether the write of the message began before the close or after it.
func TestACloseDoesNotWaitForASlowClient(t *testing.T) {
	for name, late := range map[string]bool{"message first": false, "turn first": true} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, client := newPipedWriter(t)
				if err := w.acquireTurn(); err != nil {
					t.Fatal(err)
				}
				write := func() error {
					return w.write(websocket.TextMessage, append(appendFrameHeadRoom(nil), "much"...), 10*time.Second)
				}
				var message func() (time.Duration, error)
				if !late {
					message = startTimedCall(write)
					synctest.Wait()
				}
				waiting := startTimedCall(func() error { return w.send(websocket.TextMessage, nil, 10*time.Second) })
				synctest.Wait()
				closing := startTimedCall(func() error { return w.close(1012, "") })
				synctest.Wait()
				if late {
					message = startTimedCall(write)
				}
				if took, err := waiting(); !errors.Is(err, websocket.ErrCloseSent) || took != 0 {
					t.Errorf("a message that waited for its turn: %v after %v", err, took)
				}
				if took, err := message(); !errors.Is(err, os.ErrDeadlineExceeded) || took != controlFrameTimeout {
					t.Errorf("the message that was being written: %v after %v", err, took)
				}
				if took, err := closing(); !errors.Is(err, net.ErrClosed) || took != controlFrameTimeout {
					t.Errorf("the close: %v after %v", err, took)
				}
				_ = client.SetReadDeadline(time.Now())
				if n, err := client.Read(make([]byte, 1)); n > 0 || err == nil {
					t.Error("something was written after the message had failed")
				}
			})
		})
	}
}

// A close waits for the message that is being written. A second close, which answers the client's, returns after the first: its
// caller would otherwise cut the connection before the first is sent.
func TestACloseFollowsTheMessageBeingWritten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, client := newPipedWriter(t)
		message := startTimedCall(func() error { return w.send(websocket.TextMessage, []byte("last"), 10*time.Second) })
		synctest.Wait()
		first := startTimedCall(func() error { return w.close(1012, "") })
		synctest.Wait()
		second := startTimedCall(func() error { return w.close(1000, "") })
		passTime(controlFrameTimeout / 2)
		synctest.Wait()
		var codes []int
		for range 2 {
			opcode, payload := readFrame(t, client)
			codes = append(codes, opcode)
			if want := map[int]string{0x81: "last", 0x88: "\x03\xf4"}[opcode]; string(payload) != want {
				t.Errorf("%x %q, want %q", opcode, payload, want)
			}
			passTime(controlFrameTimeout / 4)
		}
		if !slices.Equal(codes, []int{0x81, 0x88}) {
			t.Errorf("frames %x", codes)
		}
		if took, err := message(); err != nil || took != controlFrameTimeout/2 {
			t.Errorf("the message: %v after %v", err, took)
		}
		for _, one := range []func() (time.Duration, error){first, second} {
			if took, err := one(); took != controlFrameTimeout*3/4 || err != nil && !errors.Is(err, websocket.ErrCloseSent) {
				t.Errorf("a close: %v after %v", err, took)
			}
		}
	})
}
