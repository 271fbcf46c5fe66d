package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"tidings/services"
	"tidings/services/rdb"
	tidingsredis "tidings/services/redis"
	"tidings/services/trace"
)

// openBareFleet opens a fleet to a bare writer in this process.
func openBareFleet(t *testing.T, n int) (*fleet, *bareWriter) {
	t.Helper()
	b := newBareWriter(600)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	accepted := make(chan error, 1)
	go func() { accepted <- b.accept(listener) }()
	f, err := openFleet(t.Context(), listener.Addr().String(), n, readFirstFrame)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		f.close()
		_ = listener.Close()
		if err := <-accepted; !errors.Is(err, net.ErrClosed) {
			t.Errorf("accept ended with %v", err)
		}
	})
	return f, b
}

func TestBareWriterWritesFramesOfTheLength(t *testing.T) {
	for _, length := range []int{100, 600, 5000} {
		if got := len(newBareWriter(length).frame); got < length || got > length+2 {
			t.Errorf("%d bytes asked for, %d made", length, got)
		}
	}
	f, b := openBareFleet(t, 3)
	if f.frame != len(b.frame) {
		t.Errorf("the client read %d bytes of %d", f.frame, len(b.frame))
	}
}

// fireFunc returns a function that lets a bare writer write its frame to all connections, as the fire of a volley. The function first waits
// until the writer's list has n connections.
func fireFunc(b *bareWriter, n int) func(context.Context) error {
	return func(ctx context.Context) error {
		for {
			b.mu.Lock()
			complete := len(b.conns) >= n
			b.mu.Unlock()
			if complete {
				_, err := b.writeAll(ctx)
				return err
			}
			if err := pause(ctx, time.Millisecond); err != nil {
				return err
			}
		}
	}
}

func TestMeasureVolleys(t *testing.T) {
	f, b := openBareFleet(t, 20)
	prepared := 0
	got, err := f.measureVolleys(t.Context(), os.Getpid(), 3, volley{
		prepare: func(context.Context) error { prepared++; return nil }, fire: fireFunc(b, 20),
	})
	if err != nil {
		t.Fatal(err)
	}
	if prepared != 3 || got.rate <= 0 || got.p50 <= 0 || got.p99 < got.p50 {
		t.Errorf("%d volleys: %+v", prepared, got)
	}
}

func TestEarlyEventsAreNotCounted(t *testing.T) {
	f, b := openBareFleet(t, 5)
	early, fired := 1, 0
	v := volley{
		prepare: func(ctx context.Context) error {
			if early == 0 {
				return nil
			}
			early--
			all := *f.allDone.Load()
			if err := fireFunc(b, 5)(ctx); err != nil {
				return err
			}
			<-all
			return nil
		},
		fire: func(ctx context.Context) error {
			if fired++; fired == 1 {
				return nil // all events have arrived
			}
			return fireFunc(b, 5)(ctx)
		},
	}
	if _, err := f.measureVolleys(t.Context(), os.Getpid(), 1, v); err != nil || fired != 2 {
		t.Errorf("%d tries, %v", fired, err)
	}
	early, fired = volleyTries, -volleyTries
	if _, err := f.measureVolleys(t.Context(), os.Getpid(), 1, v); !errors.Is(err, errEarly) {
		t.Errorf("early each time: %v", err)
	}
}

func TestAFailedVolley(t *testing.T) {
	f, b := openBareFleet(t, 2)
	fault := errors.New("fault")
	failing := func(context.Context) error { return fault }
	for name, v := range map[string]volley{"prepare": {prepare: failing, fire: fireFunc(b, 2)}, "fire": {fire: failing}} {
		if _, err := f.measureVolleys(t.Context(), os.Getpid(), 1, v); !errors.Is(err, fault) {
			t.Errorf("%s: %v", name, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := f.measureVolleys(ctx, os.Getpid(), 1, volley{fire: func(context.Context) error { cancel(); return nil }}); !errors.Is(err, context.Canceled) {
		t.Errorf("no event before the context ended: %v", err)
	}
}

func TestBareWriterDropsClosedConnections(t *testing.T) {
	f, b := openBareFleet(t, 4)
	if err := fireFunc(b, 4)(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.close()
	for {
		left, err := b.writeAll(t.Context())
		if err == nil && left > 0 {
			err = pause(t.Context(), time.Millisecond)
		}
		if err != nil {
			t.Fatal(err)
		}
		if left == 0 {
			break
		}
	}
}

func TestTrigger(t *testing.T) {
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || r.URL.Path != "/trigger" || asked.Add(1) > 1 {
			w.WriteHeader(http.StatusTeapot)
		}
	}))
	defer server.Close()
	address := server.Listener.Addr().String()
	if err := trigger(t.Context(), address); err != nil {
		t.Error(err)
	}
	if err := trigger(t.Context(), address); err == nil {
		t.Error("a refusal is taken for an event")
	}
}

// patience is the longest wait for an answer on a busy machine. The Redis of these tests, miniredis, takes long to load the
// scripts.
const patience = time.Minute

// newHinter starts a Redis, and reads the hints for the node as a server does. The hinter raises the documents of so many users.
func newHinter(t *testing.T, users int) (*hinter, <-chan tidingsredis.Hint) {
	t.Helper()
	engine := miniredis.RunT(t)
	client := redis.NewClient(&redis.Options{Addr: engine.Addr(), ReadTimeout: patience})
	t.Cleanup(func() { _ = client.Close() })
	server, err := rdb.Open(t.Context(), tidingsredis.Options{
		URL: "redis://" + engine.Addr(), Node: node, ReadTimeout: patience, Clock: services.SystemClock{}, Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}, rdb.Shape{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	received, subscribed, ended := make(chan tidingsredis.Hint, 10*users), make(chan struct{}, 10), make(chan error, 1)
	go func() {
		ended <- server.RunHints(ctx, tidingsredis.HintReceiver{
			Documents: func(hints []tidingsredis.Hint, _ trace.Cause) {
				for _, hint := range hints {
					received <- hint
				}
			},
			Log: func() {}, Resync: func() { subscribed <- struct{}{} },
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-ended, server.Close()); err != nil {
			t.Error(err)
		}
	})
	<-subscribed
	h := &hinter{redis: client, node: node}
	for i := range users {
		h.users = append(h.users, uint32(i+1))
	}
	return h, received
}

func TestHintsAreTheServersOwn(t *testing.T) {
	const users = 5000 // more than fit one message
	h, received := newHinter(t, users)
	v := h.newVolley()
	for turn := range 2 {
		if err := v.prepare(t.Context()); err != nil {
			t.Fatal(err)
		}
		select {
		case hint := <-received:
			t.Fatalf("a hint %+v before it was fired", hint)
		default:
		}
		if err := v.fire(t.Context()); err != nil {
			t.Fatal(err)
		}
		versions := map[services.UserID]uint64{}
		for len(versions) < users {
			select {
			case hint := <-received:
				versions[hint.User] = hint.N
			case <-time.After(patience):
				t.Fatalf("turn %d: %d of %d hints came", turn, len(versions), users)
			}
		}
		for _, user := range []services.UserID{1, users} {
			n, err := h.redis.HGet(t.Context(), fmt.Sprintf("{u%d}:b", user), "n").Uint64()
			if err != nil || n != versions[user] || n == 0 {
				t.Errorf("user %d: the document is at %d and the hint says %d: %v", user, n, versions[user], err)
			}
		}
	}
}

func TestSpreadLastsItsInterval(t *testing.T) {
	const users, length = 50, 100 * time.Millisecond
	h, received := newHinter(t, users)
	f, b := openBareFleet(t, users)
	if err := fireFunc(b, users)(t.Context()); err != nil {
		t.Fatal(err)
	}
	// For each hint the test sends an event to the user's socket, as a server would.
	order := make(map[string]net.Conn)
	b.mu.Lock()
	for _, conn := range b.conns {
		order[conn.RemoteAddr().String()] = conn
	}
	b.mu.Unlock()
	go func() {
		for range users {
			conn := order[f.sockets[(<-received).User-1].conn.LocalAddr().String()]
			_, _ = conn.Write(b.frame)
		}
	}()
	got, err := f.measureSpread(t.Context(), h, length)
	if err != nil {
		t.Fatal(err)
	}
	took := time.Duration(users / got.rate * float64(time.Second))
	if took < length-2*time.Millisecond || got.p50 <= 0 || got.p99 < got.p50 {
		t.Errorf("%v, %+v", took, got)
	}
}
