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
)

// Quick appends the data of the answer to one operation without variables. It returns to and false if it cannot: the executor
// then answers, with every error. The context has the viewer. What it appends before it gives up is dropped.
type Quick = func(ctx context.Context, to []byte) ([]byte, bool)

// QuickSchema is a schema that answers some operations without the executor. Such an answer must be the executor's, byte for
// byte, because the same request gets one or the other.
type QuickSchema interface {
	// Quick returns nil for an operation that needs the executor.
	// The result is kept with the bytes of the request, and is called for every viewer who sends them.
	Quick(operation *ast.OperationDefinition) Quick
}

// Front serves a listener. It answers the most frequent requests itself, which are plain in every respect: POST /graphql by
// HTTP/1.1 with headers that mean nothing special, a short body, a good token, and an operation of a QuickSchema. Any other
// request it hands to the HTTP server, with its connection and all that was read from it: whatever is unusual, malformed, slow or
// refused is answered there. Then the connection returns: a proxy sends the requests of many clients over it, and most of them are
// plain. Both apply the same checks and limits, and send the same headers.
//
// Serving a busy connection that asks for one thing again and again is a loop's work, which answers many of them with one read:
// see frontLoops. Any other connection has a goroutine.
//
// It exists for its speed: net/http and the executor take most of the time of a request for badges. What a plain request means
// follows from its bytes alone, so two memories know heads and bodies that were seen before, and the answer is rendered
// into one buffer and written once. Whoever adds a check to queries.Do adds it to readHead or answer too; the test
// TestFrontAnswersAsTheServerDoes sends both the same bytes.
type Front struct {
	// These are set once and never change. Without quick, all connections go to next.
	next     *http.Server
	queries  *queries
	handler  http.Handler
	quick    QuickSchema
	loops    *frontLoops // nil: each connection has a goroutine
	loopback bool
	// A head is remembered with its viewer once the token is known to be good; it is looked up by all of its bytes.
	heads    *textMemory[*head]
	requests *textMemory[*knownRequest]
	pause    time.Duration // the longest wait for the rest of a request

	// Atomic, because each request reads them. Drain sets the first, Shutdown the second, and nothing resets either.
	draining atomic.Bool // each answer is the last one of its connection
	endsIdle atomic.Bool // connections without a request are closed

	// Guarded by mu. A connection is in conns or counts in handed, from the moment that it is accepted until it is closed or
	// hijacked, and never in neither: Shutdown would end too early.
	mu        sync.Mutex
	conns     map[*frontConn]struct{}
	handed    int // connections of the HTTP server
	listeners []*frontListener
	idleUntil time.Time     // until when idle connections stay open while draining
	closing   bool          // no connection is taken
	empty     chan struct{} // closed when no connection of the front is left after closing; nil until then
	quiet     chan struct{} // closed when the HTTP server has none either
}

const (
	// A head takes about 3 KB with the copies of its text, so this is some 5,000 clients. The token of a client whose head was
	// forgotten is verified again.
	headsBytes = 16 << 20 // of remembered heads with their viewers
	// Only the texts of bodies are counted. Applications send few different ones without variables, so this is ample.
	requestsBytes = 256 << 10
	frontPath     = "/graphql"
)

// NewFront makes the front of a server. handler is what Handler has made, next serves it at /graphql. loopback applies what
// LoopbackOnly checks. Without a QuickSchema, or with a handler around it, all connections are handed on. It sets three fields
// of next, which must not serve anything before.
func NewFront(handler http.Handler, next *http.Server, loopback bool) *Front {
	f := &Front{
		next: next, handler: handler, loopback: loopback, conns: map[*frontConn]struct{}{},
		heads: newTextMemory[*head](headsBytes), requests: newTextMemory[*knownRequest](requestsBytes), pause: next.ReadHeaderTimeout / 10,
	}
	if endpoint, ok := handler.(*endpoint); ok {
		f.queries = endpoint.queries
		f.quick, _ = endpoint.queries.cfg.Schema.(QuickSchema)
		if joint, ok := f.quick.(JointSchema); ok {
			f.loops = newFrontLoops(f, joint)
		}
	}
	// The HTTP server's side of a drain, of the count of connections, and of what the front has charged already.
	next.Handler = f.closeWhenDraining(next.Handler)
	next.ConnState = f.count
	next.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
		if handed, ok := conn.(*handedConn); ok && handed.paid {
			return context.WithValue(ctx, paymentKey{}, new(payment))
		}
		return ctx
	}
	return f
}

// closeWhenDraining makes the HTTP server's answers the last ones of their connections during a drain. net/http does so by itself only
// once Shutdown was called, and that is after the sockets have been drained.
func (f *Front) closeWhenDraining(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if f.draining.Load() {
			w.Header().Set("Connection", "close")
		}
		handler.ServeHTTP(w, r)
	})
}

// Serve serves the connections of a listener until it is closed. The error is that of the HTTP server. It may be called for
// several listeners, and starts one goroutine for each, and one for each connection that is not in a loop.
func (f *Front) Serve(listener net.Listener) error {
	// The HTTP server sees a listener that yields only what the front hands on.
	handed := &frontListener{
		Listener: listener, conns: make(chan net.Conn), failed: make(chan error, 1), done: make(chan struct{}), stop: sync.OnceValue(listener.Close), add: f.add,
	}
	f.mu.Lock()
	f.listeners = append(f.listeners, handed)
	f.mu.Unlock()
	go f.accept(handed)
	return f.next.Serve(handed)
}

// accept takes connections until the listener fails or is closed. Each gets a goroutine of its own, unless the front hands all of
// them on.
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
			// An error ends Serve, as it would without a front.
			if !f.draining.Load() { // Drain has closed the listener, and the HTTP server may still be handed connections
				from.failed <- err
			}
			return
		}
		// A connection came, so the shortage of files is over.
		wait = 0
		if f.quick == nil { // also then a drain must end the listener and count the connections
			from.give(&handedConn{Conn: conn})
			continue
		}
		if !f.take(&frontConn{front: f, conn: conn, to: from}, nil) {
			_ = conn.Close() // the server has ended
		}
	}
}

// take serves a connection of which something was read; false if the server has ended.
func (f *Front) take(one *frontConn, before []byte) bool {
	if !f.enter(one) {
		return false
	}
	go one.serve(nil, before)
	return true
}

// enter registers a connection, unless the server is ending: after close has looked at all connections, none may follow.
func (f *Front) enter(one *frontConn) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closing {
		return false
	}
	f.conns[one] = struct{}{}
	return true
}

// leave forgets a connection that was closed or handed on.
func (f *Front) leave(one *frontConn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.conns, one)
	f.signalWaiters()
}

// signalWaiters closes the channels of whoever waits for the end of the connections, once each. The caller holds the lock. A nil channel
// means that nobody waits, or that they have been told.
func (f *Front) signalWaiters() {
	if f.empty != nil && len(f.conns) == 0 {
		close(f.empty)
		f.empty = nil
	}
	if f.quiet != nil && len(f.conns)+f.handed == 0 {
		close(f.quiet)
		f.quiet = nil
	}
}

// count counts the connections of the HTTP server. Those that are handed on count before they leave the front, in give, so their
// first state is not counted again, and they learn here that they were answered. A hijacked connection belongs to Sockets, which
// drains it.
func (f *Front) count(conn net.Conn, state http.ConnState) {
	one, handed := conn.(*handedConn)
	switch {
	case state == http.StateNew && !handed:
		f.add(1)
	case state == http.StateClosed || state == http.StateHijacked:
		f.add(-1)
	}
	if handed {
		one.became(state)
	}
}

// add changes the number of connections of the HTTP server.
func (f *Front) add(handed int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.handed += handed
	f.signalWaiters()
}

// Drain takes no more connections, so that a proxy, whose request has not left yet, turns to another node, and says with each
// answer from now on that its connection ends. A request may be on its way on an idle connection, and its client could not know
// whether it was carried out: Shutdown closes none earlier than idle after the first Drain. A second call does nothing.
func (f *Front) Drain(idle time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.draining.CompareAndSwap(false, true) {
		return
	}
	f.idleUntil = time.Now().Add(idle)
	for _, one := range f.listeners {
		_ = one.stop()
	}
}

// Shutdown drains, closes idle connections in time, and waits until the requests have been answered or ctx has ended, also those
// of the HTTP server. If ctx ends first, it cuts the connections of the front and returns the error of ctx.
func (f *Front) Shutdown(ctx context.Context) error {
	f.Drain(0)
	f.mu.Lock()
	// First the time in which idle connections may still be used, unless all of them end by themselves.
	f.quiet = make(chan struct{})
	quiet, last := f.quiet, time.NewTimer(time.Until(f.idleUntil))
	f.signalWaiters()
	f.mu.Unlock()
	defer last.Stop()
	select {
	case <-quiet:
	case <-ctx.Done():
	case <-last.C:
	}
	// From here on, a connection ends with its present request. Those without one are closed now.
	f.endsIdle.Store(true)
	select {
	case <-f.close((*frontConn).closeIdle):
	case <-ctx.Done():
		f.close((*frontConn).cut)
		return errors.Join(f.next.Shutdown(ctx), ctx.Err())
	}
	return f.next.Shutdown(ctx) // the last, because connections of the front may be handed on until they end
}

// Close ends all connections at once, also those of the HTTP server. Requests that are being answered are lost.
func (f *Front) Close() error {
	f.close((*frontConn).cut)
	return f.next.Close()
}

// close refuses new connections and calls end for the present ones, under the lock, so that none is missed. The channel is
// closed when none is left. A second call waits for the same channel.
func (f *Front) close(end func(*frontConn)) (left <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	// From here on enter refuses, so the list only becomes shorter.
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
