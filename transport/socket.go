package transport

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/gorilla/websocket"
	"github.com/vektah/gqlparser/v2/gqlerror"

	"tidings/services"
)

const (
	// The client gets a close frame with the reason. If it does not answer, the connection is closed after closeAnswerTimeout.
	closeAnswerTimeout  = 2 * time.Second // for the client to answer our close
	controlFrameTimeout = time.Second     // for a ping, a pong or a close to be written
)

// socket is a peer's WebSocket. One goroutine at a time reads, and none while there is nothing to read, if the connection can be watched
// for input. Other goroutines write by frameWriter, which admits one at a time. A socket lives through newSocket, start, connection_init
// and the acknowledgement, messages, close or abort, and releaseSocket. Only the goroutine that reads calls releaseSocket.
type socket struct {
	peer
	frameWriter frameWriter // writes to the connection
	watch       inputWatch  // starts readFrames when the connection has input; nil: a goroutine reads all the time

	messageAllowance     float64         // messages that may arrive now; used only by the reading goroutine
	frameAllowance       float64         // pongs and unfinished parts of messages that may arrive now; used only by the reading goroutine
	allowancesRefilledAt time.Time       // when messageAllowance and frameAllowance were last computed
	messageDeadline      time.Time       // deadline of the message that is being read; zero between messages; used only by the reading goroutine
	upgradeHeaders       *upgradeHeaders // the headers that identify the viewer, until connection_init; then nil

	// mu guards these. All times are of the machine's clock.
	timer            *time.Timer // first bounds the wait for connection_init, then starts handleTimer's other work; never nil
	initAcknowledged bool        // connection_init was acknowledged
	silenceDeadline  time.Time   // a client that has sent nothing by then is dead
	closeDeadline    time.Time   // when the connection is closed although the client has not answered our close; zero: no close was sent
}

// upgradeHeaders has the headers of the upgrade that identify the viewer. Browsers cannot set these headers; other clients can. The
// token and the device of connection_init take precedence.
type upgradeHeaders struct {
	authorizationErr error // the fault of the header Authorization; nil: it has none
	token            string
	actAs            string // the header Tidings-Act-As
	device           string
}

// newSocket makes a socket of a connection that was upgraded. It keeps nothing of the request but the headers in upgradeHeaders. The
// wait for connection_init begins here. The timer is set under the lock, because handleTimer may run at once.
func newSocket(owner *Sockets, conn net.Conn, exec graphql.GraphExecutor, header http.Header, address string) *socket {
	s := &socket{peer: peer{sockets: owner, exec: exec, address: address}, frameWriter: frameWriter{conn: conn}, allowancesRefilledAt: owner.cfg.Clock.Now(), messageAllowance: owner.maxMessageBurst(), frameAllowance: owner.maxMessageBurst() * framesPerMessage}
	s.sender = s
	s.upgradeHeaders = &upgradeHeaders{actAs: header.Get(actAsHeader), device: header.Get(deviceHeader)}
	s.upgradeHeaders.token, s.upgradeHeaders.authorizationErr = bearerToken(header)
	// The request's own context ends when its handler returns, and holds the whole request.
	s.ctx = context.Background()
	if owner.inputPoller != nil {
		s.watch = owner.inputPoller.add(conn, s.readFrames)
	}
	s.mu.Lock()
	s.timer = time.AfterFunc(owner.cfg.InitTimeout, s.handleTimer)
	s.mu.Unlock()
	return s
}

// maxMessageBurst is the number of messages that may arrive at once: a client that reconnects subscribes to everything at once.
func (s *Sockets) maxMessageBurst() float64 {
	return float64(s.cfg.MaxOperations + s.cfg.MessagesPerSecond)
}

// start begins to read. A socket that comes during a drain, or with another subprotocol than ours, is closed with a close code. A page
// learns the reason from the code, because browsers do not show it the status of a refused upgrade.
func (s *socket) start(subprotocol string) {
	welcome := s.sockets.add(&s.peer)
	go s.readFrames()
	if !welcome {
		s.askToReconnect()
	} else if subprotocol != webSocketSubprotocol {
		s.close(closeSubprotocol, "the subprotocol must be "+webSocketSubprotocol)
	}
}

// readFrames handles the input, and then leaves the socket to its watch; without a watch it waits in the next read. Reading goes on
// after a close, so that the client has time to read the reason: closing a connection with unread input discards the data that was
// sent last.
func (s *socket) readFrames() {
	in := borrowFrameReader()
	for {
		if err := s.readFrame(in); err != nil {
			if err != errPanicked { // after a panic the reader may be in any state
				in.free()
			}
			s.releaseSocket()
			return
		}
		if s.watch != nil && in.isBetweenMessages() && !hasBufferedInput(s.frameWriter.conn) {
			in.free()
			s.watch.arm() // from here on another goroutine may read
			return
		}
	}
}

// readFrame reads and handles one frame. An error ends the socket.
func (s *socket) readFrame(in *frameReader) (err error) {
	defer s.recoverPanic(&err)
	f, err := in.readFrameHead(s.frameWriter.conn)
	if err != nil {
		return s.refuse(err)
	}
	switch f.opcode {
	case websocket.PingMessage, websocket.PongMessage, websocket.CloseMessage:
		payload, err := in.readControlPayload(s.frameWriter.conn, f)
		if err != nil {
			return err
		}
		switch f.opcode {
		case websocket.PingMessage:
			s.answerPing(payload)
		case websocket.PongMessage:
			if s.takeFrameAllowance() {
				s.extendReadDeadline()
			}
		default:
			return s.answerClose(payload)
		}
		return nil
	default:
		return s.readData(in, f)
	}
}

// readData reads a frame of a message, and handles the message after its last frame. While the socket is closing, frames are dropped.
func (s *socket) readData(in *frameReader, f frame) error {
	if !in.messageBegun {
		in.messageOpcode = f.opcode
		in.message.Reset()
		// The message must be complete in time, or a client could hold the memory with a byte a minute.
		s.messageDeadline = deadlineAfter(s.sockets.cfg.MessageTimeout)
	}
	in.messageBegun = !f.final
	if f.length > s.sockets.cfg.MaxMessageBytes-int64(in.message.Len()) {
		return s.refuse(errMessageTooLong)
	}
	if !f.final && !s.takeFrameAllowance() || !s.extendReadDeadline() { // the socket is closing, and stays so
		return in.skipPayload(s.frameWriter.conn, f)
	}
	if err := in.readPayload(s.frameWriter.conn, f); err != nil {
		return err
	}
	if f.final {
		s.messageDeadline = time.Time{}
		s.extendReadDeadline()
		s.handleMessage(in.messageOpcode, in.message.Bytes())
	}
	return nil
}

// handleMessage handles one message of the client. It does not keep text, which the caller reuses. It does not wait for operations, only
// for the write of a short answer.
func (s *socket) handleMessage(kind int, text []byte) {
	if !s.takeMessageAllowance() {
		s.close(closeTooManyRequests, "too many messages")
		return
	}
	if kind != websocket.TextMessage {
		s.close(closeBadMessage, "message: must be text")
		return
	}
	read, err := parseMessage(text)
	if err != nil {
		s.close(closeBadMessage, messageOf(err))
		return
	}
	switch read.kind {
	case messageInit:
		s.init(read.initPayload)
	case messagePing:
		answer := appendMessageHead(appendFrameHeadRoom(nil), messagePong, "")
		if read.pingPayload != nil {
			answer = append(append(answer, `,"payload":`...), read.pingPayload...)
		}
		_ = s.send(append(answer, '}')) // a failure ends the socket
	case messageSubscribe:
		s.subscribe(read)
	// An unknown ID is no mistake: the operation may have ended while the message was on its way. A pong needs no answer:
	// extendReadDeadline has counted it as a sign of life.
	case messageComplete:
		if one := s.removeByID(read.id); one != nil {
			one.stop()
		}
	}
}

// init identifies the viewer, once, and acknowledges. Without a token there is no viewer, and public fields can be read.
func (s *socket) init(payload map[string]any) {
	asked := s.upgradeHeaders
	if asked == nil {
		s.close(closeTooManyRequests, "connection_init: only one is allowed")
		return
	}
	// The headers are freed, because a socket lives for hours.
	s.upgradeHeaders = nil
	token, device, err := credentials(payload)
	// The headers of the upgrade supply what connection_init omits.
	if err == nil && token == "" {
		token, err = asked.token, asked.authorizationErr
	}
	if device == "" {
		device = asked.device
	}
	var expires time.Time
	if err == nil && token != "" {
		var viewer services.Viewer
		if viewer, expires, err = s.sockets.cfg.Identity.Viewer(s.ctx, token, asked.actAs, device); err == nil {
			err = s.admit(viewer)
		}
	}
	if err != nil {
		s.close(closeCodeOf(err), messageOf(err))
		return
	}
	s.mu.Lock()
	// From here on handleTimer sees an acknowledged socket, and no longer waits for connection_init.
	s.initAcknowledged, s.tokenExpires = true, expires
	s.nextPing = s.sockets.cfg.Clock.Now().Add(jittered(s.sockets.cfg.PingInterval))
	s.scheduleTimer()
	s.mu.Unlock()
	_ = s.send(append(appendMessageHead(appendFrameHeadRoom(nil), messageAck, ""), '}'))
}

// closeCodeOf is the close code for an error of connection_init. Clients connect again after 1011 and 1013, after 4429
// with a long wait, and after 4403 with another token, but not after 4400.
func closeCodeOf(err error) int {
	switch services.CodeOf(err) {
	case services.RateLimited:
		return closeTooManyRequests
	case services.Unauthenticated, services.Forbidden:
		return closeForbidden
	case services.Invalid:
		return closeBadMessage
	case services.Unavailable:
		return websocket.CloseTryAgainLater
	default:
		return websocket.CloseInternalServerErr
	}
}

// subscribe starts an operation of any kind. Each gets a goroutine for its start, so that a slow resolver does not keep the socket
// from reading.
func (s *socket) subscribe(read message) {
	s.mu.Lock()
	ready := s.initAcknowledged
	s.mu.Unlock()
	if !ready {
		s.close(closeUnauthorized, "subscribe: it must wait for connection_ack")
		return
	}
	one := newOperation(&s.peer, read.id)
	switch s.begin(one) {
	case beginOK:
		go one.start(read.params)
	case beginDuplicateID:
		s.close(closeDuplicateOperationID, "subscribe: the id is in use")
	// This is an error of the operation and not of the socket: other operations go on.
	case beginAtLimit:
		one.cancel()
		_ = s.send(s.completeWithErrors(nil, read.id, one.errorsWithID(asList(s.operationLimitError()))))
	case beginClosing:
		one.cancel()
	}
}

// next appends the message of an event or an answer. Like the two methods below, it leaves room for the head of the frame before its
// message. to is empty.
func (s *socket) next(to []byte, id string, response *graphql.Response) []byte {
	return appendNext(appendFrameHeadRoom(to), id, response)
}

// completeWithErrors appends the error message, which ends the operation.
func (s *socket) completeWithErrors(to []byte, id string, errors gqlerror.List) []byte {
	return appendError(appendFrameHeadRoom(to), id, errors)
}

// complete appends the complete message.
func (s *socket) complete(to []byte, id string) []byte {
	return appendComplete(appendFrameHeadRoom(to), id)
}

// operationEnded does nothing: a socket outlives its operations.
func (s *socket) operationEnded() {}

// send writes one message, and waits until the connection has taken it. The message counts in the backlog while it waits for earlier
// messages and for its client.
func (s *socket) send(message []byte) error {
	s.sockets.backlog.addAnswerBytes(len(message))
	defer s.sockets.backlog.removeAnswerBytes(len(message))
	if s.isClosing() {
		return websocket.ErrCloseSent
	}
	if err := s.frameWriter.acquireTurn(); err != nil {
		return err
	}
	return s.writeFrame(websocket.TextMessage, message, s.sockets.backlog.writeTimeout(len(message), s.sockets.cfg.WriteTimeout))
}

// writeFrame writes the frame of a message, and cuts the connection if that fails: after a part of a frame nothing can follow. The
// caller has acquired the right to write, by acquireTurn or tryAcquireTurn of frameWriter.
func (s *socket) writeFrame(opcode int, message []byte, within time.Duration) error {
	err := s.frameWriter.write(opcode, message, within)
	if err == nil {
		return nil
	}
	// Only a client that is too slow counts; one that went away is no sign of trouble, and one that is being closed had less
	// time.
	if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() && !s.isClosing() {
		s.sockets.slowClientCount.Add(1)
	}
	s.abort()
	return err
}

// close sends the reason and ends the socket, once. The client has two seconds to answer. close waits for a message that is being
// written, for a second at most.
func (s *socket) close(code int, reason string) {
	if !s.stopAllOperations() {
		return
	}
	if s.frameWriter.close(code, truncateCloseReason(reason)) != nil {
		s.abort()
		return
	}
	// The goroutine that reads ends the socket when the client answers. Without an answer handleTimer cuts the socket.
	s.mu.Lock()
	s.closeDeadline = deadlineAfter(closeAnswerTimeout)
	s.timer.Reset(closeAnswerTimeout)
	s.mu.Unlock()
}

// abort ends the socket without a close frame. The reading goroutine sees that the connection is closed, and releases what the socket
// still holds.
func (s *socket) abort() {
	s.stopAllOperations()
	_ = s.frameWriter.conn.Close()
	if s.watch != nil {
		s.watch.fire() // the read finds that the connection is closed, and ends the socket
	}
}

// stopAllOperations stops the timer, ends all operations and refuses new ones; true for the first caller.
func (s *socket) stopAllOperations() bool {
	s.mu.Lock()
	s.timer.Stop()
	s.mu.Unlock()
	return s.peer.stopAllOperations()
}

// askToReconnect closes the socket because the server drains.
func (s *socket) askToReconnect() {
	s.close(websocket.CloseServiceRestart, "the server restarts: connect again") // it may wait for a slow client
}

// closeForErasedUser closes the socket because its user was erased.
func (s *socket) closeForErasedUser() {
	s.close(closeForbidden, "the user was erased")
}

// releaseSocket releases everything of a socket. It is called once.
func (s *socket) releaseSocket() {
	s.abort()
	if s.watch != nil {
		s.watch.stop()
	}
	s.unregister()
}

// messageOf is the message of an error for people, without its cause.
func messageOf(err error) string { return graphQLError(err).Message }
