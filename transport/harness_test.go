package transport

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"regexp"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/gorilla/websocket"
	"github.com/vektah/gqlparser/v2/gqlerror"
	"go.uber.org/goleak"

	"tidings/services"
)

func TestMain(m *testing.M) {
	if address := os.Getenv(measuredServerEnvVariable); address != "" {
		runMeasuredClients(address) // see memory_test.go: this process runs the clients of a measurement
		return
	}
	goleak.VerifyTestMain(m)
}

// pipeListener is a network in memory, so that a test can run in a synctest bubble.
type pipeListener struct {
	serverConns chan net.Conn // the server's ends of new connections
	closed      chan struct{} // closed by Close
	once        sync.Once     // for the close of closed
}

func newPipeListener() *pipeListener {
	return &pipeListener{serverConns: make(chan net.Conn), closed: make(chan struct{})}
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.serverConns:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.IPAddr{} }

// dial makes a connection and returns the client's end. Its parameters are those of a network function.
func (l *pipeListener) dial(context.Context, string, string) (net.Conn, error) {
	client, server := net.Pipe()
	select {
	case l.serverConns <- &peekedConn{Conn: server}:
		return client, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// socketFixture is a server with sockets, and its clients, mostly in a synctest bubble, where time passes only when all goroutines
// wait.
type socketFixture struct {
	*testing.T
	schema          *testSchema
	sockets         *Sockets
	identity        *Identity
	listener        *pipeListener
	dialContext     func(ctx context.Context, network, address string) (net.Conn, error) // where clients dial
	server          *http.Server
	usesInputPoller bool // an inputPoller watches the waiting sockets, which have no goroutine
}

// runWithAndWithoutPoller runs a test in two new fixtures: in one each waiting socket has a goroutine, and in the other an inputPoller
// watches the waiting sockets. It checks that no goroutine, socket or inputWatch is left.
func runWithAndWithoutPoller(t *testing.T, change func(*SocketConfig), test func(w *socketFixture)) {
	t.Helper()
	for _, watched := range []bool{false, true} {
		t.Run(fmt.Sprint("watched=", watched), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newSocketFixture(t, change)
				var watches peekingPoller
				if w.usesInputPoller = watched; watched {
					w.sockets.inputPoller = &watches
				}
				test(w)
				w.shutDownAndCheckLeaks()
				if left := watches.watchCount.Load(); left > 0 {
					t.Errorf("%d watches are left", left)
				}
			})
		})
	}
}

// newTCPFixture makes a fixture whose clients come over TCP, in real time.
func newTCPFixture(t *testing.T) *socketFixture {
	t.Helper()
	w := newSocketFixture(t, nil)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	w.dialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, network, listener.Addr().String())
	}
	server := &http.Server{Handler: w.server.Handler}
	go server.Serve(listener)
	t.Cleanup(func() {
		w.server.Close()
		w.listener.Close()
		server.Close()
	})
	return w
}

// newSocketFixture starts a server with a configuration of sockets that change may alter.
func newSocketFixture(t *testing.T, change func(*SocketConfig)) *socketFixture {
	t.Helper()
	identity, err := NewIdentity(t.Context(), IdentityConfig{Development: true})
	if err != nil {
		t.Fatal(err)
	}
	schema := newTestSchema()
	cfg := SocketConfig{Identity: identity, WithWakeConsumer: withWakeConsumer, WakingFields: testWakingFields, Log: discardLog}
	if change != nil {
		change(&cfg)
	}
	w := &socketFixture{T: t, schema: schema, sockets: NewSockets(cfg), identity: cfg.Identity, listener: newPipeListener()}
	w.dialContext = w.listener.dial
	w.server = &http.Server{
		Handler:  Handler(Config{Schema: schema, Identity: cfg.Identity, Sockets: w.sockets, ErrorPresenter: presentErrorWithCode, Recover: recoverWithoutLog, Log: discardLog, RequestSettings: RequestSettings{MaxPersistedQueryBytes: 1 << 20}}),
		ErrorLog: slog.NewLogLogger(discardLog.Handler(), slog.LevelError),
	}
	go w.server.Serve(w.listener)
	return w
}

// discardLog is a log that nobody reads.
var discardLog = slog.New(slog.NewTextHandler(io.Discard, nil))

// presentErrorWithCode stands in for the error presenter of the program.
func presentErrorWithCode(ctx context.Context, err error) *gqlerror.Error {
	shown := graphql.DefaultErrorPresenter(ctx, err)
	if known, ok := errors.AsType[*services.Error](err); ok {
		shown.Extensions = known.Extensions()
	}
	return shown
}

// recoverWithoutLog stands in for the program's function that turns a panic into an error. It logs nothing.
func recoverWithoutLog(context.Context, any) error {
	return services.Errorf(services.Internal, "an error on our side")
}

// shutDownAndCheckLeaks drains and stops the server, and checks that nothing is left.
func (w *socketFixture) shutDownAndCheckLeaks() {
	w.Helper()
	w.sockets.Drain(w.Context(), 0)
	w.server.Close()
	w.listener.Close()
	synctest.Wait()
	if stats := w.sockets.Stats(); stats.Open != 0 || stats.Streams != 0 || stats.Operations != 0 {
		w.Errorf("after the end: %d sockets, %d event streams and %d operations are left", stats.Open, stats.Streams, stats.Operations)
	}
	if n := w.schema.hub.countWatchers(); n != 0 {
		w.Errorf("after the end: the hub has %d watchers left", n)
	}
}

// socketClient is a socket's client that reads all the time, as a browser does.
type socketClient struct {
	*testing.T
	conn            *websocket.Conn
	keepsRequestIDs bool                       // keep the request IDs in received messages
	received        chan string                // the messages that have come
	closed          chan *websocket.CloseError // one value, when the connection has ended
}

// connect opens a socket without sending a message.
func (w *socketFixture) connect() *socketClient {
	w.Helper()
	return w.connectWith(http.Header{}, webSocketSubprotocol)
}

// connectWith opens a socket with headers and subprotocols of the test's choice, without sending a message.
func (w *socketFixture) connectWith(header http.Header, protocols ...string) *socketClient {
	w.Helper()
	conn, err := w.dial(header, protocols...)
	if err != nil {
		w.Fatalf("dial: %v", err)
	}
	return newSocketClient(w.T, conn)
}

// dial opens a socket; the error is an *upgradeRefusal if the server answered with a status.
func (w *socketFixture) dial(header http.Header, protocols ...string) (*websocket.Conn, error) {
	dialer := websocket.Dialer{NetDialContext: w.dialContext, Subprotocols: protocols}
	conn, response, err := dialer.DialContext(w.Context(), "ws://tidings.test/graphql", header)
	if err != nil && response != nil {
		return nil, &upgradeRefusal{status: response.StatusCode, header: response.Header}
	}
	return conn, err
}

// upgradeRefusal is the error of an upgrade that was answered with a status.
type upgradeRefusal struct {
	status int
	header http.Header
}

func (r *upgradeRefusal) Error() string { return http.StatusText(r.status) }

// newSocketClient makes a client of an open socket, and begins to read.
func newSocketClient(t *testing.T, conn *websocket.Conn) *socketClient {
	c := &socketClient{T: t, conn: conn, received: make(chan string, 1000), closed: make(chan *websocket.CloseError, 1)}
	go c.readMessages()
	return c
}

// readMessages receives messages until the connection ends.
func (c *socketClient) readMessages() {
	for {
		_, text, err := c.conn.ReadMessage()
		if err != nil {
			var closing *websocket.CloseError
			if !errors.As(err, &closing) {
				closing = &websocket.CloseError{Code: websocket.CloseAbnormalClosure, Text: err.Error()}
			}
			c.closed <- closing
			c.conn.Close()
			return
		}
		if !c.keepsRequestIDs {
			text = []byte(withoutRequestIDs(string(text)))
		}
		c.received <- string(text)
	}
}

// openSocket opens a socket and initializes it, with a token of development mode if key is not "".
func (w *socketFixture) openSocket(key string) *socketClient {
	w.Helper()
	c := w.connect()
	if key == "" {
		c.send(`{"type":"connection_init"}`)
	} else {
		c.send(`{"type":"connection_init","payload":{"authorization":"Bearer dev:` + key + `"}}`)
	}
	c.expectMessage(`{"type":"connection_ack"}`)
	return c
}

func (c *socketClient) send(text string) {
	c.Helper()
	if err := c.conn.WriteMessage(websocket.TextMessage, []byte(text)); err != nil {
		c.Fatalf("send: %v", err)
	}
}

func (c *socketClient) subscribe(id, query string) {
	c.Helper()
	payload, err := json.Marshal(map[string]string{"query": query})
	if err != nil {
		c.Fatal(err)
	}
	c.send(`{"type":"subscribe","id":"` + id + `","payload":` + string(payload) + `}`)
}

// nextMessage returns the next message. In a synctest bubble a wait for a message that cannot come takes no real time.
func (c *socketClient) nextMessage() string {
	c.Helper()
	select {
	case text := <-c.received:
		return text
	case closing := <-c.closed:
		c.closed <- closing
		c.Fatalf("the socket was closed with %d %q", closing.Code, closing.Text)
	case <-time.After(time.Minute):
		c.Fatal("no message within a minute")
	}
	return ""
}

// expectMessage fails the test unless the next message is want.
func (c *socketClient) expectMessage(want string) {
	c.Helper()
	if got := c.nextMessage(); got != want {
		c.Fatalf("got  %s\nwant %s", got, want)
	}
}

// expectNothing fails the test if a message has arrived or is on its way, or if the socket was closed.
func (c *socketClient) expectNothing() {
	c.Helper()
	synctest.Wait()
	select {
	case text := <-c.received:
		c.Fatalf("unexpected: %s", text)
	case closing := <-c.closed:
		c.Fatalf("the socket was closed with %d %q", closing.Code, closing.Text)
	default:
	}
}

// expectClose waits for the end of the socket and compares the code.
func (c *socketClient) expectClose(code int) *websocket.CloseError {
	c.Helper()
	select {
	case closing := <-c.closed:
		c.closed <- closing
		if closing.Code != code {
			c.Fatalf("closed with %d %q, want %d", closing.Code, closing.Text, code)
		}
		return closing
	case <-time.After(time.Minute):
		c.Fatalf("not closed within a minute, want %d", code)
	}
	return nil
}

// requestIDFieldPattern matches the request IDs that the server made, in errors.
var requestIDFieldPattern = regexp.MustCompile(`,?"requestId":"[A-Z2-7]{26}"`)

// withoutRequestIDs returns a text without the request IDs that the server made.
func withoutRequestIDs(text string) string { return requestIDFieldPattern.ReplaceAllString(text, "") }

// fixedClock is a clock that stands still until it is moved.
type fixedClock struct {
	mu  sync.Mutex // guards now
	now time.Time
}

func (c *fixedClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// advance moves the clock forward.
func (c *fixedClock) advance(by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(by)
}

// passTime waits for d. In a synctest bubble that takes no real time.
func passTime(d time.Duration) { <-time.After(d) }
