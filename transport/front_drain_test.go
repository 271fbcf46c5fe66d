package transport

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"tidings/tests/eventually"
)

func TestFrontDrains(t *testing.T) {
	f := newFrontFixture(t, false, nil)
	begun, gate := make(chan struct{}, 8), make(chan struct{})
	f.schema.beforeAnswer = func(context.Context) bool { begun <- struct{}{}; <-gate; return true }
	idle := must(net.Dial("tcp", f.frontAddress))
	defer idle.Close()
	answers := make(chan []string)
	go func() { answers <- f.sendAndReadAnswers(f.frontAddress, 1, rawRequest(queryBody("{ who }"))) }()
	<-begun
	eventually.Holds(t, "both connections are known", func() bool { f.front.mu.Lock(); defer f.front.mu.Unlock(); return len(f.front.conns) == 2 })
	done := make(chan error)
	go func() { done <- f.front.Shutdown(t.Context()) }()
	if _, err := idle.Read(make([]byte, 1)); err != io.EOF {
		t.Errorf("an idle connection: %v, want its end", err)
	}
	select {
	case err := <-done:
		t.Fatalf("the shutdown ended before the request: %v", err)
	default:
	}
	close(gate)
	if got := <-answers; !strings.HasPrefix(got[0], "200 OK true") || !strings.Contains(got[0], `{"who":"alice@"}`) {
		t.Errorf("the request that was under way: %s, want its answer and the end of the connection", got)
	}
	if err := <-done; err != nil {
		t.Errorf("the shutdown: %v", err)
	}
	if conn, err := net.Dial("tcp", f.frontAddress); err == nil {
		conn.Close()
		t.Error("a connection is accepted after the end")
	}
}

// A front that hands all connections on drains them too. Here the schema is no HotSchema; a handler for tracing around the result
// of Handler has the same effect.
func TestFrontDrainsHandedOnConnections(t *testing.T) {
	f := newFrontFixture(t, false, func(cfg *Config, _ *http.Server) { cfg.Schema = newTestSchema() })
	kept := f.openKeepAliveConn()
	if last, err := kept.ask(rawRequest(queryBody("{ who }"))); err != nil || last {
		t.Fatalf("before the drain: the last answer: %v, %v", last, err)
	}
	f.front.Drain(time.Minute)
	if conn, err := net.Dial("tcp", f.frontAddress); err == nil {
		conn.Close()
		t.Error("a connection is accepted during the drain")
	}
	if last, err := kept.ask(rawRequest(queryBody("{ who }"))); err != nil || !last {
		t.Errorf("during the drain: the last answer: %v, %v", last, err)
	}
	if err := f.front.Shutdown(t.Context()); err != nil {
		t.Errorf("the shutdown: %v", err)
	}
}

// A Shutdown whose context has ended returns an error, and cuts the connections whose requests are not answered yet.
func TestFrontShutdownGivesUp(t *testing.T) {
	f := newFrontFixture(t, false, nil)
	begun, gate := make(chan struct{}), make(chan struct{})
	f.schema.beforeAnswer = func(context.Context) bool { close(begun); <-gate; return true }
	answers := make(chan []string)
	go func() { answers <- f.sendAndReadAnswers(f.frontAddress, 1, rawRequest(queryBody("{ who }"))) }()
	<-begun
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := f.front.Shutdown(ctx); err == nil {
		t.Error("a shutdown out of time has no error")
	}
	if got := <-answers; got[0] != "no answer" {
		t.Errorf("got %s", got)
	}
	close(gate)
}

// keepAliveConn is a connection that a client keeps for further requests.
type keepAliveConn struct {
	net.Conn
	responseReader *bufio.Reader // reads the answers
}

// openKeepAliveConn opens a connection to the front.
func (f *frontFixture) openKeepAliveConn() *keepAliveConn {
	f.Helper()
	conn := must(net.Dial("tcp", f.frontAddress))
	f.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(20 * time.Second))
	return &keepAliveConn{conn, bufio.NewReader(conn)}
}

// ask sends a request and reports whether its answer ends the connection.
func (k *keepAliveConn) ask(text string) (last bool, err error) {
	if _, err := io.WriteString(k, text); err != nil {
		return false, err
	}
	got, err := http.ReadResponse(k.responseReader, nil)
	if err != nil {
		return false, err
	}
	_, err = io.Copy(io.Discard, got.Body)
	return got.Close, err
}

// A proxy keeps connections and cannot repeat a POST, so no connection may be closed during a request. In a drain, each kind of
// answer says that its connection ends, and idle and new connections stay open for one more request.
func TestFrontClosesDrainingConnectionsAfterAnAnswer(t *testing.T) {
	f := newFrontFixture(t, false, nil)
	requests := map[string]string{
		"hot":                rawRequest(queryBody("{ who }")),
		"of the HTTP server": rawRequest(queryBody(`mutation { set(text: "a") }`)),
		"of the executor":    rawRequest(queryBody("{ fails }")),
		"refused":            rawRequest(queryBody("{ who }"), "Authorization: Bearer nobody"),
		"a GET":              rawRequest("", "GET /graphql?query={who} HTTP/1.1", "-Content-Length"),
	}
	conns, idle := map[string]*keepAliveConn{}, map[string]*keepAliveConn{}
	for name, request := range requests {
		conns[name], idle[name] = f.openKeepAliveConn(), f.openKeepAliveConn()
		for _, one := range []*keepAliveConn{conns[name], idle[name]} {
			if last, err := one.ask(request); err != nil || last {
				t.Fatalf("%s, before: the last one: %v, %v", name, last, err)
			}
		}
	}
	fresh := f.openKeepAliveConn()
	// The HTTP server gives its connections back after their answers, so in the end the front has all, and the new one too.
	eventually.Holds(t, "every connection is known", func() bool {
		f.front.mu.Lock()
		defer f.front.mu.Unlock()
		return len(f.front.conns) == len(conns)+len(idle)+1
	})
	f.front.Drain(time.Hour)
	if conn, err := net.Dial("tcp", f.frontAddress); err == nil {
		conn.Close()
		t.Error("a connection is accepted during the drain")
	}
	for name, one := range conns {
		if last, err := one.ask(requests[name]); err != nil || !last {
			t.Errorf("%s, during the drain: the last one: %v, %v", name, last, err)
		}
		if _, err := one.responseReader.ReadByte(); err != io.EOF {
			t.Errorf("%s: after its last answer the connection has %v, want its end", name, err)
		}
	}
	done := make(chan error, 1)
	go func() { done <- f.front.Shutdown(t.Context()) }()
	eventually.Holds(t, "the shutdown has begun", func() bool { f.front.mu.Lock(); defer f.front.mu.Unlock(); return f.front.allConnsEnded != nil })
	idle["new"], requests["new"] = fresh, requests["hot"]
	for name, one := range idle {
		if last, err := one.ask(requests[name]); err != nil || !last {
			t.Errorf("%s, during the shutdown: the last one: %v, %v", name, last, err)
		}
	}
	if err := <-done; err != nil {
		t.Errorf("the shutdown: %v", err)
	}
}

// Connections that are idle for longer than the drain allows are closed, even if they become idle after closesIdleConns was set.
func TestFrontClosesIdleConnectionsDuringADrain(t *testing.T) {
	f := newFrontFixture(t, false, nil)
	early, late := f.openKeepAliveConn(), f.openKeepAliveConn()
	if _, err := early.ask(rawRequest(queryBody("{ who }"))); err != nil {
		t.Fatal(err)
	}
	f.front.closesIdleConns.Store(true)
	_, _ = late.ask(rawRequest(queryBody("{ who }"))) // its answer, or the end of a connection that was still new
	if _, err := late.responseReader.ReadByte(); err == nil || errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("the connection that became idle has %v, want its end", err)
	}
	f.front.Drain(50 * time.Millisecond)
	if err := f.front.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if _, err := early.responseReader.ReadByte(); err != io.EOF {
		t.Errorf("the idle connection has %v, want its end", err)
	}
}
