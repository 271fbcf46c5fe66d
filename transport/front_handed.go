package transport

import (
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"tidings/services"
)

// frontListener is the listener that the HTTP server sees. It yields the connections that the front hands on.
type frontListener struct {
	net.Listener
	// Unbuffered: when the server stops accepting, a connection in a buffer would be lost and stay open.
	conns chan net.Conn
	// The error of the listener itself, which ends the HTTP server's Serve. A buffer of one is enough, because accept ends after
	// it.
	failed chan error
	// done is closed by Close, once. From then on no connection is given to the HTTP server.
	done      chan struct{}
	once      sync.Once
	stop      func() error     // closes the listener itself, once
	addHanded func(handed int) // counts connections of the HTTP server
}

// Accept waits for a connection that the front does not serve.
func (l *frontListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case err := <-l.failed:
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

// give hands a connection on, or closes it if the server has ended. It counts the connection first: otherwise, for a moment,
// neither the front nor the HTTP server would count it.
func (l *frontListener) give(conn net.Conn) {
	l.addHanded(1)
	select {
	case l.conns <- conn:
	case <-l.done:
		l.addHanded(-1)
		_ = conn.Close()
	}
}

// handedConn is a connection that the front hands to the HTTP server, with the bytes that were read. trackServerState and ConnContext
// recognize it by its type. When the HTTP server has answered and waits for the next request, the connection returns to the
// front: Read returns io.EOF, the server calls Close, and Close calls takeBack.
type handedConn struct {
	net.Conn
	before         []byte // bytes that were read and not returned yet; only the one reader of a connection uses it
	addressCharged bool   // its first request was charged to its address
	// takeBack gives the connection to the front, with the bytes that were read of the next request; false if the front has ended.
	// nil: the connection stays with the HTTP server.
	takeBack        func(before []byte) bool
	handedAnswers   int          // the number of answers after which it returns
	state           atomic.Int32 // one of the states below
	emptyBufferSize int          // the size of the HTTP server's empty buffer; only the reader uses it

	mu       sync.Mutex
	change   sync.Cond // signals a change of the fields below
	deadline time.Time // of reads; zero for none
	closed   bool      // the HTTP server has closed the connection
}

// maxHandedAnswers is the greatest number of answers for which a connection stays with the HTTP server. To hand it on and back
// takes about 25 us. So a connection that is handed on again and again stays for twice as many answers each time, until the front
// has answered on it.
const maxHandedAnswers = 64

// The states of a handedConn: the work of the HTTP server on it.
const (
	handedReading  = iota // it reads a request
	handedActive          // it answers a request
	handedAnswered        // it has given the last answer, and may have read a next request already
	handedWaiting         // it waits for a next request
	handedReturned        // it has read io.EOF, and will close the connection
	handedClosed
)

// newHanded makes a connection that the front hands on, and that returns after handedAnswers answers.
func newHanded(conn net.Conn, before []byte, handedAnswers int, takeBack func(before []byte) bool) *handedConn {
	c := &handedConn{Conn: conn, before: before, handedAnswers: handedAnswers, takeBack: takeBack}
	c.change.L = &c.mu
	return c
}

// setServerState follows the state of the connection in the HTTP server.
func (c *handedConn) setServerState(state http.ConnState) {
	switch {
	case c.takeBack == nil:
	case state == http.StateActive:
		c.state.Store(handedActive)
	case state == http.StateHijacked: // a socket: its reads of one byte do not look for the client's end
		c.state.Store(handedReading)
	case state == http.StateIdle:
		after := int32(handedReading)
		if c.handedAnswers--; c.handedAnswers <= 0 {
			after = handedAnswered
		}
		c.state.CompareAndSwap(handedActive, after)
	}
}

// SetReadDeadline sets the deadline, and learns from the call what the HTTP server does. After the last answer, the server sets a
// deadline before it waits for a next request, and another one when that request has begun. The second call follows at once if bytes of
// the next request were read with the last one.
func (c *handedConn) SetReadDeadline(at time.Time) error {
	if !c.state.CompareAndSwap(handedAnswered, handedWaiting) {
		c.state.CompareAndSwap(handedWaiting, handedReading)
	}
	c.update(func() { c.deadline = at })
	return c.Conn.SetReadDeadline(at)
}

// update changes deadline or closed, and wakes up a call of lookForClient that waits for such a change.
func (c *handedConn) update(change func()) {
	if c.takeBack == nil { // lookForClient is never called
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
	c.change.Broadcast()
}

// Close closes the connection, or returns it to the front. A second call, for instance by a shutdown, closes it.
func (c *handedConn) Close() error {
	if c.state.Swap(handedClosed) == handedReturned && c.takeBack(c.before) {
		return nil
	}
	c.update(func() { c.closed = true })
	return c.Conn.Close()
}

// Read first returns the bytes of before, and then frees them, because the connection may live for long.
func (c *handedConn) Read(to []byte) (int, error) {
	switch {
	case c.takeBack == nil:
	// While the HTTP server answers, it reads one byte in the background, to see whether the client is still there. It may also read
	// one byte of a body, if its buffer has room for one byte only. But then a deadline is set.
	case len(to) == 1 && c.state.Load() == handedActive && !c.readsBody():
		return c.lookForClient(to)
	case c.mayReturn(len(to)):
		return 0, io.EOF
	}
	if len(c.before) == 0 {
		return c.Conn.Read(to)
	}
	n := copy(to, c.before)
	if c.before = c.before[n:]; len(c.before) == 0 {
		c.before = nil
	}
	return n, nil
}

// lookForClient checks by a read whether the client is still there. A byte that it reads belongs to the next request and is kept in
// before: if the HTTP server received it, it would have to answer that request itself. So lookForClient waits until the HTTP server ends
// the read by a deadline in the past.
func (c *handedConn) lookForClient(to []byte) (int, error) {
	if len(c.before) == 0 {
		n, err := c.Conn.Read(to)
		if n == 0 {
			return 0, err
		}
		c.before = append(c.before, to[0])
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for !c.closed && c.deadline.IsZero() {
		c.change.Wait()
	}
	return 0, os.ErrDeadlineExceeded
}

// readsBody reports whether a read deadline is in the future. The HTTP server sets one for a body, and removes it when the body
// has ended.
func (c *handedConn) readsBody() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Before(c.deadline)
}

// mayReturn reports whether the connection returns to the front instead of reading. room is the length of the buffer that the HTTP server
// reads into. The connection returns if the HTTP server waits for a request and has read nothing of it.
func (c *handedConn) mayReturn(room int) bool {
	// The first read comes before any request, and into the whole buffer. If a part of a next request is in the buffer, room is
	// less.
	if c.emptyBufferSize == 0 {
		c.emptyBufferSize = room
	}
	return room == c.emptyBufferSize && len(c.before) < frontBufferSize && c.state.CompareAndSwap(handedWaiting, handedReturned)
}

// CloseWrite closes the sending side. The HTTP server calls it before it closes a connection that it has not read to the end.
func (c *handedConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// payment says what the front has already checked and charged for a request, so that the HTTP server and the executor charge only the rest.
// It is in the context of one request, or of a handed connection, where the front has charged only the address of the first
// request.
type payment struct {
	addressChargeUsed atomic.Bool  // false: the front has charged the address for one more request; true: that request has come
	operationCharged  bool         // the front has charged the operation too
	caller            *frontCaller // the caller, whose token was checked; nil: the token must still be checked
}

// paymentKey is the key of a *payment. Its absence means that nothing was charged.
type paymentKey struct{}

// chargeAddress charges a request to its address, unless the front has done so. Swap makes the payment count for one request only:
// later requests of a handed connection find it used.
func (q *queries) chargeAddress(ctx context.Context, address string) error {
	if paid, ok := ctx.Value(paymentKey{}).(*payment); ok && !paid.addressChargeUsed.Swap(true) {
		return nil
	}
	return q.cfg.Limits.ChargeAddress(address)
}

// isOperationCharged reports whether the front has charged the operation. This is so if an answer by Quick failed after the charge.
func isOperationCharged(ctx context.Context) bool {
	paid, ok := ctx.Value(paymentKey{}).(*payment)
	return ok && paid.operationCharged
}

// withViewer returns the caller with the viewer of a token. Requests with the scope ingest may have longer bodies.
func (c caller) withViewer(viewer services.Viewer, expires time.Time, cfg Config) caller {
	if viewer.Has(services.ScopeIngest) {
		c.limit = cfg.IngestBodyLimit
	}
	c.ctx, c.expires = services.WithViewer(c.ctx, viewer), expires
	return c
}
