package transport

import (
	"encoding/binary"
	"math"
	"net"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/gorilla/websocket"
)

// headRoom is the length in bytes of the longest head of a frame. A message is built behind headRoom free bytes, so that the
// frame is one piece of memory and one write, and no byte is copied.
const headRoom = 10

// maxReason is the maximum length of a close reason in bytes. In the payload of a close frame, the close code takes the other two
// bytes.
const maxReason = maxControl - 2

// appendHeadRoom appends the room for the head of a frame. The payload must follow.
func appendHeadRoom(to []byte) []byte {
	var room [headRoom]byte
	return append(to, room[:]...)
}

// prependHead writes the head of a frame right before its payload, which stands behind headRoom bytes, and returns the frame. Each
// frame of the server is a whole message, and has no mask.
func prependHead(opcode int, message []byte) []byte {
	var from int
	switch length := len(message) - headRoom; {
	case length <= maxControl:
		from = headRoom - 2
		message[from+1] = byte(length)
	case length <= math.MaxUint16:
		from = headRoom - 4
		message[from+1] = 126
		binary.BigEndian.PutUint16(message[from+2:], uint16(length))
	default:
		message[1] = 127
		binary.BigEndian.PutUint64(message[2:], uint64(length))
	}
	message[from] = finalBit | byte(opcode)
	return message[from:]
}

// The states of a frameWriter. They only rise.
const (
	wireOpen    = iota // messages may be written
	wireClosing        // a close frame waits for the message that is being written, or is being written
	wireOver           // a close frame was sent, or a write has failed: nothing may follow
)

// frameWriter writes the frames of the server to a connection, one at a time, and none after a close frame or after a part of a
// frame. It is safe for concurrent use.
//
// A goroutine that writes has the turn, see acquire, and does not hold mu meanwhile. On most of thousands of sockets no goroutine
// ever waits for the turn, so the first one that waits makes the condition variable.
type frameWriter struct {
	conn net.Conn

	mu    sync.Mutex
	state uint8      // one of the states above
	taken bool       // a goroutine has the turn
	freed *sync.Cond // signals a change of taken or state; nil: no goroutine has waited yet
}

// wait releases the lock until the turn or the state has changed. The lock is held before and after.
func (w *frameWriter) wait() {
	if w.freed == nil {
		w.freed = sync.NewCond(&w.mu)
	}
	w.freed.Wait()
}

// wakeWaiters wakes the goroutines that are in wait. The lock is held.
func (w *frameWriter) wakeWaiters() {
	if w.freed != nil {
		w.freed.Broadcast()
	}
}

// acquire waits for the turn. If it returns nil, the caller must call write. It returns ErrCloseSent if nothing more may be sent.
func (w *frameWriter) acquire() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.taken && w.state == wireOpen {
		w.wait()
	}
	if w.state != wireOpen {
		return websocket.ErrCloseSent
	}
	w.taken = true
	return nil
}

// tryAcquire takes the turn if nobody has it. If it returns true, the caller must call write.
func (w *frameWriter) tryAcquire() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.taken || w.state != wireOpen {
		return false
	}
	w.taken = true
	return true
}

// write writes the frame of a message, which stands behind headRoom bytes, and gives the turn back. The parameter within bounds the time
// of the write. The bound is shorter if close is called meanwhile. After an error the connection must be cut.
func (w *frameWriter) write(opcode int, message []byte, within time.Duration) error {
	w.mu.Lock()
	if w.state == wireOpen { // else close has set a deadline, which is shorter
		_ = w.conn.SetWriteDeadline(deadlineAfter(within)) // an error shows in the write
	}
	w.mu.Unlock()
	_, err := w.conn.Write(prependHead(opcode, message))
	w.release(err != nil)
	return err
}

// release gives the turn back. If over is true, nothing may be written from then on.
func (w *frameWriter) release(over bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.taken = false
	if over {
		w.state = wireOver
	}
	w.wakeWaiters()
}

// close sends a close frame. It takes at most controlTime, including the rest of a message that is being written. If the write of
// that message fails, the error is net.ErrClosed. A second call waits for the first, because its caller is about to cut the
// connection, and then returns ErrCloseSent.
func (w *frameWriter) close(code int, reason string) error {
	until := deadlineAfter(controlTime)
	w.mu.Lock()
	for w.state == wireClosing {
		w.wait()
	}
	if w.state == wireOver {
		w.mu.Unlock()
		return websocket.ErrCloseSent
	}
	w.state = wireClosing
	w.wakeWaiters()                    // goroutines that wait for the turn give up
	_ = w.conn.SetWriteDeadline(until) // this also shortens a write that is under way
	for w.taken {
		w.wait()
	}
	if w.state == wireOver { // a part of the message was written
		w.mu.Unlock()
		return net.ErrClosed
	}
	w.taken = true
	w.mu.Unlock()
	_, err := w.conn.Write(prependHead(websocket.CloseMessage, appendClose(appendHeadRoom(nil), code, reason)))
	w.release(true)
	return err
}

// appendClose appends the payload of a close frame: the code, and the reason, which has at most maxReason bytes. For
// CloseNoStatusReceived the payload is empty, because that code is never sent.
func appendClose(to []byte, code int, reason string) []byte {
	if code == websocket.CloseNoStatusReceived {
		return to
	}
	return append(binary.BigEndian.AppendUint16(to, uint16(code)), reason...)
}

// cutReason cuts a close reason to the length that a close frame allows.
func cutReason(reason string) string {
	if len(reason) <= maxReason {
		return reason
	}
	// The cut must not split a character.
	cut := maxReason
	for cut > 0 && !utf8.RuneStart(reason[cut]) {
		cut--
	}
	return reason[:cut]
}
