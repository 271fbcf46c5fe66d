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

// Trips counts the round trips of all connections that go through it to a PostgreSQL server, and the statements in them. In a
// round trip a client asks and waits for the end of the answer. A round trip that only prepares statements does not count: each
// connection needs it once, and how many connections a test opens depends on the machine.
type Trips struct {
	listener   net.Listener
	config     *pgx.ConnConfig
	count      atomic.Int64
	statements atomic.Int64
	work       sync.WaitGroup

	loses atomic.Bool // see LoseCommit

	accepted, ignored atomic.Int64 // how many connections came, and the number of the one that gets no answer: see Ignore
	// open are both ends of all connections, for Cut.
	mu   sync.Mutex
	open []net.Conn
}

// CountTrips puts a counter between a database of this machine and its clients, which use the URL that it returns. The counter
// ends with the test.
func CountTrips(tb testing.TB, database string) (through string, trips *Trips) {
	tb.Helper()
	config, err := pgx.ParseConfig(database)
	if err != nil {
		tb.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	t := &Trips{listener: listener, config: config}
	t.work.Go(t.accept)
	tb.Cleanup(func() {
		_ = listener.Close()
		t.work.Wait()
	})
	return fmt.Sprintf("postgres://%s@%s/%s?sslmode=disable", url.PathEscape(config.User), listener.Addr(), config.Database), t
}

// Take returns the number of round trips since its last call.
func (t *Trips) Take() int { return int(t.count.Swap(0)) }

// TakeStatements returns the number of statements that were run since its last call. A simple query counts as one.
func (t *Trips) TakeStatements() int { return int(t.statements.Swap(0)) }

// Cut ends all connections, as the death of their client does. It accepts no new ones either: a client that is still alive would use one to
// ask the server to cancel its statement.
func (t *Trips) Cut() {
	_ = t.listener.Close()
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, conn := range t.open {
		_ = conn.Close()
	}
	t.open = nil
}

// LoseCommit lets the next COMMIT reach the server, but closes the connection of its client before the answer.
func (t *Trips) LoseCommit() { t.loses.Store(true) }

// Ignore leaves the connection of a number, counted from 1, without an answer, as a server on a busy machine may.
func (t *Trips) Ignore(number int64) { t.ignored.Store(number) }

// Connections is how many connections were made, with the ignored one.
func (t *Trips) Connections() int64 { return t.accepted.Load() }

// accept makes a pair of connections for each client.
func (t *Trips) accept() {
	for {
		client, err := t.listener.Accept()
		if err != nil {
			return
		}
		if t.accepted.Add(1) == t.ignored.Load() {
			t.work.Go(func() {
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
		t.open = append(t.open, client, server)
		t.mu.Unlock()
		end := func() {
			_ = client.Close()
			_ = server.Close()
		}
		t.work.Go(func() {
			defer end()
			_, _ = io.Copy(client, server) // it ends with the connection
		})
		t.work.Go(func() {
			defer end()
			_ = t.forward(server, client) // so does this
		})
	}
}

// forward copies the messages of a client. The client waits after a Sync or a simple query, so each of these ends a round trip.
func (t *Trips) forward(server io.Writer, client io.ReadCloser) error {
	ran := false                                            // a statement, in this round trip
	for head := make([]byte, 4); ; head = make([]byte, 5) { // the first message has no type
		if _, err := io.ReadFull(client, head); err != nil {
			return err
		}
		body := make([]byte, int(binary.BigEndian.Uint32(head[len(head)-4:]))-4)
		if _, err := io.ReadFull(client, body); err != nil {
			return err
		}
		if len(head) == 5 && (head[0] == 'E' || head[0] == 'Q') {
			ran = true
			t.statements.Add(1)
		}
		if len(head) == 5 && (head[0] == 'S' || head[0] == 'Q') {
			if ran {
				t.count.Add(1)
			}
			ran = false
		}
		if len(head) == 5 && head[0] == 'Q' && strings.EqualFold(string(bytes.TrimRight(body, "\x00;")), "commit") && t.loses.CompareAndSwap(true, false) {
			_ = client.Close()
		}
		if _, err := server.Write(append(head, body...)); err != nil {
			return err
		}
	}
}
