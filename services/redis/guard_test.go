package redis

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"

	"tidings/services"
	"tidings/services/redis/redistest"
	"tidings/tests/eventually"
)

func TestOneTimeOutTripsTheGuard(t *testing.T) {
	clock := redistest.NewManualClock(time.Now())
	g := newGuard(time.Second)
	g.now = clock.Now
	admitted := func(want bool) (probe bool) {
		t.Helper()
		if g.refuses() == want {
			t.Fatalf("refuses() is %v", !want)
		}
		probe, err := g.beginRead()
		if (err == nil) != want {
			t.Fatalf("a read that begins: %v, want it admitted: %v", err, want)
		}
		return probe
	}
	early, late := admitted(true), admitted(true)
	g.endRead(early, true, false)
	admitted(false)
	clock.Move(guardPause)
	g.endRead(late, true, false) // it began before the trip, and its time-out starts a pause too: a read of its batch must not become the probe
	admitted(false)
	clock.Move(guardPause - 1)
	admitted(false)
	clock.Move(1)
	probe := admitted(true)
	admitted(false) // only one read at a time is a probe
	g.endRead(probe, true, false)
	clock.Move(guardLongPause - 1)
	admitted(false)
	clock.Move(1)
	probe = admitted(true)
	g.endRead(probe, false, false) // its caller left: the server's state is unknown
	probe = admitted(true)
	g.endRead(probe, false, true)
	admitted(true)
	admitted(true)
}

// openHungClient returns a client of a Redis that does not answer, its guard with the guard's clock, and a counter of the reads
// that the client really sent.
func openHungClient(t *testing.T) (c *Client, g *guard, clock *redistest.ManualClock, sent *requestCounter) {
	proxy := redistest.NewProxy(t, redistest.NewServer(t).Addr())
	c = connect(t, Options{URL: proxy.URL(), ReadTimeout: 200 * time.Millisecond})
	clock = redistest.NewManualClock(time.Now())
	g = c.readGuard
	g.now = clock.Now
	sent = &requestCounter{}
	c.redis.AddHook(sent) // it counts only what the guard lets through
	proxy.BlackHole(true)
	return c, g, clock, sent
}

// The first read of a Redis that hangs waits. Later reads fail at once, except for one probe after each pause. This holds for
// every kind of read.
func TestReadsOfAHungRedisWaitOnce(t *testing.T) {
	user := services.UserID(1)
	for name, ask := range map[string]func(ctx context.Context, c *Client) error{
		"shared": func(ctx context.Context, c *Client) error {
			return MapError(c.batchingClient.HMGet(ctx, UserKey(user, ":b"), "st").Err())
		},
		"pipeline": func(ctx context.Context, c *Client) error {
			ctx = WithReadGuard(ctx)
			_, err := c.Pipeline(ctx, func(p redis.Pipeliner) { p.Get(ctx, "a"); p.Get(ctx, "b") })
			return err
		},
		"script": func(ctx context.Context, c *Client) error {
			_, err := c.Run(WithReadGuard(ctx), setScript, []ScriptCall{{Keys: []string{"k"}, Args: []any{1}}})
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			c, _, clock, sent := openHungClient(t)
			if err := ask(t.Context(), c); !services.IsUnavailable(err) || errors.Is(err, gobreaker.ErrOpenState) {
				t.Fatalf("the first read: %v, want a time-out", err)
			}
			for _, pause := range []time.Duration{0, guardPause, guardLongPause} {
				clock.Move(pause)
				before := sent.count()
				if pause > 0 {
					if err := ask(t.Context(), c); errors.Is(err, gobreaker.ErrOpenState) {
						t.Fatalf("the probe after %v is refused", pause)
					}
					if n := sent.count() - before; n != 1 {
						t.Fatalf("the probe after %v is sent %d times", pause, n)
					}
				}
				before = sent.count()
				for range 100 {
					if err := ask(t.Context(), c); !errors.Is(err, gobreaker.ErrOpenState) || !services.IsUnavailable(err) {
						t.Fatalf("after a time-out: %v, want it refused", err)
					}
				}
				if n := sent.count(); n != before {
					t.Errorf("%d reads were sent after a time-out", n-before)
				}
			}
		})
	}
}

// Reads that are queued behind a batch that times out are not sent after it.
func TestReadsBehindAHungBatchAreNotSent(t *testing.T) {
	c, _, _, sent := openHungClient(t)
	const readers = 64
	var asking sync.WaitGroup
	for i := range readers {
		asking.Go(func() {
			if err := MapError(c.batchingClient.Get(t.Context(), fmt.Sprint(i)).Err()); !services.IsUnavailable(err) {
				t.Errorf("%v, want UNAVAILABLE", err)
			}
		})
	}
	asking.Wait()
	if n := sent.count(); n != 1 {
		t.Errorf("%d batches were sent to a server that hangs, want 1", n)
	}
}

// Writers continue until the breaker opens: a lost write has no substitute.
func TestTheGuardRefusesNoWrites(t *testing.T) {
	c, g, _, sent := openHungClient(t)
	if err := MapError(c.batchingClient.Get(t.Context(), "a").Err()); !services.IsUnavailable(err) || !g.refuses() {
		t.Fatalf("%v, refuses %v", err, g.refuses())
	}
	before := sent.count()
	if err := c.Commands().Set(t.Context(), "k", 1, 0).Err(); errors.Is(err, gobreaker.ErrOpenState) || err == nil {
		t.Errorf("a write: %v, want a time-out", err)
	}
	if n := sent.count() - before; n != 1 {
		t.Errorf("a write is sent %d times, want once", n)
	}
}

// A time-out trips the guard only if the server caused it: not if the caller had less time than the guard allows. A connection
// that breaks does not trip it either.
func TestOnlyTimeOutsTripTheGuard(t *testing.T) {
	server := redistest.NewServer(t)
	proxy := redistest.NewProxy(t, server.Addr())
	c := connect(t, Options{URL: proxy.URL(), ReadTimeout: time.Minute})
	hurried, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	proxy.BlackHole(true)
	if err := MapError(c.batchingClient.Get(hurried, "a").Err()); !services.IsUnavailable(err) {
		t.Errorf("a caller in a hurry: %v", err)
	}
	proxy.ResetConnections()
	marked := WithReadGuard(hurried)
	if _, err := c.Pipeline(marked, func(p redis.Pipeliner) { p.Get(marked, "a") }); !services.IsUnavailable(err) {
		t.Errorf("a caller who has gone: %v", err)
	}
	proxy.BlackHole(false)
	proxy.DropReplies(1)
	_ = c.batchingClient.Get(t.Context(), "a").Err()
	if c.readGuard.refuses() {
		t.Error("the guard has tripped")
	}
	if err := c.batchingClient.Get(t.Context(), "a").Err(); err != redis.Nil {
		t.Error(err)
	}
}

// A cluster master that hangs affects only reads of its own keys.
func TestAHungMasterRefusesReadsOfItsKeysAlone(t *testing.T) {
	url, servers := redistest.ClusterServers(t)
	c := connect(t, Options{URL: url})
	users := map[string]services.UserID{} // by master
	cluster := c.redis.(*redis.ClusterClient)
	for user := services.UserID(1); len(users) < len(servers); user++ {
		master, err := cluster.MasterForKey(t.Context(), UserKey(user, ":b"))
		if err != nil {
			t.Fatal(err)
		}
		users[master.Options().Addr] = user
	}
	read := func(server *redistest.Server) error {
		err := c.batchingClient.Get(t.Context(), UserKey(users[server.Addr()], ":b")).Err()
		if err == redis.Nil {
			return nil
		}
		return err
	}
	servers[0].Pause()
	eventually.Succeeds(t, 10*time.Second, "its reads are refused", func() error {
		if err := read(servers[0]); !errors.Is(err, gobreaker.ErrOpenState) {
			return fmt.Errorf("not refused: %w", err)
		}
		return nil
	})
	for _, other := range servers[1:] {
		if err := read(other); err != nil {
			t.Errorf("another master's read: %v", err)
		}
	}
	servers[0].Resume()
	eventually.Succeeds(t, 10*time.Second, "it is read again", func() error { return read(servers[0]) })
}
