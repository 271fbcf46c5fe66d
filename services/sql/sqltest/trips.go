package sqltest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"io"
	"net"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// RoundTripCounter counts the round trips of all connections that go through it to a PostgreSQL server, and the statements in them.
// In a round trip a client asks and waits for the end of the answer. Two kinds do not count, because their number depends on the
// machine: those that only prepare statements, which each new connection needs once, and the pings of database/sql, which go ahead
// of the first statement on a connection that was idle for a second.
type RoundTripCounter struct {
	listener   net.Listener    // accepts the clients
	config     *pgx.ConnConfig // of the database on the server
	roundTrips atomic.Int64    // since the last TakeRoundTrips
	statements atomic.Int64    // since the last TakeStatements
	goroutines sync.WaitGroup  // of accept and of the connections

	losesNextCommit atomic.Bool // see LoseNextCommit

	connectionsAccepted, ignoredConnectionNumber atomic.Int64 // the number of connections of clients; see IgnoreConnection
	mu                                           sync.Mutex   // guards openConnections
	openConnections                              []net.Conn   // of clients and to the server, for CutConnections
}

// CountRoundTrips puts a counter between a database of this machine and its clients, which use the URL that it returns. The counter
// ends with the test.
func CountRoundTrips(tb testing.TB, database string) (through string, trips *RoundTripCounter) {
	tb.Helper()
	config, err := pgx.ParseConfig(database)
	if err != nil {
		tb.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	t := &RoundTripCounter{listener: listener, config: config}
	t.goroutines.Go(t.accept)
	tb.Cleanup(func() {
		_ = listener.Close()
		t.goroutines.Wait()
	})
	return fmt.Sprintf("postgres://%s@%s/%s?sslmode=disable", url.PathEscape(config.User), listener.Addr(), config.Database), t
}

// TakeRoundTrips returns the number of round trips since its last call.
func (t *RoundTripCounter) TakeRoundTrips() int { return int(t.roundTrips.Swap(0)) }

// TakeStatements returns the number of statements that were run since its last call. A simple query counts as one.
func (t *RoundTripCounter) TakeStatements() int { return int(t.statements.Swap(0)) }

// CutConnections ends all connections, as the death of their client does. It accepts no new ones either: a client that is still
// alive would use one to ask the server to cancel its statement.
func (t *RoundTripCounter) CutConnections() {
	_ = t.listener.Close()
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, conn := range t.openConnections {
		_ = conn.Close()
	}
	t.openConnections = nil
}

// LoseNextCommit lets the next COMMIT reach the server, but closes the connection of its client before the answer.
func (t *RoundTripCounter) LoseNextCommit() { t.losesNextCommit.Store(true) }

// IgnoreConnection leaves the connection of a number, counted from 1, without an answer, as a server on a busy machine may.
func (t *RoundTripCounter) IgnoreConnection(number int64) { t.ignoredConnectionNumber.Store(number) }

// ConnectionCount is how many connections clients have made, including the ignored one.
func (t *RoundTripCounter) ConnectionCount() int64 { return t.connectionsAccepted.Load() }

// accept accepts clients, and makes a connection to the server for each.
func (t *RoundTripCounter) accept() {
	for {
		client, err := t.listener.Accept()
		if err != nil {
			return
		}
		if t.connectionsAccepted.Add(1) == t.ignoredConnectionNumber.Load() {
			t.goroutines.Go(func() {
				_, _ = io.Copy(io.Discard, client) // until the client gives up
				_ = client.Close()
			})
			continue
		}
		network, address := pgconn.NetworkAddress(t.config.Host, t.config.Port)
		server, err := net.Dial(network, address)
		if err != nil {
			_ = client.Close()
			continue
		}
		t.mu.Lock()
		t.openConnections = append(t.openConnections, client, server)
		t.mu.Unlock()
		end := func() {
			_ = client.Close()
			_ = server.Close()
		}
		t.goroutines.Go(func() {
			defer end()
			_, _ = io.Copy(client, server) // it ends with the connection
		})
		t.goroutines.Go(func() {
			defer end()
			_ = t.forward(server, client) // so does this
		})
	}
}

// forward copies the messages of a client to the server, and counts the round trips. The client waits after a Sync or a simple query, so
// each of these ends a round trip.
func (t *RoundTripCounter) forward(server io.Writer, client io.ReadCloser) error {
	ran := false                                            // a statement, in this round trip
	for head := make([]byte, 4); ; head = make([]byte, 5) { // the first message has no type
		if _, err := io.ReadFull(client, head); err != nil {
			return err
		}
		body := make([]byte, int(binary.BigEndian.Uint32(head[len(head)-4:]))-4)
		if _, err := io.ReadFull(client, body); err != nil {
			return err
		}
		isPing := head[0] == 'Q' && string(body) == "-- ping\x00"
		if len(head) == 5 && (head[0] == 'E' || head[0] == 'Q') && !isPing {
			ran = true
			t.statements.Add(1)
		}
		if len(head) == 5 && (head[0] == 'S' || head[0] == 'Q') {
			if ran {
				t.roundTrips.Add(1)
			}
			ran = false
		}
		if len(head) == 5 && head[0] == 'Q' && strings.EqualFold(string(bytes.TrimRight(body, "\x00;")), "commit") && t.losesNextCommit.CompareAndSwap(true, false) {
			_ = client.Close()
		}
		if _, err := server.Write(append(head, body...)); err != nil {
			return err
		}
	}
}
