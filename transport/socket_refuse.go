package transport

import (
	"errors"
	"io"

	"github.com/gorilla/websocket"
)

// lingerBytes is the most that is discarded of what a client sends after a frame that was refused.
const lingerBytes = 4 << 20

// refuse tells the client what was wrong with a frame, and returns the error. What the client goes on sending cannot be read as
// frames any more. It is discarded until the client closes the connection, because closing a connection with unread input would
// discard the reason on its way.
func (s *socket) refuse(err error) error {
	code := websocket.CloseProtocolError
	var fault errProtocol
	switch {
	case errors.Is(err, errTooBig):
		code = websocket.CloseMessageTooBig
	case !errors.As(err, &fault):
		return err // of the connection
	}
	s.close(code, err.Error())
	if half, ok := s.wire.conn.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite() // so a client that waits for the end of the connection need not wait for lingerTime
	}
	_ = s.wire.conn.SetReadDeadline(deadline(lingerTime))
	_, _ = io.CopyN(io.Discard, s.wire.conn, lingerBytes)
	return err
}

// closed answers the client's close frame, and returns the error that ends the socket.
func (s *socket) closed(payload []byte) error {
	code, err := closeAnswer(payload)
	if err != nil {
		return s.refuse(err)
	}
	_ = s.wire.close(code, "")
	return errClosed
}
