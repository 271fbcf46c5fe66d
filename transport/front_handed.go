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
	// Without a buffer: a connection in a buffer would be lost, and stay open, when the server stops accepting.
	conns chan net.Conn
	// The error of the listener itself, which ends the HTTP server's Serve. One place is enough: accept ends with it.
	failed chan error
	// done is closed by Close, once. Nothing is given to the HTTP server from then on.
	done chan struct{}
	once sync.Once
	stop func() error     // closes the listener itself, once
	add  func(handed int) // counts connections of the HTTP server
}

// Accept waits for a connection that the front does not serve.
func (l *frontListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case err := <-l.failed:
		return nil, err
	// What net/http expects of a listener that it has closed itself.
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Close closes the listener itself too. Drain may have closed that already; the HTTP server calls Close at its end.
func (l *frontListener) Close() error {
	l.once.Do(func() { close(l.done) })
	return l.stop()
}

// give hands a connection on, or closes it if the server has ended. It counts the connection first: between the front and the
// HTTP server it would be in neither's count.
func (l *frontListener) give(conn net.Conn) {
	l.add(1)
	select {
	case l.conns <- conn:
	case <-l.done:
		l.add(-1)
		_ = conn.Close()
	}
}

// handedConn is a connection of which something was read already. Its type tells count and ConnContext that it comes from the
// front. When the HTTP server has answered and would wait for the next request, the connection returns to the front: the server
// sees its end, and closes it.
type handedConn struct {
	net.Conn
	before []byte // what was read and not returned yet; only the one reader of a connection uses it
	paid   bool   // its first request was charged to its address
	// takeBack takes the connection with what was read of the next request; false if the front has ended. nil: the connection stays
	// with the HTTP server.
	takeBack func(before []byte) bool
	stays    int // answers after which it returns
	state    atomic.Int32
	room     int // of the HTTP server's buffer when nothing is in it; only the reader uses it

	mu       sync.Mutex
	change   sync.Cond // of the fields below
	deadline time.Time // of reads; zero for none
	closed   bool
}

// maxHandedAnswers bounds for how long a connection stays with the HTTP server. The way there and back takes some 25 us, so one that is
// handed on again and again stays for twice as many answers each time, until the front has answered on it.
const maxHandedAnswers = 64

// What the HTTP server does with a handedConn.
const (
	handedReading  = iota // it reads a request
	handedActive          // it answers one
	handedAnswered        // it has none, or has read a next one already
	handedWaiting         // it waits for one
	handedReturned        // it was told of the end, and will close the connection
	handedClosed
)

// newHanded makes a connection that the front hands on, and that returns after so many answers.
func newHanded(conn net.Conn, before []byte, stays int, takeBack func(before []byte) bool) *handedConn {
	c := &handedConn{Conn: conn, before: before, stays: stays, takeBack: takeBack}
	c.change.L = &c.mu
	return c
}

// became takes note of what the HTTP server does.
func (c *handedConn) became(state http.ConnState) {
	switch {
	case c.takeBack == nil:
	case state == http.StateActive:
		c.state.Store(handedActive)
	case state == http.StateHijacked: // a socket, whose reads of one byte are no looks
		c.state.Store(handedReading)
	case state == http.StateIdle:
		after := int32(handedReading)
		if c.stays--; c.stays <= 0 {
			after = handedAnswered
		}
		c.state.CompareAndSwap(handedActive, after)
	}
}

// SetReadDeadline sets the deadline. The HTTP server sets one before it waits for a next request, and another when that has begun,
// which may be at once: it has read on behind the last one.
func (c *handedConn) SetReadDeadline(at time.Time) error {
	if !c.state.CompareAndSwap(handedAnswered, handedWaiting) {
		c.state.CompareAndSwap(handedWaiting, handedReading)
	}
	c.update(func() { c.deadline = at })
	return c.Conn.SetReadDeadline(at)
}

// update changes what a look waits for, and wakes it up.
func (c *handedConn) update(change func()) {
	if c.takeBack == nil { // nobody looks
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	change()
	c.change.Broadcast()
}

// Close closes the connection, or returns it to the front. A second call, as that of a shutdown, finds it closed.
func (c *handedConn) Close() error {
	if c.state.Swap(handedClosed) == handedReturned && c.takeBack(c.before) {
		return nil
	}
	c.update(func() { c.closed = true })
	return c.Conn.Close()
}

// Read returns first what was read before, and then drops that, because the connection may live for long.
func (c *handedConn) Read(to []byte) (int, error) {
	switch {
	case c.takeBack == nil:
	// While it answers, the HTTP server reads one byte in the background, to see whether the client is still there. While it reads a body,
	// which may end one byte before its buffer does, there is a deadline.
	case len(to) == 1 && c.state.Load() == handedActive && !c.readsBody():
		return c.look(to)
	case c.returns(len(to)):
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

// look reads whether the client is still there. A byte of its next request shows that, and is kept back: with that byte the request
// would be the HTTP server's. So the look lasts until that one ends it by a deadline in the past.
func (c *handedConn) look(to []byte) (int, error) {
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

// readsBody reports whether the HTTP server has set a deadline that has not come yet: it takes it away when the body has ended.
func (c *handedConn) readsBody() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Before(c.deadline)
}

// returns reports whether the connection returns to the front, at a read into so much room. It does if the HTTP server waits for a
// request of which it has nothing yet.
func (c *handedConn) returns(room int) bool {
	// The first read comes before any request, with the whole of the buffer. A piece of a next request leaves less.
	if c.room == 0 {
		c.room = room
	}
	return room == c.room && len(c.before) < frontBuffer && c.state.CompareAndSwap(handedWaiting, handedReturned)
}

// CloseWrite closes the sending side, as the HTTP server does before it closes a connection that it has not read to the end.
func (c *handedConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// payment says what the front has already charged for a request, so that the HTTP server and the executor charge the rest only.
// It is in the context of one request, or of a handed connection, where only the address of the first request was charged.
type payment struct {
	address   atomic.Bool // false: still to be taken into account, once
	operation bool
	caller    *frontCaller // whose token was checked; nil: it is still to be checked
}

// paymentKey is the key of a *payment. Its absence means that nothing was charged.
type paymentKey struct{}

// chargeAddress charges a request to its address, unless the front has done so. Swap makes the payment good for one request:
// the later ones of a handed connection find it used.
func (q *queries) chargeAddress(ctx context.Context, address string) error {
	if paid, ok := ctx.Value(paymentKey{}).(*payment); ok && !paid.address.Swap(true) {
		return nil
	}
	return q.cfg.Limits.Address(address)
}

// chargedOperation reports whether the front has charged the operation. It has if a compiled answer failed after the charge.
func chargedOperation(ctx context.Context) bool {
	paid, ok := ctx.Value(paymentKey{}).(*payment)
	return ok && paid.operation
}

// withViewer is the caller with the bearer of a token. The application's own tokens may send longer bodies.
func (c caller) withViewer(viewer services.Viewer, expires time.Time, cfg Config) caller {
	if viewer.Has(services.ScopeIngest) {
		c.limit = cfg.IngestBodyLimit
	}
	c.ctx, c.expires = services.WithViewer(c.ctx, viewer), expires
	return c
}
