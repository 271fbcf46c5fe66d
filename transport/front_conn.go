package transport

import (
	"bytes"
	"errors"
	"net"
	"net/http"
	"os"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"

	"tidings/services"
)

// The states of a connection of the front.
const (
	// A connection goes between idle and busy with each request. closeIfIdle takes it from idle to closed by compare and swap, so that
	// either the client's next request or the shutdown wins, and never both.
	frontConnIdle   = iota // waits for a request
	frontConnBusy          // has a request, at least in part
	frontConnClosed        // was closed
)

const (
	// Nearly all plain requests fit into a buffer of frontBufferSize bytes, which is pooled. A request longer than
	// maxFrontRequestBytes is handed on.
	frontBufferSize      = 4 << 10
	maxFrontRequestBytes = 24 << 10 // bytes of a request with its head
	// A usual head with its token has less than 2 KB. A head with a token near maxTokenBytes is longer than maxFrontHeadBytes, and
	// is handed on.
	maxFrontHeadBytes = 8 << 10 // bytes of a head
)

// frontConn is a connection that the front serves. The fields from address to answersPerHandOn belong to its goroutine, or to the
// runner of its loop. While the goroutine executes an operation, only watchClient uses byteReadAhead and hasByteReadAhead.
type frontConn struct {
	front    *Front
	conn     net.Conn
	listener *frontListener // where the connection is handed on
	state    atomic.Int32   // one of the states above

	// address is kept for requests without X-Forwarded-For. A proxy sends requests of many clients over one connection, so the address
	// of such a request is computed each time.
	address                     string       // as trustedProxies.clientAddress returns it; "" until a request needs it
	readDeadline, writeDeadline time.Time    // the deadlines that are set
	byteReadAhead               [1]byte      // the byte that watchClient has read, if hasByteReadAhead
	hasByteReadAhead            bool         // watchClient has read a byte that is not used yet
	answerPartWritten           bool         // a part of the present answer was written
	pendingHead                 *requestHead // the head of a request whose body has arrived in part, so that it is read only once; else nil
	slowRequestAt               time.Time    // the request counts as slow if its rest has not come by then; zero unless the front waits for a rest
	jointStreak                 int          // requests in a row that could be answered jointly; below 0 after one that a loop did not answer
	answersPerHandOn            int          // the number of answers that the HTTP server gives when the connection is handed on; 0 means 1

	loop loopConn // what the loops know of the connection
}

// frontBuffers holds buffers for reuse. A connection has one for as long as it has a goroutine.
var frontBuffers = sync.Pool{New: func() any { return new([frontBufferSize]byte) }}

// serve answers requests until the connection ends, is handed on, or joins a loop. first, if not nil, finishes the answer to a request
// that was read before. rest has the bytes that were read behind that request, and fits into a buffer. Below, buffer[:filled] has the
// bytes that were read and not answered yet.
func (c *frontConn) serve(first func() frontOutcome, rest []byte) {
	own := frontBuffers.Get().(*[frontBufferSize]byte)
	defer frontBuffers.Put(own)
	// owns is false once the HTTP server or a loop owns the connection, which this goroutine then must not close, even if it
	// panics.
	owns := true
	defer func() {
		if fault := recover(); fault != nil {
			c.handlePanic(fault, owns && !c.answerPartWritten)
		}
		if owns {
			_ = c.conn.Close()
			c.front.removeConn(c)
		}
	}()
	handOn := func(before []byte, addressCharged bool) {
		owns = false
		defer c.front.removeConn(c)
		c.handToHTTPServer(before, addressCharged)
	}
	c.answerPartWritten = false
	if first != nil && first() == frontClosesConn {
		return
	}
	buffer := own[:]
	filled := copy(buffer, rest)
	for fresh := filled == 0; ; fresh = true {
		if fresh {
			n, err := c.readMore(buffer[filled:], filled > 0)
			filled += n
			if err != nil {
				// A client that is silent between requests is disconnected after the idle time. For one that is slow within a
				// request, the timeouts and errors of the HTTP server apply.
				if late := errors.Is(err, os.ErrDeadlineExceeded); late && filled > 0 {
					handOn(buffer[:filled], false) // a slow request
				}
				return
			}
		}
		// The first part of a next request moves to the front of the buffer.
		used, outcome := c.answerRequests(buffer[:filled])
		filled = copy(buffer, buffer[used:filled])
		switch {
		case outcome == frontClosesConn:
			return
		case outcome == frontHandsOn || outcome == frontHandsOnCharged:
			handOn(buffer[:filled], outcome == frontHandsOnCharged)
			return
		case filled == 0 && c.jointStreak >= minJointStreak && !c.hasByteReadAhead:
			if joined, lost := c.front.loops.join(c); joined {
				owns = false
				return
			} else if lost {
				return
			}
		// The larger buffer always has room for the rest: answerRequests hands on a request that would not fit into it.
		case filled == len(buffer): // a longer request
			buffer = append(bytes.Clone(buffer), make([]byte, maxFrontRequestBytes-len(buffer))...)
		}
	}
}

// handlePanic logs a panic, and answers the present request with 500 if mayAnswer is true. No HTTP server is around the goroutine, so
// without a recovery the panic would end the process. The caller closes the connection.
func (c *frontConn) handlePanic(fault any, mayAnswer bool) {
	answer := &responseRecorder{header: http.Header{"Connection": {"close"}}}
	w := newRequest(answer, &http.Request{})
	c.front.httpTransport.cfg.Log.Error("a request panicked", "requestId", w.RequestID(), "cause", fault, "stack", string(debug.Stack()))
	if mayAnswer {
		writeFault(w, http.StatusInternalServerError, services.Errorf(services.Internal, "an error on our side"))
		_ = c.send(answer.responseText()) // nothing can be sent to a client that is gone
	}
}

// readMore reads more bytes. It waits up to the idle time for a new request. If more is true, it waits for the rest of a request
// instead: up to slowRequestAfter, in all calls for that request together. Otherwise a client that sends a byte now and then could
// keep the connection busy for hours. net.ErrClosed means that the connection was closed for a shutdown while it was idle, and that
// no request was lost.
func (c *frontConn) readMore(into []byte, more bool) (n int, err error) {
	idle := c.front.httpServer.IdleTimeout
	switch {
	case more && c.slowRequestAt.IsZero():
		c.slowRequestAt = deadlineAfter(c.front.slowRequestAfter)
		c.readDeadline = c.slowRequestAt
		err = c.conn.SetReadDeadline(c.readDeadline)
	case more: // the deadline is set, and stays
	// Without an idle time, no deadline is set, and a deadline that watchClient or a piece of a request has set is removed.
	case idle <= 0 && !c.readDeadline.IsZero():
		c.readDeadline = time.Time{}
		err = c.conn.SetReadDeadline(c.readDeadline)
	case idle > 0 && time.Until(c.readDeadline) < idle: // not for each request, because it costs as much as checking a remembered token
		// The deadline is an eighth longer, so that it is set once for many requests of a busy connection and never ends too early.
		c.readDeadline = deadlineAfter(idle + idle/8)
		err = c.conn.SetReadDeadline(c.readDeadline)
	}
	if err != nil {
		return 0, err
	}
	// From here to the next swap the connection counts as idle. The first swap fails for a new connection, which is idle from the
	// start. closesIdleConns is read after the state was set, and Shutdown sets closesIdleConns before it reads the states: so at
	// least one of the two sees the other's change.
	if !more && (!c.state.CompareAndSwap(frontConnBusy, frontConnIdle) && c.state.Load() == frontConnClosed || c.front.closesIdleConns.Load()) {
		return 0, net.ErrClosed
	}
	if c.hasByteReadAhead {
		into[0], n, c.hasByteReadAhead = c.byteReadAhead[0], 1, false
	} else {
		n, err = c.conn.Read(into)
	}
	// closeIfIdle may have closed the connection after the read. Then the client gets no answer, and its request was not begun.
	if !more && err == nil && !c.state.CompareAndSwap(frontConnIdle, frontConnBusy) {
		return 0, net.ErrClosed
	}
	return n, err
}

// closeIfIdle closes the connection if it has no request.
func (c *frontConn) closeIfIdle() {
	if c.state.CompareAndSwap(frontConnIdle, frontConnClosed) {
		c.abort() // it has no request that could be lost
	}
}

// abort closes the connection at once. A connection in a loop is only shut down: the loop sees the end of its input, and closes it.
func (c *frontConn) abort() {
	if c.loop.shutDownSocket() {
		return
	}
	_ = c.conn.Close()
	c.loop.removeClosedFromLoop(c)
}

// handToHTTPServer gives the connection to the HTTP server, with the bytes that were read. The HTTP server then sets its deadlines.
// The caller removes it from the front.
func (c *frontConn) handToHTTPServer(before []byte, addressCharged bool) {
	_ = c.conn.SetDeadline(time.Time{}) // an error shows at the next read
	before = bytes.Clone(before)        // the buffer is reused
	if c.hasByteReadAhead {             // watchClient has read the byte behind these
		before, c.hasByteReadAhead = append(before, c.byteReadAhead[0]), false
	}
	// The function does not refer to c, so that c can be freed while the HTTP server has the connection.
	conn, front, to, handedAnswers := c.conn, c.front, c.listener, max(c.answersPerHandOn, 1)
	handed := newHandedConn(conn, before, handedAnswers, func(before []byte) bool {
		return front.startServing(&frontConn{front: front, conn: conn, listener: to, answersPerHandOn: min(2*handedAnswers, maxAnswersPerHandOn)}, before)
	})
	handed.addressCharged = addressCharged
	c.listener.passToHTTPServer(handed)
}

// frontOutcome is the next step of a connection after requests or an answer.
type frontOutcome int

const (
	frontReadsMore      frontOutcome = iota // the connection waits for more bytes
	frontHandsOn                            // the rest is for the HTTP server
	frontHandsOnCharged                     // as frontHandsOn, and the first request was charged to its address
	frontClosesConn                         // the connection is closed
)

// plainRequestStart begins every plain request. It decides, before anything is parsed, whether a request may be plain.
var plainRequestStart = []byte("POST " + frontPath + " HTTP/1.1\r\n")

// answerRequests answers the requests at the beginning of data, and returns the number of their bytes. It stops at a request that is
// not plain: all bytes from there on are for the HTTP server.
func (c *frontConn) answerRequests(data []byte) (used int, outcome frontOutcome) {
	for used < len(data) {
		c.answerPartWritten = false
		rest := data[used:]
		head, next := c.nextHead(rest)
		if head == nil {
			return used, next
		}
		body := rest[len(head.text):]
		if len(body) < head.bodyLength {
			c.pendingHead = head
			return used, frontReadsMore
		}
		c.pendingHead, c.slowRequestAt = nil, time.Time{}
		// After any other outcome than frontReadsMore the front reads no further. used does not include the present request, so that a
		// request for the HTTP server is handed on as a whole.
		if outcome := c.answer(head, body[:head.bodyLength]); outcome != frontReadsMore {
			return used, outcome
		}
		used += len(head.text) + head.bodyLength
		c.answersPerHandOn = 0
	}
	return used, frontReadsMore
}

// nextHead returns the head of the request at the beginning of data. h is nil if the request is for the HTTP server, or if more of its
// head must come; next tells which.
func (c *frontConn) nextHead(data []byte) (h *requestHead, next frontOutcome) {
	if c.pendingHead != nil {
		return c.front.withoutStaleCaller(c.pendingHead), frontReadsMore // the token may have expired while the body arrived
	}
	// The first bytes decide at once, so that no request for the HTTP server waits for its blank line here.
	if start := plainRequestStart[:min(len(plainRequestStart), len(data))]; !bytes.HasPrefix(data, start) {
		return nil, frontHandsOn
	}
	end := bytes.Index(data, []byte("\r\n\r\n"))
	switch {
	// A head that is too long is left to the HTTP server even before its end has come.
	case end > maxFrontHeadBytes || end < 0 && len(data) > maxFrontHeadBytes:
		return nil, frontHandsOn
	case end < 0:
		return nil, frontReadsMore
	}
	h = c.front.headOf(data[:end+len("\r\n\r\n")])
	// The body may arrive in pieces, but must fit into the buffer together with its head.
	if h == nil || h.bodyLength > maxFrontRequestBytes-len(h.text) {
		return nil, frontHandsOn
	}
	return h, frontReadsMore
}

// send writes an answer. A long answer gets a new deadline each time. A short one fits into the buffers of the connection, so for
// it the deadline is set again only when half of its time has passed.
func (c *frontConn) send(text []byte) error {
	if len(text) > maxSmallAnswerBytes {
		backlog := c.front.httpTransport.backlog
		backlog.addAnswerBytes(len(text))
		defer backlog.removeAnswerBytes(len(text))
		c.writeDeadline = deadlineAfter(backlog.writeTimeout(len(text), c.front.httpTransport.cfg.WriteTimeout))
		if err := c.conn.SetWriteDeadline(c.writeDeadline); err != nil {
			return err
		}
	} else if most := c.front.httpTransport.cfg.WriteTimeout; time.Until(c.writeDeadline) < most/2 {
		c.writeDeadline = deadlineAfter(most)
		if err := c.conn.SetWriteDeadline(c.writeDeadline); err != nil {
			return err
		}
	}
	// Head and body are in one buffer, so this is one write, and mostly one packet.
	c.answerPartWritten = true
	_, err := c.conn.Write(text)
	return err
}

// watchClientAfter is the duration of an operation after which the front checks whether its client is still there. Nearly all
// operations end before that, and cost only a timer.
const watchClientAfter = 50 * time.Millisecond

// watchClient calls gone if the client goes away. The caller calls end when the operation is over, and reads nothing before. A read is
// the only way to notice the end of a connection. A byte that the read finds belongs to the next request.
func (c *frontConn) watchClient(gone func()) (end func()) {
	ended := make(chan struct{})
	timer := time.AfterFunc(watchClientAfter, func() {
		defer close(ended)
		if c.hasByteReadAhead {
			return // a next request has begun: the client is there
		}
		// Nothing else reads now: the connection's own goroutine executes the operation.
		n, err := c.conn.Read(c.byteReadAhead[:])
		c.hasByteReadAhead = n > 0
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			gone()
		}
	})
	return func() {
		if timer.Stop() {
			return
		}
		// The timer's function is running, and may be reading: a deadline in the past ends its read. Then this goroutine may use
		// byteReadAhead again.
		c.readDeadline = deadlineAfter(0)
		_ = c.conn.SetReadDeadline(c.readDeadline) // an error shows at the next read
		<-ended
		c.readDeadline = time.Time{}
		_ = c.conn.SetReadDeadline(c.readDeadline)
	}
}
