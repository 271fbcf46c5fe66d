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

// HotAnswerFunc appends the data of the answer to one operation with its variables. If it cannot, it returns the buffer and false:
// bytes that it has appended are dropped, and the executor answers, with all errors. The context has the viewer.
type HotAnswerFunc = func(ctx context.Context, to []byte) ([]byte, bool)

// HotSchema is a schema that answers some operations without the executor. Such an answer must equal the executor's byte for
// byte, because either may answer the same request.
type HotSchema interface {
	// HotAnswer returns nil for an operation that needs the executor. variables are as the executor would have read them, and are
	// not changed. The Front keeps the result with the bytes of the request's body, and calls it for every viewer who sends these
	// bytes.
	HotAnswer(operation *ast.OperationDefinition, variables map[string]any) HotAnswerFunc
}

// Front serves a listener. It answers plain requests itself: POST /graphql by HTTP/1.1 with headers of no special meaning, a
// short body, a good token and a query. It answers an operation of a HotSchema without the executor, and other queries by the
// executor. It hands the connection of any other request to the HTTP server, with all that was read from it: unusual, malformed
// and slow requests are answered there. Then the connection returns, because a proxy sends the requests of many clients over it,
// and most of them are plain. Front and HTTP server apply the same checks and limits, and send the same headers.
//
// Busy connections that send the same kind of request again and again are served by a loop, which answers many connections with
// one read: see frontLoops. Any other connection has a goroutine.
//
// Front exists for speed: net/http and the executor take most of the time of a request for badges. The meaning of a plain request
// follows from its bytes alone, so Front remembers heads and bodies that it has seen, renders the answer into one buffer and
// writes it once. A check that is added to httpTransport.Do must be added to readHead or answer too; TestFrontAnswersAsTheServerDoes
// sends the same bytes to both.
type Front struct {
	// These are set once and never change. Without hotSchema, all connections go to httpServer.
	httpServer    *http.Server   // the HTTP server: it serves what the front does not
	httpTransport *httpTransport // what handler serves with; the front uses its checks and limits
	handler       http.Handler   // what httpServer serves at /graphql
	hotSchema     HotSchema      // nil: the front answers nothing itself
	loops         *frontLoops    // nil: each connection has a goroutine
	loopbackOnly  bool           // it applies the checks of LoopbackOnly
	// requestHeads has the heads of requests whose tokens were verified, with their viewers, by all bytes of a head.
	requestHeads     *textCache[*requestHead]
	parsedBodies     *textCache[*parsedBody] // by the bytes of a body
	slowRequestAfter time.Duration           // the longest wait for the rest of a request; one that takes longer is slow

	// Atomic, because each request reads them. Drain sets draining, Shutdown sets closesIdleConns, and neither is ever reset.
	draining        atomic.Bool // each answer is the last one of its connection
	closesIdleConns atomic.Bool // connections without a request are closed

	// Guarded by mu. From its accept until it is closed or hijacked, a connection is in conns or counts in httpServerConns at every
	// moment. Otherwise Shutdown could end too early.
	mu                 sync.Mutex
	conns              map[*frontConn]struct{}
	httpServerConns    int              // connections of the HTTP server
	listeners          []*frontListener // of all calls of Serve
	keepIdleConnsUntil time.Time        // until when idle connections stay open while draining
	closing            bool             // new connections are refused
	frontConnsEnded    chan struct{}    // closed when conns is empty; nil unless a call of closeConns waits for that
	allConnsEnded      chan struct{}    // closed when the HTTP server has no connection either; nil unless Shutdown waits for that
}

const (
	// A head takes about 3 KB with the copies of its text, so this is enough for some 5,000 clients. If a head was forgotten, its
	// token is verified again.
	maxRequestHeadsBytes = 16 << 20 // of remembered heads with their viewers
	// Applications send few different bodies but for cursors and IDs, and a body with these in its variables is not remembered. So this
	// is ample, although a document counts for each of its bodies.
	maxParsedBodiesBytes    = 8 << 20    // of remembered bodies with their documents
	parsedBodyOverheadBytes = 512        // of a remembered body beside its text and document
	frontPath               = "/graphql" // the path of plain requests
)

// NewFront makes the front of the HTTP server next, which serves handler at /graphql. loopback applies the checks of
// LoopbackOnly. If handler is not the result of Handler itself, or its schema is no HotSchema, all connections are handed to
// next. NewFront sets three fields of next, which must not serve anything before.
func NewFront(handler http.Handler, next *http.Server, loopback bool) *Front {
	f := &Front{
		httpServer: next, handler: handler, loopbackOnly: loopback, conns: map[*frontConn]struct{}{},
		requestHeads: newTextCache[*requestHead](maxRequestHeadsBytes), parsedBodies: newTextCache[*parsedBody](maxParsedBodiesBytes), slowRequestAfter: next.ReadHeaderTimeout / 10,
	}
	if endpoint, ok := handler.(*endpoint); ok {
		f.httpTransport = endpoint.httpTransport
		f.hotSchema, _ = endpoint.httpTransport.cfg.Schema.(HotSchema)
		if joint, ok := f.hotSchema.(JointSchema); ok {
			f.loops = newFrontLoops(f, joint)
		}
	}
	// Through these hooks the HTTP server takes part in a drain, counts its connections, and learns of charges that the front has
	// made.
	next.Handler = f.closeWhenDraining(next.Handler)
	next.ConnState = f.trackServerState
	next.ConnContext = func(ctx context.Context, conn net.Conn) context.Context {
		if handed, ok := conn.(*handedConn); ok && handed.addressCharged {
			return context.WithValue(ctx, frontChargesKey{}, new(frontCharges))
		}
		return ctx
	}
	return f
}

// closeWhenDraining makes the HTTP server's answers the last ones of their connections during a drain. net/http does so only
// after Shutdown was called, and that is after the sockets have been drained.
func (f *Front) closeWhenDraining(handler http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if f.draining.Load() {
			w.Header().Set("Connection", "close")
		}
		handler.ServeHTTP(w, r)
	})
}

// Serve serves the connections of a listener until it is closed. It returns the error of the HTTP server. Serve may be called for
// several listeners. It starts one goroutine for each listener, and one for each connection that is not in a loop.
func (f *Front) Serve(listener net.Listener) error {
	// The HTTP server sees a listener that yields only the connections that the front hands on.
	handed := &frontListener{
		Listener: listener, conns: make(chan net.Conn), acceptErr: make(chan error, 1), done: make(chan struct{}), stop: sync.OnceValue(listener.Close), addHTTPServerConns: f.addHTTPServerConns,
	}
	f.mu.Lock()
	f.listeners = append(f.listeners, handed)
	f.mu.Unlock()
	go f.accept(handed)
	return f.httpServer.Serve(handed)
}

// accept takes connections until the listener fails or is closed. Each gets a goroutine of its own, unless the front hands all of
// them on.
func (f *Front) accept(from *frontListener) {
	const longest = time.Second // the longest wait before another try
	wait := time.Duration(0)
	for {
		conn, err := from.Listener.Accept()
		if temporary, ok := err.(interface{ Temporary() bool }); ok && temporary.Temporary() { // no file descriptor is free: wait, as the HTTP server does
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
				from.acceptErr <- err
			}
			return
		}
		// A connection came, so the shortage of file descriptors is over.
		wait = 0
		if f.hotSchema == nil { // without hotSchema, the front only ends the listener in a drain and counts the connections
			from.passToHTTPServer(&handedConn{Conn: conn})
			continue
		}
		if !f.startServing(&frontConn{front: f, conn: conn, listener: from}, nil) {
			_ = conn.Close() // the server has ended
		}
	}
}

// startServing serves a connection in a new goroutine; before has the bytes that were read from it already. It returns false if the
// server has ended.
func (f *Front) startServing(one *frontConn, before []byte) bool {
	if !f.addConn(one) {
		return false
	}
	go one.serve(nil, before)
	return true
}

// addConn registers a connection, unless the server is ending: no connection may be added after closeConns has visited all of them.
func (f *Front) addConn(one *frontConn) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.closing {
		return false
	}
	f.conns[one] = struct{}{}
	return true
}

// removeConn forgets a connection that was closed or handed on.
func (f *Front) removeConn(one *frontConn) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.conns, one)
	f.signalConnsEnded()
}

// signalConnsEnded closes frontConnsEnded and allConnsEnded, once each, when the connections that they stand for have ended. The
// caller holds the lock. A nil channel means that nobody waits, or that the channel was closed.
func (f *Front) signalConnsEnded() {
	if f.frontConnsEnded != nil && len(f.conns) == 0 {
		close(f.frontConnsEnded)
		f.frontConnsEnded = nil
	}
	if f.allConnsEnded != nil && len(f.conns)+f.httpServerConns == 0 {
		close(f.allConnsEnded)
		f.allConnsEnded = nil
	}
}

// trackServerState counts the connections of the HTTP server. A connection that is handed on was counted by passToHTTPServer,
// before it left the front, so its StateNew is not counted. trackServerState passes each state to a handed connection by
// setServerState. A hijacked connection belongs to Sockets, which drains it.
func (f *Front) trackServerState(conn net.Conn, state http.ConnState) {
	one, handed := conn.(*handedConn)
	switch {
	case state == http.StateNew && !handed:
		f.addHTTPServerConns(1)
	case state == http.StateClosed || state == http.StateHijacked:
		f.addHTTPServerConns(-1)
	}
	if handed {
		one.setServerState(state)
	}
}

// addHTTPServerConns adds handed to the number of connections of the HTTP server. handed is negative for connections that have left it.
func (f *Front) addHTTPServerConns(handed int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.httpServerConns += handed
	f.signalConnsEnded()
}

// Drain accepts no more connections, so that a proxy that wants to open one turns to another node. From then on each answer says that
// its connection ends. A connection without a request stays open for at least the duration idle from now, also during Shutdown: a
// request may be on its way to it, and if it were closed, the client could not know whether its request was executed. A second call
// does nothing.
func (f *Front) Drain(idle time.Duration) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if !f.draining.CompareAndSwap(false, true) {
		return
	}
	f.keepIdleConnsUntil = time.Now().Add(idle)
	for _, one := range f.listeners {
		_ = one.stop()
	}
}

// Shutdown drains, closes idle connections after their time, and waits until all requests, including requests at the HTTP server,
// have been answered or ctx has ended. If ctx ends first, it cuts the connections of the front and returns the error of ctx.
func (f *Front) Shutdown(ctx context.Context) error {
	f.Drain(0)
	f.mu.Lock()
	// Idle connections may still be used until keepIdleConnsUntil. The wait is over earlier if all connections end by themselves.
	f.allConnsEnded = make(chan struct{})
	allEnded, last := f.allConnsEnded, time.NewTimer(time.Until(f.keepIdleConnsUntil))
	f.signalConnsEnded()
	f.mu.Unlock()
	defer last.Stop()
	select {
	case <-allEnded:
	case <-ctx.Done():
	case <-last.C:
	}
	// From here on, a connection ends with its present request. Connections without a request are closed now.
	f.closesIdleConns.Store(true)
	select {
	case <-f.closeConns((*frontConn).closeIfIdle):
	case <-ctx.Done():
		f.closeConns((*frontConn).abort)
		return errors.Join(f.httpServer.Shutdown(ctx), ctx.Err())
	}
	return f.httpServer.Shutdown(ctx) // after the front's own connections, because these may be handed on until they end
}

// Close ends all connections at once, including the connections of the HTTP server. Requests that are being answered are lost.
func (f *Front) Close() error {
	f.closeConns((*frontConn).abort)
	return f.httpServer.Close()
}

// closeConns refuses new connections and calls end for the present ones, under the lock, so that none is missed. The channel is closed
// when no connection is left. A second call returns the same channel while connections are left.
func (f *Front) closeConns(end func(*frontConn)) (left <-chan struct{}) {
	f.mu.Lock()
	defer f.mu.Unlock()
	// From here on addConn refuses connections, so conns only becomes smaller.
	f.closing = true
	waiting := f.frontConnsEnded
	if waiting == nil {
		waiting = make(chan struct{})
		if len(f.conns) == 0 {
			close(waiting)
		} else {
			f.frontConnsEnded = waiting
		}
	}
	for one := range f.conns {
		end(one)
	}
	return waiting
}
