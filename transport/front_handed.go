package transport

import (
	"context"
	"io"
	"net"
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
	before []byte // what was read; only the one reader of a connection uses it
	paid   bool   // its first request was charged to its address
	// takeBack takes the connection; false if the front has ended. nil: the connection stays with the HTTP server.
	takeBack func() bool
	use      atomic.Int32
	room     int // of the HTTP server's buffer when nothing is in it; only the reader uses it
}

// What the HTTP server does with a handedConn.
const (
	handedBusy     = iota // it has a request
	handedAnswered        // it has none, or has read a next one already
	handedWaiting         // it waits for one
	handedReturned        // it was told of the end, and will close the connection
	handedClosed
)

// answered says that the HTTP server has answered a request.
func (c *handedConn) answered() {
	if c.takeBack != nil {
		c.use.CompareAndSwap(handedBusy, handedAnswered)
	}
}

// SetReadDeadline sets the deadline. The HTTP server sets one before it waits for a next request, and another when that has begun,
// which may be at once: it has read on behind the last one.
func (c *handedConn) SetReadDeadline(at time.Time) error {
	if !c.use.CompareAndSwap(handedAnswered, handedWaiting) {
		c.use.CompareAndSwap(handedWaiting, handedBusy)
	}
	return c.Conn.SetReadDeadline(at)
}

// returns reports whether the connection returns to the front, at a read into so much room. It does if the HTTP server waits for a
// request of which it has nothing yet.
func (c *handedConn) returns(room int) bool {
	// The first read comes before any request, with the whole of the buffer. A piece of a next request leaves less.
	if c.room == 0 {
		c.room = room
	}
	return room == c.room && c.use.CompareAndSwap(handedWaiting, handedReturned)
}

// Close closes the connection, or returns it to the front. A second call, as that of a shutdown, finds it closed.
func (c *handedConn) Close() error {
	if c.use.Swap(handedClosed) == handedReturned && c.takeBack() {
		return nil
	}
	return c.Conn.Close()
}

// Read returns first what was read before, and then drops that, because the connection may live for long.
func (c *handedConn) Read(to []byte) (int, error) {
	if c.takeBack != nil && c.returns(len(to)) {
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

// as is the caller with the bearer of a token. The application's own tokens may send longer bodies.
func (c caller) as(viewer services.Viewer, expires time.Time, cfg Config) caller {
	if viewer.Has(services.ScopeIngest) {
		c.limit = cfg.IngestBodyLimit
	}
	c.ctx, c.expires = services.WithViewer(c.ctx, viewer), expires
	return c
}
