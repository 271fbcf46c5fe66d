package transport

import (
	"context"
	"errors"
	"math/rand/v2"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/gqlerror"
)

const (
	typeEvents = "text/event-stream" // the media type of event streams

	streamReservationTimeout = 10 * time.Second // the time to use a reservation

	// A drained client reconnects after minReconnectDelay plus up to maxReconnectJitter: a proxy needs a moment to turn to another
	// node, and clients that were drained together must not arrive together.
	minReconnectDelay  = time.Second
	maxReconnectJitter = 2 * time.Second // the most that is added to minReconnectDelay
)

// keepAliveComment is a comment of SSE: clients drop it, and proxies see that the connection is used.
var keepAliveComment = []byte(":\n\n")

// stream is a peer's event stream, in either mode of the GraphQL over SSE protocol. With distinct connections, each operation has a
// stream of its own. With a single connection, a client reserves one stream, and its further requests name the reservation by a
// token. The goroutine of the stream's request waits; other goroutines write while they hold the lock writeMu. A reserved stream
// has no request at first: its messages wait for one.
//
// A response may be written only until its handler returns. So serve returns last: after ended is closed, and while it holds the lock
// writeMu, so that no writer is left.
type stream struct {
	peer
	reservationToken string // of the reservation; "" with distinct connections

	// writeMu is held for one message, so that two never mix. It may be held for as long as a slow client takes. A goroutine that
	// needs both locks takes writeMu before mu.
	writeMu sync.Mutex

	// Channels and not flags, because writers and serve wait for them. Each is closed once.
	connected chan struct{} // closed when the request whose response carries the events is there
	ended     chan struct{} // closed when nothing more will be written

	response http.ResponseWriter      // where events are written; like control, set before connected is closed
	control  *http.ResponseController // flushes response and sets its deadlines

	reservationTimer *time.Timer // ends a reservation; nil with distinct connections

	// mu guards these. The goroutine that has claimed the stream must call releaseStream.
	claimed         bool // a request or the end of the reservation has claimed the stream
	requestReturned bool // response and control must not be used any more
}

// errStreamEnded is the error of a writer after the end. No client sees it, because the operation of the writer ends with the stream.
var errStreamEnded = errors.New("the event stream has ended")

// connect sends the stream in the response of a request; false if the stream already has a response or has ended. After true, the
// caller must call serve.
func (s *stream) connect(w http.ResponseWriter) bool {
	if !s.claim(true) {
		return false
	}
	s.attach(w)
	return true
}

// attach writes the HTTP headers to the response of the request that claimed the stream. Closing connected publishes response and
// control to writers.
func (s *stream) attach(w http.ResponseWriter) {
	header := w.Header()
	header.Set("Content-Type", typeEvents+"; charset=utf-8")
	header.Set("Cache-Control", "no-store, no-transform")
	header.Set("X-Accel-Buffering", "no") // a proxy must not buffer events
	header.Set("X-Content-Type-Options", "nosniff")
	w.WriteHeader(http.StatusOK)
	s.response, s.control = w, http.NewResponseController(w)
	s.writeMu.Lock()
	_ = s.writeText(keepAliveComment, s.sockets.cfg.WriteTimeout) // some browsers report an open stream only after its first bytes
	s.writeMu.Unlock()
	close(s.connected)
}

// claim takes the stream, for a request or at its end; false if it is already claimed, or is closing when a request comes. The
// goroutine that takes it calls releaseStream, so it is called once: by serve, or by close if no request came.
func (s *stream) claim(request bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.claimLocked(request)
}

// claimFor takes the stream for a request and registers its only operation; false if the stream has ended. Both happen under
// one lock: an operation that is registered must run, or a drain would wait for it.
func (s *stream) claimFor(one *operation) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.beginLocked(one) == beginOK && s.claimLocked(true)
}

// claimLocked is claim with the lock held.
func (s *stream) claimLocked(request bool) bool {
	if s.claimed || request && s.closing {
		return false
	}
	s.claimed = true
	// A reservation need not end by its timer any more: serve sends pings and checks the expiry of the token from now on.
	if s.reservationTimer != nil {
		s.reservationTimer.Stop()
	}
	s.nextPing = s.sockets.cfg.Clock.Now().Add(jittered(s.sockets.cfg.PingInterval))
	return true
}

// serve waits until the stream or its request ends, and keeps the connection alive until then. ctx is the request's context, which
// ends when the client goes away.
func (s *stream) serve(ctx context.Context) {
	defer s.releaseStream()
	// The timer fires at once, and the first round sets it: the times of expiry and ping are read under the lock.
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-ctx.Done():
			s.close(nil)
			<-s.ended // another goroutine may be closing it, behind a slow write
		case <-s.ended:
			s.writeMu.Lock() // nothing is being written any more
			defer s.writeMu.Unlock()
			s.mu.Lock()
			defer s.mu.Unlock()
			s.requestReturned = true
			return
		case <-timer.C:
			s.mu.Lock()
			expired, ping := s.checkPingAndExpiry()
			timer.Reset(s.untilPingOrExpiry())
			s.mu.Unlock()
			// The client reconnects by itself, and its next request is refused because of its token.
			if expired {
				s.close(retryField())
				<-s.ended
			} else if ping && s.writeMu.TryLock() { // a message that is being written serves the same purpose
				_ = s.writeText(keepAliveComment, s.sockets.cfg.WriteTimeout)
				s.writeMu.Unlock()
			}
		}
	}
}

// send writes one message, for the interface messageSender. If the stream is reserved and its GET request has not come yet, send
// waits for the request, at most until the reservation ends.
func (s *stream) send(text []byte) error {
	s.sockets.backlog.addAnswerBytes(len(text))
	defer s.sockets.backlog.removeAnswerBytes(len(text))
	select {
	case <-s.connected:
	case <-s.ended:
		return errStreamEnded
	}
	s.writeMu.Lock()
	defer s.writeMu.Unlock()
	if s.isClosing() {
		return errStreamEnded
	}
	return s.writeText(text, s.sockets.backlog.writeTimeout(len(text), s.sockets.cfg.WriteTimeout))
}

// writeText writes, and ends the stream if that fails. writeMu is held, and the request has not returned. writeText flushes,
// because the end of an event would otherwise stay in the server's buffer.
func (s *stream) writeText(text []byte, within time.Duration) error {
	_ = s.control.SetWriteDeadline(deadlineAfter(within)) // not every writer supports deadlines
	_, err := s.response.Write(text)
	if err == nil {
		err = s.control.Flush()
	}
	if err != nil {
		if timeout, ok := errors.AsType[net.Error](err); ok && timeout.Timeout() {
			s.sockets.slowClientCount.Add(1)
		}
		s.abort()
	}
	return err
}

// close ends the stream, once, after a last message if that is not nil. The message must be written within a second, because a drain may
// wait for the end. Closing ended lets serve return.
func (s *stream) close(last []byte) {
	if !s.stopAllOperations() {
		return
	}
	if last != nil && s.isConnected() {
		s.writeMu.Lock()
		_ = s.writeText(last, controlFrameTimeout)
		s.writeMu.Unlock()
	}
	close(s.ended)
	// No request has claimed the stream, so it is released here.
	if s.claim(false) {
		s.releaseStream()
	}
}

// isConnected reports whether a request has come. The request may have ended in the meantime.
func (s *stream) isConnected() bool {
	select {
	case <-s.connected:
		return true
	default:
		return false
	}
}

// releaseStream releases everything of a stream. It is called once, by the goroutine that has claimed the stream.
func (s *stream) releaseStream() {
	s.sockets.forget(s)
	s.unregister()
}

// operationEnded ends a stream that had one operation only. A reserved stream stays for other operations.
func (s *stream) operationEnded() {
	if s.reservationToken == "" {
		s.close(nil)
	}
}

// askToReconnect tells the client when to connect again, and closes the stream.
func (s *stream) askToReconnect() { s.close(retryField()) }

// closeForErasedUser tells the client to connect again, and closes the stream. The client's next request is then refused, because the
// user is gone.
func (s *stream) closeForErasedUser() { s.askToReconnect() }

// abort ends the stream, and a write in progress: a deadline in the past makes it fail. requestReturned is read under the lock,
// because the control of a request that has returned must not be used.
func (s *stream) abort() {
	s.close(nil)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.requestReturned && s.isConnected() {
		_ = s.control.SetWriteDeadline(time.Unix(1, 0)) // not every writer supports deadlines
	}
}

// retryField returns the field retry of SSE, which tells a browser when to reconnect.
func retryField() []byte {
	after := minReconnectDelay + rand.N(maxReconnectJitter)
	return append(strconv.AppendInt([]byte("retry: "), after.Milliseconds(), 10), "\n\n"...)
}

// next appends an event with a response. On a reserved stream it names the operation; with distinct connections there is one only.
func (s *stream) next(to []byte, id string, response *graphql.Response) []byte {
	to = append(to, "event: next\ndata: "...)
	from := len(to)
	if s.reservationToken == "" {
		to = appendResponse(to, response)
	} else {
		to = appendJSONString(append(to, `{"id":`...), id)
		to = append(appendResponse(append(to, `,"payload":`...), response), '}')
	}
	joinLines(to[from:])
	return append(to, "\n\n"...)
}

// completeWithErrors appends the errors as the last response of an operation, and then the event that ends the operation. The protocol
// has no other place for errors.
func (s *stream) completeWithErrors(to []byte, id string, list gqlerror.List) []byte {
	return s.complete(s.next(to, id, &graphql.Response{Errors: list}), id)
}

// complete appends the event that ends an operation. It always has a data field, because browsers drop events without one.
func (s *stream) complete(to []byte, id string) []byte {
	to = append(to, "event: complete\ndata: "...)
	if s.reservationToken != "" {
		to = append(appendJSONString(append(to, `{"id":`...), id), '}')
	}
	return append(to, "\n\n"...)
}

// joinLines replaces the line breaks in a JSON text by spaces, because a line break would end the data of an event. JSON has line
// breaks only between its tokens.
func joinLines(text []byte) {
	for i, char := range text {
		if char == '\n' || char == '\r' {
			text[i] = ' '
		}
	}
}
