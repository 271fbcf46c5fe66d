package transport

import (
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// frontListener is the listener that the HTTP server sees. It yields the connections that the front hands on.
type frontListener struct {
	net.Listener
	// conns passes connections to Accept. It is unbuffered: when the server stops accepting, a connection in a buffer would stay open.
	conns chan net.Conn
	// acceptErr passes the error of the listener itself, which ends the HTTP server's Serve. A buffer of one is enough, because
	// Front.accept ends after an error.
	acceptErr chan error
	// done is closed by Close, once. From then on no connection is given to the HTTP server.
	done               chan struct{}
	once               sync.Once        // for the close of done
	stop               func() error     // closes the listener itself, once
	addHTTPServerConns func(handed int) // counts connections of the HTTP server
}

// Accept waits for a connection that the front does not serve.
func (l *frontListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case err := <-l.acceptErr:
		return nil, err
	// net/http expects this error of a listener that it has closed itself.
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Close also closes the listener itself, which Drain may have closed already. The HTTP server calls Close at its end.
func (l *frontListener) Close() error {
	l.once.Do(func() { close(l.done) })
	return l.stop()
}

// passToHTTPServer hands a connection on, or closes it if the server has ended. It counts the connection first: otherwise, for a
// moment, neither the front nor the HTTP server would count it.
func (l *frontListener) passToHTTPServer(conn net.Conn) {
	l.addHTTPServerConns(1)
	select {
	case l.conns <- conn:
	case <-l.done:
		l.addHTTPServerConns(-1)
		_ = conn.Close()
	}
}

// handedConn is a connection that the front hands to the HTTP server, with the bytes that were read. trackServerState and ConnContext
// recognize it by its type. When the HTTP server has answered and waits for the next request, the connection returns to the
// front: Read returns io.EOF, the server calls Close, and Close calls takeBack.
type handedConn struct {
	net.Conn
	alreadyRead    []byte // bytes that were read and not returned yet; only the one reader of a connection uses it
	addressCharged bool   // its first request was charged to its address
	// takeBack gives the connection to the front, with the bytes that were read of the next request; false if the front has ended.
	// nil: the connection stays with the HTTP server.
	takeBack                  func(before []byte) bool
	answersUntilReturnToFront int          // the number of answers after which it returns
	state                     atomic.Int32 // one of the states below
	serverBufferSize          int          // the size of the HTTP server's empty buffer; only the reader uses it

	mu                      sync.Mutex // guards the fields below
	deadlineOrClosedChanged sync.Cond  // signals a change of the fields below
	readDeadline            time.Time  // of reads; zero for none
	closed                  bool       // the HTTP server has closed the connection
}

// maxAnswersPerHandOn is the greatest number of answers for which a connection stays with the HTTP server. To hand it on and back
// takes about 25 us. So a connection that is handed on again and again stays for twice as many answers each time, until the front
// has answered on it.
const maxAnswersPerHandOn = 64

// The states of a handedConn: the work of the HTTP server on it.
const (
	handedConnReadsRequest   = iota // it reads a request
	handedConnAnswersRequest        // it answers a request
	handedConnLastAnswerSent        // it has given the last answer, and may have read a next request already
	handedConnAwaitsRequest         // it waits for a next request
	handedConnReturned              // it has read io.EOF, and will close the connection
	handedConnClosed                // Close was called
)

// newHandedConn makes a connection that the front hands on, and that returns after handedAnswers answers.
func newHandedConn(conn net.Conn, before []byte, handedAnswers int, takeBack func(before []byte) bool) *handedConn {
	c := &handedConn{Conn: conn, alreadyRead: before, answersUntilReturnToFront: handedAnswers, takeBack: takeBack}
	c.deadlineOrClosedChanged.L = &c.mu
	return c
}

// setServerState follows the state of the connection in the HTTP server.
func (c *handedConn) setServerState(state http.ConnState) {
	switch {
	case c.takeBack == nil:
	case state == http.StateActive:
		c.state.Store(handedConnAnswersRequest)
	case state == http.StateHijacked: // a socket: its reads of one byte do not look for the client's end
		c.state.Store(handedConnReadsRequest)
	case state == http.StateIdle:
		after := int32(handedConnReadsRequest)
		if c.answersUntilReturnToFront--; c.answersUntilReturnToFront <= 0 {
			after = handedConnLastAnswerSent
		}
		c.state.CompareAndSwap(handedConnAnswersRequest, after)
	}
}

// SetReadDeadline sets the deadline, and learns from the call what the HTTP server does. After the last answer, the server sets a
// deadline before it waits for a next request, and another one when that request has begun. The second call follows at once if
// bytes of the next request were read with the last one.
func (c *handedConn) SetReadDeadline(at time.Time) error {
	if !c.state.CompareAndSwap(handedConnLastAnswerSent, handedConnAwaitsRequest) {
		c.state.CompareAndSwap(handedConnAwaitsRequest, handedConnReadsRequest)
	}
	c.changeAndBroadcast(func() { c.readDeadline = at })
	return c.Conn.SetReadDeadline(at)
}

// changeAndBroadcast changes readDeadline or closed, and wakes up a call of readToDetectClose that waits for such a change.
func (c *handedConn) changeAndBroadcast(change func()) {
	if c.takeBack == nil { // readToDetectClose is never called
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
	c.deadlineOrClosedChanged.Broadcast()
}

// Close closes the connection, or returns it to the front. A second call, for instance by a shutdown, closes it.
func (c *handedConn) Close() error {
	if c.state.Swap(handedConnClosed) == handedConnReturned && c.takeBack(c.alreadyRead) {
		return nil
	}
	c.changeAndBroadcast(func() { c.closed = true })
	return c.Conn.Close()
}

// Read first returns the bytes of alreadyRead, and then frees them, because the connection may live for long.
func (c *handedConn) Read(to []byte) (int, error) {
	switch {
	case c.takeBack == nil:
	// While the HTTP server answers, it reads one byte in the background, to see whether the client is still there. It may also read
	// one byte of a body, if its buffer has room for one byte only. But then a deadline is set.
	case len(to) == 1 && c.state.Load() == handedConnAnswersRequest && !c.readsBody():
		return c.readToDetectClose(to)
	case c.tryReturnToFront(len(to)):
		return 0, io.EOF
	}
	if len(c.alreadyRead) == 0 {
		return c.Conn.Read(to)
	}
	n := copy(to, c.alreadyRead)
	if c.alreadyRead = c.alreadyRead[n:]; len(c.alreadyRead) == 0 {
		c.alreadyRead = nil
	}
	return n, nil
}

// readToDetectClose checks by a read whether the client is still there. A byte that it reads belongs to the next request and is
// kept in alreadyRead: if the HTTP server received it, it would have to answer that request itself. So readToDetectClose waits until the
// HTTP server ends the read by a deadline in the past.
func (c *handedConn) readToDetectClose(to []byte) (int, error) {
	if len(c.alreadyRead) == 0 {
		n, err := c.Conn.Read(to)
		if n == 0 {
			return 0, err
		}
		c.alreadyRead = append(c.alreadyRead, to[0])
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for !c.closed && c.readDeadline.IsZero() {
		c.deadlineOrClosedChanged.Wait()
	}
	return 0, os.ErrDeadlineExceeded
}

// readsBody reports whether a read deadline is in the future. The HTTP server sets one for a body, and removes it when the body
// has ended.
func (c *handedConn) readsBody() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Before(c.readDeadline)
}

// tryReturnToFront reports whether the connection returns to the front instead of reading. room is the length of the buffer that
// the HTTP server reads into. The connection returns if the HTTP server waits for a request and has read nothing of it.
func (c *handedConn) tryReturnToFront(room int) bool {
	// The first read comes before any request, and into the whole buffer. If a part of a next request is in the buffer, room is
	// less.
	if c.serverBufferSize == 0 {
		c.serverBufferSize = room
	}
	return room == c.serverBufferSize && len(c.alreadyRead) < frontBufferSize && c.state.CompareAndSwap(handedConnAwaitsRequest, handedConnReturned)
}

// CloseWrite closes the sending side. The HTTP server calls it before it closes a connection that it has not read to the end.
func (c *handedConn) CloseWrite() error {
	return closeWrite(c.Conn)
}
