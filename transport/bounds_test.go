package transport

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/99designs/gqlgen/graphql"
	"github.com/99designs/gqlgen/graphql/handler"

	"tidings/services"
)

// An answer to a query or a mutation that is too long, by its data or its errors, is replaced by an error, over HTTP and over
// sockets.
func TestLongAnswersAreRefusedWhole(t *testing.T) {
	const limit = 2000
	expect := func(t *testing.T, text, advice string) {
		t.Helper()
		if len(text) > 300 || strings.Contains(text, "xxx") || !strings.Contains(text, fmt.Sprintf("up to %d are allowed: %s", limit, advice)) || !strings.Contains(text, `"INVALID"`) {
			t.Errorf("%.400s", text)
		}
	}
	long, fits := strings.Repeat("x", limit), strings.Repeat("x", limit-len(`{"echo":""}`))
	handler := newDevelopmentHandler(t, func(cfg *Config) { cfg.MaxAnswerBytes = limit })
	if got := postQuery(t, handler, `{echo(text:"`+fits+`")}`); len(got.parsed.Errors) > 0 {
		t.Errorf("at the limit: %.300s", got.body)
	}
	got := postQuery(t, handler, `{echo(text:"`+fits+`x")}`)
	expect(t, got.body, "ask for fewer fields")
	if strings.Contains(got.body, `"data"`) || got.status != http.StatusOK {
		t.Errorf("%d %s", got.status, got.body)
	}
	expect(t, postQuery(t, handler, `mutation{set(text:"`+long+`")}`).body, "the mutation has been executed")
	expect(t, postQuery(t, newManyErrorsHandler(t, limit), "{hello}").body, "ask for fewer fields")

	runWithAndWithoutPoller(t, func(cfg *SocketConfig) { cfg.MaxAnswerBytes = limit }, func(w *socketFixture) {
		c := w.openSocket("alice")
		c.subscribe("q", `{echo(text:"`+long+`")}`)
		text := c.nextMessage()
		expect(w.T, text, "ask for fewer fields")
		if !strings.HasPrefix(text, `{"type":"error","id":"q"`) {
			t.Errorf("%s", text)
		}
		c.subscribe("m", `mutation{set(text:"`+long+`")}`)
		expect(w.T, c.nextMessage(), "the mutation has been executed")
		c.subscribe("q", "{hello}") // the ID is free and the socket still works
		c.expectMessage(`{"type":"next","id":"q","payload":{"data":{"hello":"world"}}}`)
		c.expectMessage(`{"type":"complete","id":"q"}`)
	})
}

// newManyErrorsHandler makes a handler with the limit MaxAnswerBytes, whose answers have little data and long errors.
func newManyErrorsHandler(t *testing.T, limit int) http.Handler {
	return newDevelopmentHandler(t, func(cfg *Config) {
		cfg.MaxAnswerBytes = limit
		cfg.AddMiddleware = func(server *handler.Server) {
			server.AroundResponses(func(ctx context.Context, next graphql.ResponseHandler) *graphql.Response {
				response := next(ctx)
				for range 30 {
					response.Errors = append(response.Errors, asList(services.Errorf(services.NotFound, "one of %s", strings.Repeat("many ", 15)))...)
				}
				return response
			})
		}
	})
}

// An event that is too long ends its subscription with the error. This holds for a field whose subscription has no goroutine and is
// woken for each event (ticks, see SocketConfig.WithWakeConsumer), and for one that has a goroutine (plain).
func TestLongEventsEndTheirSubscription(t *testing.T) {
	for _, field := range []string{"ticks", "plain"} {
		runWithAndWithoutPoller(t, func(cfg *SocketConfig) { cfg.MaxAnswerBytes = len(`{"ticks":1234}`) }, func(w *socketFixture) {
			c := w.openSocket("alice")
			c.subscribe("1", "subscription { "+field+" }")
			synctest.Wait()
			w.schema.hub.publish(1234)
			c.expectMessage(strings.Replace(tickMessage("1", 1234), "ticks", field, 1))
			w.schema.hub.publish(12345)
			if got := c.nextMessage(); !strings.HasPrefix(got, `{"type":"error","id":"1"`) || !strings.Contains(got, "15 bytes, up to 14 are allowed") {
				t.Errorf("%s: %s", field, got)
			}
			c.expectNothing()
		})
	}
}

// A client that does not read its answer is disconnected after the write timeout. At most maxSmallAnswerBytes bytes can be read
// after that.
func TestAnUnreadAnswerIsCutOff(t *testing.T) {
	runWithAndWithoutPoller(t, nil, func(w *socketFixture) {
		conn, err := w.listener.dial(w.Context(), "", "")
		if err != nil {
			t.Fatal(err)
		}
		body := `{"query":"{echo(text:\"` + strings.Repeat("x", 2*maxSmallAnswerBytes) + `\")}"}`
		start := time.Now()
		go fmt.Fprintf(conn, "POST /graphql HTTP/1.1\r\nHost: tidings.test\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
		reader := bufio.NewReader(conn)
		if line, err := reader.ReadString('\n'); err != nil || !strings.Contains(line, "200") {
			t.Fatalf("%q %v", line, err)
		}
		passTime(time.Minute) // while the client does not read
		rest, err := io.ReadAll(reader)
		if len(rest) > maxSmallAnswerBytes || err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("after %v: %d bytes were still to be had, error %v", time.Since(start), len(rest), err)
		}
	})
}

// fakeAddressConn is a connection from an address of the test's choice.
type fakeAddressConn struct {
	net.Conn
	remoteAddress string // what RemoteAddr returns
}

func (a fakeAddressConn) RemoteAddr() net.Addr {
	return net.TCPAddrFromAddrPort(must(netip.ParseAddrPort(a.remoteAddress)))
}

func TestConnectionsOfAnAddressAreBounded(t *testing.T) {
	inner := &chanListener{conns: make(chan net.Conn, 20)}
	connections := NewConnectionLimit(2, []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8")})
	listener := connections.WrapListener(inner)
	var peers []net.Conn
	arrive := func(from string) (peer net.Conn) {
		peer, server := net.Pipe()
		inner.conns <- fakeAddressConn{server, from}
		peers = append(peers, peer)
		return peer
	}
	accept := func(want string) net.Conn {
		t.Helper()
		conn := must(listener.Accept())
		if got := conn.RemoteAddr().String(); got != want {
			t.Fatalf("accepted %s, want %s", got, want)
		}
		return conn
	}
	arrive("192.0.2.1:1")
	arrive("192.0.2.1:2")
	third := arrive("[::ffff:192.0.2.1]:3") // the same address in another notation
	arrive("192.0.2.2:4")
	first := accept("192.0.2.1:1")
	accept("192.0.2.1:2")
	accept("192.0.2.2:4")
	if _, err := third.Read(make([]byte, 1)); err != io.EOF || connections.CountRefused() != 1 {
		t.Errorf("the third: %v, %d refused", err, connections.CountRefused())
	}
	for range 2 { // closing twice frees only one connection
		_ = first.Close()
	}
	arrive("192.0.2.1:5")
	arrive("192.0.2.1:6")
	arrive("[2001:db8::1]:7")
	arrive("[2001:db8::2%eth0]:8")
	arrive("[2001:db8:0:0:ffff::3]:9") // in the same /64 network
	arrive("[2001:db8:0:1::]:10")
	accept("192.0.2.1:5")
	accept("[2001:db8::1]:7")
	accept("[2001:db8::2%eth0]:8")
	accept("[2001:db8:0:1::]:10")
	for i := range 3 { // a trusted proxy is not bounded
		arrive(fmt.Sprintf("10.0.0.1:%d", i))
		accept(fmt.Sprintf("10.0.0.1:%d", i))
	}
	if connections.CountRefused() != 3 {
		t.Errorf("%d refused, want 3", connections.CountRefused())
	}
	if NewConnectionLimit(0, nil).WrapListener(inner) != net.Listener(inner) {
		t.Error("no limit costs a wrapper")
	}
	for _, peer := range peers {
		_ = peer.Close()
	}
}

// chanListener accepts the connections that a test gives it.
type chanListener struct{ conns chan net.Conn }

func (l *chanListener) Accept() (net.Conn, error) { return <-l.conns, nil }
func (l *chanListener) Close() error              { return nil }
func (l *chanListener) Addr() net.Addr            { return &net.IPAddr{} }

// The larger body limit of the scope ingest applies only to variables: the text, which is parsed and cached, stays small.
func TestOnlyVariablesMayBeLong(t *testing.T) {
	handler := newDevelopmentHandler(t, nil)
	body := func(comment, operationName, variable, extension int) string {
		return fmt.Sprintf(`{"query":"query A%s($t:String!){hello echo(text:$t)}#%s","operationName":"A%s","variables":{"t":"%s"},"extensions":{"e":"%s"}}`,
			strings.Repeat("a", operationName), strings.Repeat("c", comment), strings.Repeat("a", operationName), strings.Repeat("v", variable), strings.Repeat("e", extension))
	}
	rest := len(body(0, 0, 0, 0)) - len(`{"t":""}`)
	for name, c := range map[string]struct {
		body string
		fits bool
	}{
		"variables":          {body(0, 0, 900_000, 0), true},
		"a text that fits":   {body(64<<10-rest, 0, 900_000, 0), true},
		"a text":             {body(64<<10-rest+1, 0, 0, 0), false},
		"extensions":         {body(0, 0, 0, 64<<10-rest+1), false},
		"some of each":       {body(30_000, 0, 10, 40_000), false},
		"a text of 900 KB":   {body(900_000, 0, 0, 0), false},
		"its last variables": {strings.Replace(body(0, 0, 900_000, 0), `"extensions":`, `"variables":{"t":""},"extensions":`, 1), false},
	} {
		got := askHandler(t, handler, http.MethodPost, "/graphql", c.body, "Authorization", "Bearer dev:host:ingest")
		switch {
		case c.fits && (got.status != http.StatusOK || got.errorCode() != ""):
			t.Errorf("%s: %d %.300s", name, got.status, got.body)
		case !c.fits && (got.status != http.StatusRequestEntityTooLarge || got.errorCode() != services.Invalid || !strings.Contains(got.body, "65536")):
			t.Errorf("%s: %d %.300s", name, got.status, got.body)
		}
	}
}

// The cache drops the least recently used documents to stay within its limit of bytes, for documents of any content.
func TestTheQueryCacheIsBoundedInBytes(t *testing.T) {
	const limit = 1 << 20
	documents := newDocumentPreparer(Config{Schema: newTestSchema(), RequestSettings: RequestSettings{QueryCacheBytes: limit}}.withDefaults())
	hold := func(texts int, text func(i int) string) (kept int, bytes int64) {
		t.Helper()
		for i := range texts {
			if doc, faults := documents.prepare(text(i)); doc == nil {
				t.Fatal(faults)
			}
			if documents.cache.bytes > limit {
				t.Fatalf("%d bytes", documents.cache.bytes)
			}
		}
		return documents.cache.documentByText.Len(), documents.cache.bytes
	}
	if kept, _ := hold(100, func(i int) string { return fmt.Sprintf("{hello}#%d%s", i, strings.Repeat("c", 60_000)) }); kept < 10 || kept > 17 {
		t.Errorf("%d texts of 60 KB are kept in 1 MB", kept)
	}
	if kept, _ := hold(300, func(i int) string { return fmt.Sprintf("{a%d:hello}", i) }); kept < 300 {
		t.Errorf("%d of 300 short texts are kept", kept)
	}
	first, _ := documents.prepare("{a299:hello}")
	if again, _ := documents.prepare("{a299:hello}"); again != first {
		t.Error("a text that is remembered is parsed again")
	}
	documents.cache.maxBytes = 10
	if doc, _ := documents.prepare("{hello}"); doc == nil || documents.cache.documentByText.Contains("{hello}") {
		t.Error("a document larger than the cache is refused, or remembered")
	}
}
