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

// frameHeadRoom is the length in bytes of the longest head of a frame. A message is built behind frameHeadRoom free bytes, so that the
// frame is one piece of memory and one write, and no byte is copied.
const frameHeadRoom = 10

// maxCloseReasonBytes is the maximum length of a close reason in bytes. In the payload of a close frame, the close code takes the
// other two bytes.
const maxCloseReasonBytes = maxControlPayload - 2

// appendFrameHeadRoom appends the room for the head of a frame. The payload must follow.
func appendFrameHeadRoom(to []byte) []byte {
	var room [frameHeadRoom]byte
	return append(to, room[:]...)
}

// prependFrameHead writes the head of a frame right before its payload, which stands behind frameHeadRoom bytes, and returns the
// frame. Each frame of the server is a whole message, and has no mask.
func prependFrameHead(opcode int, message []byte) []byte {
	var from int
	switch length := len(message) - frameHeadRoom; {
	case length <= maxControlPayload:
		from = frameHeadRoom - 2
		message[from+1] = byte(length)
	case length <= math.MaxUint16:
		from = frameHeadRoom - 4
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
	frameWriterOpen    = iota // messages may be written
	frameWriterClosing        // a close frame waits for the message that is being written, or is being written
	frameWriterEnded          // a close frame was sent, or a write has failed: nothing may follow
)

// frameWriter writes the frames of the server to a connection, one at a time, and none after a close frame or after a part of a
// frame. It is safe for concurrent use.
//
// Only the goroutine that has the turn may write. acquireTurn and tryAcquireTurn take the turn, and write gives it back. mu is not held
// during a write. On most of thousands of sockets no goroutine ever waits for the turn, so the first one that waits makes the condition
// variable.
type frameWriter struct {
	conn net.Conn

	mu                 sync.Mutex // guards the fields below
	state              uint8      // one of the states above
	turnTaken          bool       // a goroutine has the turn: it alone may write
	turnOrStateChanged *sync.Cond // signals a change of turnTaken or state; nil: no goroutine has waited yet
}

// waitForTurnOrStateChange releases mu until turnTaken or state has changed. mu is held before and after.
func (w *frameWriter) waitForTurnOrStateChange() {
	if w.turnOrStateChanged == nil {
		w.turnOrStateChanged = sync.NewCond(&w.mu)
	}
	w.turnOrStateChanged.Wait()
}

// wakeWaiters wakes the goroutines that are in waitForTurnOrStateChange. mu is held.
func (w *frameWriter) wakeWaiters() {
	if w.turnOrStateChanged != nil {
		w.turnOrStateChanged.Broadcast()
	}
}

// acquireTurn waits for the turn to write. If it returns nil, the caller must call write. It returns ErrCloseSent if nothing more may
// be sent.
func (w *frameWriter) acquireTurn() error {
	w.mu.Lock()
	defer w.mu.Unlock()
	for w.turnTaken && w.state == frameWriterOpen {
		w.waitForTurnOrStateChange()
	}
	if w.state != frameWriterOpen {
		return websocket.ErrCloseSent
	}
	w.turnTaken = true
	return nil
}

// tryAcquireTurn takes the turn to write if no goroutine has it. If it returns true, the caller must call write.
func (w *frameWriter) tryAcquireTurn() bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.turnTaken || w.state != frameWriterOpen {
		return false
	}
	w.turnTaken = true
	return true
}

// write writes the frame of a message, which stands behind frameHeadRoom bytes, and gives the turn back. The parameter within
// bounds the time of the write. The bound is shorter if close is called meanwhile. After an error the connection must be cut.
func (w *frameWriter) write(opcode int, message []byte, within time.Duration) error {
	w.mu.Lock()
	if w.state == frameWriterOpen { // else close has set a deadline, which is shorter
		_ = w.conn.SetWriteDeadline(deadlineAfter(within)) // an error shows in the write
	}
	w.mu.Unlock()
	_, err := w.conn.Write(prependFrameHead(opcode, message))
	w.releaseTurn(err != nil)
	return err
}

// releaseTurn gives the turn back. If over is true, nothing may be written from then on.
func (w *frameWriter) releaseTurn(over bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.turnTaken = false
	if over {
		w.state = frameWriterEnded
	}
	w.wakeWaiters()
}

// close sends a close frame. It takes at most controlFrameTimeout, including the rest of a message that is being written. If the
// write of that message fails, the error is net.ErrClosed. A second call waits for the first, because its caller is about to cut
// the connection, and then returns ErrCloseSent.
func (w *frameWriter) close(code int, reason string) error {
	until := deadlineAfter(controlFrameTimeout)
	w.mu.Lock()
	for w.state == frameWriterClosing {
		w.waitForTurnOrStateChange()
	}
	if w.state == frameWriterEnded {
		w.mu.Unlock()
		return websocket.ErrCloseSent
	}
	w.state = frameWriterClosing
	w.wakeWaiters()                    // goroutines that wait for the turn give up
	_ = w.conn.SetWriteDeadline(until) // this also shortens a write that is under way
	for w.turnTaken {
		w.waitForTurnOrStateChange()
	}
	if w.state == frameWriterEnded { // a part of the message was written
		w.mu.Unlock()
		return net.ErrClosed
	}
	w.turnTaken = true
	w.mu.Unlock()
	_, err := w.conn.Write(prependFrameHead(websocket.CloseMessage, appendClose(appendFrameHeadRoom(nil), code, reason)))
	w.releaseTurn(true)
	return err
}

// appendClose appends the payload of a close frame: the code, and the reason, which has at most maxCloseReasonBytes bytes. For
// CloseNoStatusReceived the payload is empty, because that code is never sent.
func appendClose(to []byte, code int, reason string) []byte {
	if code == websocket.CloseNoStatusReceived {
		return to
	}
	return append(binary.BigEndian.AppendUint16(to, uint16(code)), reason...)
}

// truncateCloseReason cuts a close reason to the length that a close frame allows.
func truncateCloseReason(reason string) string {
	if len(reason) <= maxCloseReasonBytes {
		return reason
	}
	// The cut must not split a character.
	cut := maxCloseReasonBytes
	for cut > 0 && !utf8.RuneStart(reason[cut]) {
		cut--
	}
	return reason[:cut]
}
