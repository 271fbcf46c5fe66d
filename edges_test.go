package main

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"tidings/services/store/storetest"
)

// raw is a connection to the node without a client's manners.
func (n *node) raw() net.Conn {
	n.tb.Helper()
	conn, err := net.Dial("tcp", strings.TrimPrefix(n.url, "http://"))
	if err != nil {
		n.tb.Fatal(err)
	}
	n.tb.Cleanup(func() { _ = conn.Close() })
	if err := conn.SetReadDeadline(time.Now().Add(30 * time.Second)); err != nil {
		n.tb.Fatal(err)
	}
	return conn
}

// A body that does not arrive is waited for no longer than the deadline, whatever it is sent to and however it is framed.
func TestBodiesThatDoNotArriveAreCutOff(t *testing.T) {
	n := startNode(t, nodeOptions{database: storetest.SQLite(t), redis: "embedded", manual: true, change: func(cfg *Config) {
		cfg.RequestDeadline = 300 * time.Millisecond
	}})
	for name, head := range map[string]string{
		"a length": "POST /graphql HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 60000\r\n\r\n{",
		"chunks":   "POST /graphql HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n",
		"refused":  "POST /graphql HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\nContent-Length: 60000\r\n\r\n{",
		"no place": "POST /nothing HTTP/1.1\r\nHost: localhost\r\nContent-Length: 60000\r\n\r\n{",
		"health":   "GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 60000\r\n\r\n{",
		"headers":  "POST /graphql HTTP/1.1\r\nHost: localhost\r\nContent-",
	} {
		t.Run(name, func(t *testing.T) {
			conn := n.raw()
			if _, err := io.WriteString(conn, head); err != nil {
				t.Fatal(err)
			}
			if answer, err := io.ReadAll(conn); errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("still open after %q", answer)
			}
		})
	}
	t.Run("what arrives in time is not hurried", func(t *testing.T) { // the deadline was for the request alone
		n.must("alice", `mutation{publishPost(input:{body:"b"}){post{id}}}`, nil, nil)
	})
}

// The bound of an answer holds for compiled selections as for others.
func TestCompiledAnswersAreBounded(t *testing.T) {
	n := startNode(t, nodeOptions{database: storetest.SQLite(t), redis: "embedded", manual: true, change: func(cfg *Config) { cfg.AnswerLimit = 4000 }})
	n.publish("bob", strings.Repeat("long ", 999))
	for _, query := range []string{
		`{viewer{homeFeed{edges{node{body}}}}}`,                 // compiled
		`{viewer{user{id} homeFeed{edges{node{body}}}}}`,        // not
		`{viewer{badges{version} homeFeed{edges{node{body}}}}}`, // compiled, in two parts
	} {
		if got := n.ask("bob", query, nil); got.code() != "INVALID" || got.Data != nil || !strings.Contains(got.Errors[0].Message, "up to 4000 are allowed") {
			t.Errorf("%s: %+v", query, got)
		}
	}
}

// In production an address has so many connections at a time, and a place comes free with each that is closed.
func TestConnectionsPerAddress(t *testing.T) {
	n := startNode(t, nodeOptions{database: storetest.SQLite(t), redis: "embedded", change: func(cfg *Config) {
		cfg.JWTSecret, cfg.ConnectionsPerAddress = testSecret, 3
	}})
	healthy := func(conn net.Conn) bool {
		if _, err := fmt.Fprintf(conn, "GET /healthz HTTP/1.1\r\nHost: tidings\r\n\r\n"); err != nil {
			return false
		}
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil {
			return false
		}
		defer func() { _ = response.Body.Close() }()
		_, err = io.Copy(io.Discard, response.Body)
		return err == nil && response.StatusCode == http.StatusOK
	}
	var held []net.Conn
	for i := range 3 {
		conn := n.raw()
		if !healthy(conn) {
			t.Fatalf("connection %d is refused", i+1)
		}
		held = append(held, conn)
	}
	if healthy(n.raw()) {
		t.Error("a fourth connection is served")
	}
	if got := n.connections.Refused(); got != 1 {
		t.Errorf("%d connections are counted as refused, want 1", got)
	}
	if err := held[0].Close(); err != nil {
		t.Fatal(err)
	}
	eventually(t, 30*time.Second, "the place of a closed connection is free", func() bool { return healthy(n.raw()) })
}
