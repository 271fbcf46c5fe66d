package transport

import (
	"context"
	"errors"
	"net"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/vektah/gqlparser/v2/ast"

	"tidings/services"
)

// Quick appends the data of the answer to one operation without variables. It returns to and false if it cannot: the executor
// then answers, with every error. The context has the viewer.
type Quick = func(ctx context.Context, to []byte) ([]byte, bool)

// QuickSchema is a schema that answers some operations without the executor.
type QuickSchema interface {
	// Quick returns nil for an operation that needs the executor.
	Quick(operation *ast.OperationDefinition) Quick
}

// Front serves a listener. It answers the most frequent requests itself, which are plain in every respect: POST /graphql by
// HTTP/1.1 with headers that mean nothing special, a short body, a good token, and an operation of a QuickSchema. Any other
// connection it hands to the HTTP server, with all that was read from it: whatever is unusual, malformed, slow or refused is
// answered there. Such a connection stays there. Both apply the same checks and limits, and send the same headers.
type Front struct {
	next     *http.Server
	queries  *queries
	handler  http.Handler
	quick    QuickSchema
	loopback bool
	heads    *textMemory[*head]
	requests *textMemory[*knownRequest]
	pause    time.Duration // the longest wait for the rest of a request

	lasts    atomic.Bool // each answer is the last one of its connection
	endsIdle atomic.Bool // connections without a request are closed

	mu        sync.Mutex
	conns     map[*frontConn]struct{}
	handed    int // connections of the HTTP server
	listeners []*frontListener
	idleUntil time.Time     // until when idle connections stay open while lasts
	closing   bool          // no connection is taken
	empty     chan struct{} // closed when no connection of the front is left after closing; nil until then
	quiet     chan struct{} // closed when the HTTP server has none either
}

const (
	headsBytes    = 16 << 20 // of remembered heads with their viewers
	requestsBytes = 256 << 10
	frontPath     = "/graphql"
)

// NewFront makes the front of a server. handler is what Handler has made, next serves it at /graphql. loopback applies what
// LoopbackOnly checks. Without a QuickSchema, or with a handler around it, all connections are handed on.
func NewFront(handler http.Handler, next *http.Server, loopback bool) *Front {
	f := &Front{
		next: next, handler: handler, loopback: loopback, conns: map[*frontConn]struct{}{},
		heads: newTextMemory[*head](headsBytes), requests: newTextMemory[*knownRequest](requestsBytes), pause: next.ReadHeaderTimeout / 10,
	}
	if endpoint, ok := handler.(*endpoint); ok {
		f.queries = endpoint.queries
		f.quick, _ = endpoint.queries.cfg.Schema.(QuickSchema)
	}
	next.Handler = f.lastly(next.Handler)
	next.ConnState = f.count
	next.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
		if handed, ok := conn.(*handedConn); ok && handed.paid {
			return context.WithValue(ctx, paymentKey{}, new(payment))
		}
		return ctx
	}
	return f
}

// lastly makes the HTTP server's answers the last ones of their connections during a drain.
func (f *Front) lastly(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if f.lasts.Load() {
			w.Header().Set("Connection", "close")
		}
		handler.ServeHTTP(w, r)
	})
}

// Serve serves the connections of a listener until it is closed. The error is that of the HTTP server.
func (f *Front) Serve(listener net.Listener) error {
	if f.quick == nil {
		return f.next.Serve(listener)
	}
	handed := &frontListener{
		Listener: listener, conns: make(chan net.Conn), failed: make(chan error, 1), done: make(chan struct{}), stop: sync.OnceValue(listener.Close), add: f.add,
	}
	f.mu.Lock()
	f.listeners = append(f.listeners, handed)
	f.mu.Unlock()
	go f.accept(handed)
	return f.next.Serve(handed)
}

// accept takes connections until the listener fails or is closed.
func (f *Front) accept(from *frontListener) {
	const longest = time.Second
	wait := time.Duration(0)
	for {
		conn, err := from.Listener.Accept()
		if temporary, ok := err.(interface{ Temporary() bool }); ok && temporary.Temporary() { // as the HTTP server does: no file is free
			wait = min(max(2*wait, 5*time.Millisecond), longest)
			select {
			case <-time.After(wait):
				continue
			case <-from.done:
				return
			}
		}
		if err != nil {
			if !f.lasts.Load() { // Drain has closed the listener, and the HTTP server may still be handed connections
				from.failed <- err
			}
			return
		}
		wait = 0
		one := &frontConn{front: f, conn: conn, to: from}
		if !f.enter(one) {
			_ = conn.Close() // the server has ended
			continue
		}
		go one.serve()
	}
}

func (f *Front) enter(one *frontConn) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closing {
		return false
	}
	f.conns[one] = struct{}{}
	return true
}

func (f *Front) leave(one *frontConn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.conns, one)
	f.tell()
}

// tell tells who waits for the end of the connections. The caller holds the lock.
func (f *Front) tell() {
	if f.empty != nil && len(f.conns) == 0 {
		close(f.empty)
		f.empty = nil
	}
	if f.quiet != nil && len(f.conns)+f.handed == 0 {
		close(f.quiet)
		f.quiet = nil
	}
}

// count counts the connections of the HTTP server. Those that are handed on count before they leave the front.
func (f *Front) count(conn net.Conn, state http.ConnState) {
	switch _, handed := conn.(*handedConn); {
	case state == http.StateNew && !handed:
		f.add(1)
	case state == http.StateClosed || state == http.StateHijacked:
		f.add(-1)
	}
}

func (f *Front) add(handed int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.handed += handed
	f.tell()
}

// Drain takes no more connections, so that a proxy, whose request has not left yet, turns to another node, and says with each
// answer from now on that its connection ends. A request may be on its way on an idle connection, and its client could not know
// whether it was carried out: Shutdown closes none earlier than idle after the first Drain.
func (f *Front) Drain(idle time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.lasts.CompareAndSwap(false, true) {
		return
	}
	f.idleUntil = time.Now().Add(idle)
	for _, one := range f.listeners {
		_ = one.stop()
	}
}

// Shutdown drains, closes idle connections in time, and waits until the requests have been answered or ctx has ended, also those
// of the HTTP server.
func (f *Front) Shutdown(ctx context.Context) error {
	f.Drain(0)
	f.mu.Lock()
	f.quiet = make(chan struct{})
	quiet, last := f.quiet, time.NewTimer(time.Until(f.idleUntil))
	f.tell()
	f.mu.Unlock()
	defer last.Stop()
	select {
	case <-quiet:
	case <-ctx.Done():
	case <-last.C:
	}
	f.endsIdle.Store(true)
	select {
	case <-f.close((*frontConn).closeIdle):
	case <-ctx.Done():
		f.close((*frontConn).cut)
		return errors.Join(f.next.Shutdown(ctx), ctx.Err())
	}
	return f.next.Shutdown(ctx) // the last, because connections of the front may be handed on until they end
}

// Close ends all connections at once, also those of the HTTP server.
func (f *Front) Close() error {
	f.close((*frontConn).cut)
	return f.next.Close()
}

// close refuses new connections and calls end for the present ones. The channel is closed when none is left.
func (f *Front) close(end func(*frontConn)) (left <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closing = true
	waiting := f.empty
	if waiting == nil {
		waiting = make(chan struct{})
		if len(f.conns) == 0 {
			close(waiting)
		} else {
			f.empty = waiting
		}
	}
	for one := range f.conns {
		end(one)
	}
	return waiting
}

// frontListener is the listener that the HTTP server sees.
type frontListener struct {
	net.Listener
	conns  chan net.Conn
	failed chan error
	done   chan struct{}
	once   sync.Once
	stop   func() error     // closes the listener itself, once
	add    func(handed int) // counts connections of the HTTP server
}

// Accept waits for a connection that the front does not serve.
func (l *frontListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case err := <-l.failed:
		return nil, err
	case <-l.done:
		return nil, net.ErrClosed
	}
}

// Close closes the listener itself too.
func (l *frontListener) Close() error {
	l.once.Do(func() { close(l.done) })
	return l.stop()
}

// give hands a connection on, or closes it if the server has ended.
func (l *frontListener) give(conn net.Conn) {
	l.add(1)
	select {
	case l.conns <- conn:
	case <-l.done:
		l.add(-1)
		_ = conn.Close()
	}
}

// handedConn is a connection of which something was read already.
type handedConn struct {
	net.Conn
	before []byte // what was read; only the one reader of a connection uses it
	paid   bool   // its first request was charged to its address
}

// Read returns first what was read before.
func (c *handedConn) Read(to []byte) (int, error) {
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

// payment says what the front has already charged for a request.
type payment struct {
	address   atomic.Bool // false: still to be taken into account, once
	operation bool
	caller    *frontCaller // whose token was checked; nil: it is still to be checked
}

type paymentKey struct{}

// chargeAddress charges a request to its address, unless the front has done so.
func (q *queries) chargeAddress(ctx context.Context, address string) error {
	if paid, ok := ctx.Value(paymentKey{}).(*payment); ok && !paid.address.Swap(true) {
		return nil
	}
	return q.cfg.Limits.Address(address)
}

// chargedOperation reports whether the front has charged the operation.
func chargedOperation(ctx context.Context) bool {
	paid, ok := ctx.Value(paymentKey{}).(*payment)
	return ok && paid.operation
}

// as is the caller with the bearer of a token.
func (c caller) as(viewer services.Viewer, expires time.Time, cfg Config) caller {
	if viewer.Has(services.ScopeIngest) {
		c.limit = cfg.IngestBodyLimit
	}
	c.ctx, c.expires = services.WithViewer(c.ctx, viewer), expires
	return c
}
