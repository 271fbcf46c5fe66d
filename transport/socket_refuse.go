package transport

import (
	"errors"
	"io"
	"runtime/debug"

	"github.com/gorilla/websocket"
)

// maxDiscardedBytes is the most that is discarded of what a client sends after a frame that was refused.
const maxDiscardedBytes = 4 << 20

// refuse tells the client what was wrong with a frame, and returns the error. What the client goes on sending cannot be read as
// frames any more. It is discarded until the client closes the connection, because closing a connection with unread input would
// discard the reason on its way.
func (s *socket) refuse(err error) error {
	code := websocket.CloseProtocolError
	var fault protocolError
	switch {
	case errors.Is(err, errMessageTooLong):
		code = websocket.CloseMessageTooBig
	case !errors.As(err, &fault):
		return err // an error of the connection itself
	}
	s.closeAndDiscardInput(code, err.Error())
	return err
}

// closeAndDiscardInput closes the socket, and discards what the client sends until it closes the connection.
func (s *socket) closeAndDiscardInput(code int, reason string) {
	s.close(code, reason)
	_ = closeWrite(s.frameWriter.conn) // so a client that waits for the end of the connection need not wait for closeAnswerTimeout
	_ = s.frameWriter.conn.SetReadDeadline(deadlineAfter(closeAnswerTimeout))
	_, _ = io.CopyN(io.Discard, s.frameWriter.conn, maxDiscardedBytes)
}

// errPanicked is the error that ends a socket after a panic.
var errPanicked = errors.New("a panic while the socket read")

// recoverPanic turns a panic while the socket reads into an error, and closes the socket. No HTTP server is around its goroutine,
// so without a recovery the panic would end the process with all other sockets.
func (s *socket) recoverPanic(err *error) {
	fault := recover()
	if fault == nil {
		return
	}
	*err = errPanicked
	s.sockets.cfg.Log.Error("a socket panicked", "cause", fault, "stack", string(debug.Stack()))
	s.closeAndDiscardInput(websocket.CloseInternalServerErr, "an error on our side")
}

// answerClose answers the client's close frame, and returns the error that ends the socket.
func (s *socket) answerClose(payload []byte) error {
	code, err := closeAnswerCode(payload)
	if err != nil {
		return s.refuse(err)
	}
	_ = s.frameWriter.close(code, "")
	return errClientClosed
}
