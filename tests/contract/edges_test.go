package contract

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

	"tidings/services/node"
	"tidings/services/sql/sqltest"
	"tidings/tests/world"
)

// A body that does not arrive is awaited only until the deadline, for any path and any framing.
func TestBodiesThatDoNotArriveAreCutOff(t *testing.T) {
	const deadline = 300 * time.Millisecond
	n := world.StartNode(t, world.NodeOptions{Database: sqltest.SQLite(t), Redis: "embedded", ManualStepping: true, ChangeConfig: func(cfg *node.Config) {
		cfg.Requests.RequestDeadline = deadline
	}})
	for name, head := range map[string]string{
		"a length": "POST /graphql HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: 60000\r\n\r\n{",
		"chunks":   "POST /graphql HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n1\r\n{\r\n",
		"refused":  "POST /graphql HTTP/1.1\r\nHost: localhost\r\nContent-Type: text/plain\r\nContent-Length: 60000\r\n\r\n{",
		"bad path": "POST /nothing HTTP/1.1\r\nHost: localhost\r\nContent-Length: 60000\r\n\r\n{",
		"health":   "GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length: 60000\r\n\r\n{",
		"headers":  "POST /graphql HTTP/1.1\r\nHost: localhost\r\nContent-",
	} {
		t.Run(name, func(t *testing.T) {
			conn := n.DialTCP()
			if _, err := io.WriteString(conn, head); err != nil {
				t.Fatal(err)
			}
			if answer, err := io.ReadAll(conn); errors.Is(err, os.ErrDeadlineExceeded) {
				t.Errorf("still open after %q", answer)
			}
		})
	}
	t.Run("what arrives in time is not hurried", func(t *testing.T) { // the deadline applies only to reading the request
		for end := time.Now().Add(time.Minute); ; {
			began := time.Now()
			err := world.Ask(n.URL, "alice", `mutation{publishPost(input:{body:"b"}){post{id}}}`, nil, nil)
			if err == nil {
				return
			}
			// On a machine that stands still for the deadline this request did not arrive in time either.
			if took := time.Since(began); took < deadline || began.After(end) {
				t.Fatalf("%v, after %s", err, took)
			}
		}
	})
}

// The limit for the size of an answer applies to compiled selections too.
func TestCompiledAnswersAreBounded(t *testing.T) {
	n := world.StartNode(t, world.NodeOptions{Database: sqltest.SQLite(t), Redis: "embedded", ManualStepping: true, ChangeConfig: func(cfg *node.Config) { cfg.Requests.MaxAnswerBytes = 4000 }})
	n.Publish("bob", strings.Repeat("long ", 999))
	for _, query := range []string{
		`{viewer{homeFeed{edges{node{body}}}}}`,                 // compiled
		`{viewer{user{id} homeFeed{edges{node{body}}}}}`,        // not compiled
		`{viewer{badges{version} homeFeed{edges{node{body}}}}}`, // compiled, in two parts
	} {
		if got := n.Ask("bob", query, nil); got.ErrorCode() != "INVALID" || got.Data != nil || !strings.Contains(got.Errors[0].Message, "up to 4000 are allowed") {
			t.Errorf("%s: %+v", query, got)
		}
	}
}

// In production the number of connections from one address is limited. Closing a connection makes room for another.
func TestConnectionsPerAddress(t *testing.T) {
	n := world.StartNode(t, world.NodeOptions{Database: sqltest.SQLite(t), Redis: "embedded", ChangeConfig: func(cfg *node.Config) {
		cfg.Tokens.HMACSecret, cfg.Requests.ConnectionsPerAddress = world.TestSecret, 3
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
		conn := n.DialTCP()
		if !healthy(conn) {
			t.Fatalf("connection %d is refused", i+1)
		}
		held = append(held, conn)
	}
	if healthy(n.DialTCP()) {
		t.Error("a fourth connection is served")
	}
	if got := n.Connections.CountRefused(); got != 1 {
		t.Errorf("%d connections are counted as refused, want 1", got)
	}
	if err := held[0].Close(); err != nil {
		t.Fatal(err)
	}
	world.Eventually(t, 30*time.Second, "the slot of a closed connection is free", func() bool { return healthy(n.DialTCP()) })
}
