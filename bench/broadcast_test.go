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

// openFleetToBareWriter opens a fleet of n sockets to a bare writer in this process.
func openFleetToBareWriter(t *testing.T, n int) (*socketFleet, *bareFrameWriter) {
	t.Helper()
	b := newBareFrameWriter(600)
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
		if got := len(newBareFrameWriter(length).frame); got < length || got > length+2 {
			t.Errorf("%d bytes asked for, %d made", length, got)
		}
	}
	f, b := openFleetToBareWriter(t, 3)
	if f.firstFrameBytes != len(b.frame) {
		t.Errorf("the client read %d bytes of %d", f.firstFrameBytes, len(b.frame))
	}
}

// writeOnceConnected returns a function that lets a bare writer write its frame to all connections, as the sendEvents of an
// eventBroadcast. The function first waits until the writer's list has n connections.
func writeOnceConnected(b *bareFrameWriter, n int) func(context.Context) error {
	return func(ctx context.Context) error {
		for {
			b.mu.Lock()
			complete := len(b.conns) >= n
			b.mu.Unlock()
			if complete {
				_, err := b.writeFrameToAll(ctx)
				return err
			}
			if err := pause(ctx, time.Millisecond); err != nil {
				return err
			}
		}
	}
}

func TestMeasureBroadcasts(t *testing.T) {
	f, b := openFleetToBareWriter(t, 20)
	prepared := 0
	got, err := f.measureBroadcasts(t.Context(), os.Getpid(), 3, eventBroadcast{
		prepare: func(context.Context) error { prepared++; return nil }, sendEvents: writeOnceConnected(b, 20),
	})
	if err != nil {
		t.Fatal(err)
	}
	if prepared != 3 || got.ratePerSecond <= 0 || got.latencyP50 <= 0 || got.latencyP99 < got.latencyP50 {
		t.Errorf("%d broadcasts: %+v", prepared, got)
	}
}

func TestEarlyEventsAreNotCounted(t *testing.T) {
	f, b := openFleetToBareWriter(t, 5)
	early, sendCount := 1, 0
	v := eventBroadcast{
		prepare: func(ctx context.Context) error {
			if early == 0 {
				return nil
			}
			early--
			all := *f.allEventsArrived.Load()
			if err := writeOnceConnected(b, 5)(ctx); err != nil {
				return err
			}
			<-all
			return nil
		},
		sendEvents: func(ctx context.Context) error {
			if sendCount++; sendCount == 1 {
				return nil // all events have arrived
			}
			return writeOnceConnected(b, 5)(ctx)
		},
	}
	if _, err := f.measureBroadcasts(t.Context(), os.Getpid(), 1, v); err != nil || sendCount != 2 {
		t.Errorf("%d tries, %v", sendCount, err)
	}
	early, sendCount = maxBroadcastTries, -maxBroadcastTries
	if _, err := f.measureBroadcasts(t.Context(), os.Getpid(), 1, v); !errors.Is(err, errEarlyEvent) {
		t.Errorf("early each time: %v", err)
	}
}

func TestMeasureBroadcastsEndsWithTheFirstError(t *testing.T) {
	f, b := openFleetToBareWriter(t, 2)
	fault := errors.New("fault")
	failing := func(context.Context) error { return fault }
	for name, v := range map[string]eventBroadcast{"prepare": {prepare: failing, sendEvents: writeOnceConnected(b, 2)}, "sendEvents": {sendEvents: failing}} {
		if _, err := f.measureBroadcasts(t.Context(), os.Getpid(), 1, v); !errors.Is(err, fault) {
			t.Errorf("%s: %v", name, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := f.measureBroadcasts(ctx, os.Getpid(), 1, eventBroadcast{sendEvents: func(context.Context) error { cancel(); return nil }}); !errors.Is(err, context.Canceled) {
		t.Errorf("no event before the context ended: %v", err)
	}
}

func TestBareWriterDropsClosedConnections(t *testing.T) {
	f, b := openFleetToBareWriter(t, 4)
	if err := writeOnceConnected(b, 4)(t.Context()); err != nil {
		t.Fatal(err)
	}
	f.close()
	for {
		left, err := b.writeFrameToAll(t.Context())
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

func TestTriggerBroadcast(t *testing.T) {
	var asked atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || r.URL.Path != "/trigger" || asked.Add(1) > 1 {
			w.WriteHeader(http.StatusTeapot)
		}
	}))
	defer server.Close()
	address := server.Listener.Addr().String()
	if err := triggerBroadcast(t.Context(), address); err != nil {
		t.Error(err)
	}
	if err := triggerBroadcast(t.Context(), address); err == nil {
		t.Error("a refusal is taken for an event")
	}
}

// maxAnswerWait is the longest wait for an answer of Redis or for a hint on a busy machine. The Redis of these tests, miniredis, takes
// long to load the scripts.
const maxAnswerWait = time.Minute

// newHintSender returns a hintSender for the documents of so many users, in a Redis of the test's own, and the hints that a node
// receives from it.
func newHintSender(t *testing.T, users int) (*hintSender, <-chan tidingsredis.Hint) {
	t.Helper()
	engine := miniredis.RunT(t)
	client := redis.NewClient(&redis.Options{Addr: engine.Addr(), ReadTimeout: maxAnswerWait})
	t.Cleanup(func() { _ = client.Close() })
	server, err := rdb.Open(t.Context(), tidingsredis.Options{
		URL: "redis://" + engine.Addr(), NodeID: nodeName, ReadTimeout: maxAnswerWait, Clock: services.SystemClock{}, Log: slog.New(slog.NewTextHandler(io.Discard, nil)),
	}, rdb.DocumentShape{})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	received, subscribed, ended := make(chan tidingsredis.Hint, 10*users), make(chan struct{}, 10), make(chan error, 1)
	go func() {
		ended <- server.Client.RunHints(ctx, tidingsredis.HintReceiver{
			DocumentsChanged: func(hints []tidingsredis.Hint, _ trace.Cause) {
				for _, hint := range hints {
					received <- hint
				}
			},
			ChangelogGrown: func() {}, Resync: func() { subscribed <- struct{}{} },
		})
	}()
	t.Cleanup(func() {
		cancel()
		if err := errors.Join(<-ended, server.Close()); err != nil {
			t.Error(err)
		}
	})
	<-subscribed
	h := &hintSender{redis: client, nodeName: nodeName}
	for i := range users {
		h.users = append(h.users, uint32(i+1))
	}
	return h, received
}

func TestHintsHaveTheVersionsOfTheDocuments(t *testing.T) {
	const users = 5000 // more than fit one message
	h, received := newHintSender(t, users)
	v := h.newEventBroadcast()
	for turn := range 2 {
		if err := v.prepare(t.Context()); err != nil {
			t.Fatal(err)
		}
		select {
		case hint := <-received:
			t.Fatalf("a hint %+v before it was sent", hint)
		default:
		}
		if err := v.sendEvents(t.Context()); err != nil {
			t.Fatal(err)
		}
		versions := map[services.UserID]uint64{}
		for len(versions) < users {
			select {
			case hint := <-received:
				versions[hint.User] = hint.Version
			case <-time.After(maxAnswerWait):
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

// measureEventsOverTime spreads its events over the length of time that it is given.
func TestMeasureEventsOverTimeLastsItsInterval(t *testing.T) {
	const users, length = 50, 100 * time.Millisecond
	h, received := newHintSender(t, users)
	f, b := openFleetToBareWriter(t, users)
	if err := writeOnceConnected(b, users)(t.Context()); err != nil {
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
	got, err := f.measureEventsOverTime(t.Context(), os.Getpid(), h, length)
	if err != nil {
		t.Fatal(err)
	}
	took := time.Duration(users / got.ratePerSecond * float64(time.Second))
	if took < length-2*time.Millisecond || got.latencyP50 <= 0 || got.latencyP99 < got.latencyP50 {
		t.Errorf("%v, %+v", took, got)
	}
}
