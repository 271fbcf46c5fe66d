package redis

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/sony/gobreaker/v2"

	"tidings/services"
	"tidings/services/redis/redistest"
	"tidings/tests/eventually"
)

// readOneKey reads one key in a pipeline.
func readOneKey(ctx context.Context, c *Client) error {
	_, err := c.Pipeline(ctx, func(p redis.Pipeliner) { p.Get(ctx, "key") })
	return err
}

// isBreakerRefusal reports whether an error is the breaker's: no call was tried.
func isBreakerRefusal(err error) bool {
	return errors.Is(err, gobreaker.ErrOpenState) || errors.Is(err, gobreaker.ErrTooManyRequests)
}

func TestTheBreakerOpensAfterTenFailuresInARow(t *testing.T) {
	b := newBreaker("test", slog.New(slog.DiscardHandler))
	step := func(err error) {
		t.Helper()
		if refused := b.Allow(); refused != nil {
			t.Fatalf("refused before the tenth failure in a row: %v", refused)
		}
		b.ReportResult(err)
	}
	for range 9 {
		step(dialError())
	}
	step(nil) // one answer: the failures in a row start from zero
	for range 9 {
		step(dialError())
	}
	for range 20 { // neither an answer nor a failure
		step(redis.ErrPoolTimeout)
		step(context.Canceled)
	}
	step(dialError())
	if err := b.Allow(); !errors.Is(err, gobreaker.ErrOpenState) {
		t.Errorf("after ten failures in a row: %v, want an open breaker", err)
	}
	b.ReportResult(nil) // of no call: must not panic, and must not close the breaker
	if err := b.Allow(); !errors.Is(err, gobreaker.ErrOpenState) {
		t.Errorf("after a result without a call: %v", err)
	}
}

func TestTheBreakerForgetsEndedCalls(t *testing.T) {
	b := newBreaker("test", slog.New(slog.DiscardHandler))
	var callers sync.WaitGroup
	for range 8 {
		callers.Go(func() {
			for i := range 1000 {
				if b.Allow() == nil {
					b.ReportResult(map[bool]error{true: dialError()}[i%2 == 0])
				}
			}
		})
	}
	callers.Wait()
	if len(b.runningDoneFuncs) != 0 {
		t.Errorf("%d calls are still under way", len(b.runningDoneFuncs))
	}
}

// While the server is dead the breaker opens. After its restart every way of sending works again within two seconds, and the log tells
// of the outage and of its end.
func TestCallsWorkAgainAfterAKilledServerRestarts(t *testing.T) {
	server := redistest.NewServer(t)
	test := func(t *testing.T, call func(context.Context, *Client) error) {
		var log redistest.LogRecorder
		c := connect(t, Options{URL: server.URL(), Log: log.Log()})
		if err := call(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		server.Kill()
		eventually.Succeeds(t, 10*time.Second, "the breaker opens", func() error {
			err := call(t.Context(), c)
			if !services.IsUnavailable(err) {
				t.Fatalf("without a server: %v, want UNAVAILABLE", err)
			}
			if isBreakerRefusal(err) {
				return nil
			}
			return err
		})
		server.Start()
		eventually.Succeeds(t, 2*time.Second, "it works again", func() error { return call(t.Context(), c) })
		if text := log.String(); !strings.Contains(text, "calls fail at once") || !strings.Contains(text, "Redis answers again") {
			t.Errorf("the log does not tell of the outage:\n%s", text)
		}
	}
	t.Run("pipeline", func(t *testing.T) { test(t, readOneKey) })
	t.Run("shared", func(t *testing.T) {
		test(t, func(ctx context.Context, c *Client) error {
			if err := c.batchingClient.Get(ctx, "key").Err(); err != redis.Nil {
				return MapError(err)
			}
			return nil
		})
	})
	t.Run("script", func(t *testing.T) {
		test(t, func(ctx context.Context, c *Client) error {
			replies, err := c.Run(ctx, addMemberScript, addMemberCalls(1001, 1))
			if len(replies) != 1001 {
				t.Fatalf("%d replies, want one for each call", len(replies))
			}
			for i, r := range replies {
				if (r.Err == nil) != (err == nil) {
					t.Fatalf("error %v, but the reply %d has %v", err, i, r.Err)
				}
			}
			return err
		})
	})
}

func TestAKilledMasterOfAClusterComesBack(t *testing.T) {
	url, servers := redistest.ClusterServers(t)
	c := connect(t, Options{URL: url})
	keys := addMemberCalls(60, 60)
	all := func() error {
		replies, err := c.Run(t.Context(), addMemberScript, keys)
		for _, r := range replies {
			err = errors.Join(err, r.Err)
		}
		return err
	}
	if err := all(); err != nil {
		t.Fatal(err)
	}
	held := holdConnections(t, c) // with all connections busy, the next caller needs a new one
	servers[0].Pause()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if replies, err := c.Run(ctx, addMemberScript, keys); err != nil {
		t.Errorf("two of three masters answer: %v", err)
	} else if failed := countUnavailable(replies); failed == 0 || failed == len(replies) {
		t.Errorf("%d of %d calls failed with one master of three paused", failed, len(replies))
	}
	servers[0].Resume()
	held()
	eventually.Succeeds(t, 5*time.Second, "all masters serve again", all)
}

// holdConnections takes all idle connections to the masters out of the pools, and returns the function that gives them back.
func holdConnections(t *testing.T, c *Client) (free func()) {
	t.Helper()
	var mu sync.Mutex
	var held []*redis.Conn
	err := c.EachMaster(t.Context(), func(ctx context.Context, master *redis.Client) error {
		for range master.PoolStats().IdleConns {
			connection := master.Conn()
			mu.Lock()
			held = append(held, connection)
			mu.Unlock()
			if err := connection.Ping(ctx).Err(); err != nil { // takes the connection
				return err
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return func() {
		for _, connection := range held {
			if err := connection.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

// countUnavailable counts the replies that are UNAVAILABLE.
func countUnavailable(replies []Reply) (n int) {
	for _, r := range replies {
		if services.IsUnavailable(r.Err) {
			n++
		}
	}
	return n
}

func TestADeadlineEndsACallThatGetsNoAnswer(t *testing.T) {
	server := redistest.NewServer(t)
	for name, call := range map[string]func(context.Context, *Client) error{
		"command":  func(ctx context.Context, c *Client) error { return MapError(c.Commands().Get(ctx, "key").Err()) },
		"pipeline": readOneKey,
		"shared":   func(ctx context.Context, c *Client) error { return MapError(c.batchingClient.Get(ctx, "key").Err()) },
		"script": func(ctx context.Context, c *Client) error {
			_, err := c.Run(ctx, setScript, []ScriptCall{{Keys: []string{"k"}, Args: []any{1}}})
			return err
		},
		"ping": func(ctx context.Context, c *Client) error { return c.Ping(ctx) },
		"hints": func(ctx context.Context, c *Client) error {
			return c.PublishHints(ctx, map[string][]Hint{"x": {{1, 1}}})
		},
	} {
		t.Run(name, func(t *testing.T) {
			proxy := redistest.NewProxy(t, server.Addr())
			// The read timeout is far beyond the limit below: only the deadline can end the call in time.
			c := connect(t, Options{URL: proxy.URL(), ReadTimeout: time.Minute})
			proxy.BlackHole(true)
			ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer cancel()
			ended := make(chan error, 1)
			go func() { ended <- call(ctx, c) }()
			select {
			case err := <-ended:
				if !services.IsUnavailable(err) {
					t.Errorf("%v, want UNAVAILABLE", err)
				}
			case <-time.After(10 * time.Second):
				t.Fatal("the deadline of 50 ms has not ended the call after 10 s")
			}
			proxy.ResetConnections()
		})
	}
}

func TestWithoutADeadlineTheReadTimeoutEndsACall(t *testing.T) {
	proxy := redistest.NewProxy(t, redistest.NewServer(t).Addr())
	c := connect(t, Options{URL: proxy.URL(), ReadTimeout: 200 * time.Millisecond})
	proxy.BlackHole(true)
	eventually.Succeeds(t, 10*time.Second, "the breaker opens", func() error {
		err := readOneKey(t.Context(), c)
		if !services.IsUnavailable(err) {
			t.Fatalf("in a black hole: %v, want UNAVAILABLE", err)
		}
		if isBreakerRefusal(err) {
			return nil
		}
		return err
	})
	proxy.BlackHole(false)
	eventually.Succeeds(t, 2*time.Second, "it works again", func() error { return readOneKey(t.Context(), c) })
}

func TestTheClientLibraryDoesNotRepeatALostReply(t *testing.T) {
	server := redistest.NewServer(t)
	proxy := redistest.NewProxy(t, server.Addr())
	c := connect(t, Options{URL: proxy.URL()})
	failed := 0
	for range 20 {
		proxy.DropReplies(1)
		if err := c.Commands().Incr(t.Context(), "n").Err(); err != nil {
			if !services.IsUnavailable(MapError(err)) {
				t.Fatalf("%v, want UNAVAILABLE", err)
			}
			failed++
		}
		proxy.DropReplies(0)
		if err := readOneKey(t.Context(), c); err != nil { // an answer between two failures: the breaker stays closed
			t.Fatal(err)
		}
	}
	n, err := c.Commands().Get(t.Context(), "n").Int()
	if err != nil || failed == 0 || n > 20 {
		t.Errorf("20 increments, %d without an answer, made %d (%v): one was sent twice", failed, n, err)
	}
}

func TestTheSentinelsMasterHasABreaker(t *testing.T) {
	url, master, _ := redistest.SentinelServers(t)
	c := connect(t, Options{URL: url})
	if _, ok := c.redis.(*redis.Client).Options().Limiter.(*breaker); !ok {
		t.Fatal("no breaker")
	}
	if err := readOneKey(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	master.Kill()
	replies, err := c.Run(t.Context(), addMemberScript, addMemberCalls(1, 1))
	if !services.IsUnavailable(err) || len(replies) != 1 {
		t.Errorf("without a master: %v, %v, want UNAVAILABLE", replies, err)
	}
	eventually.Succeeds(t, 20*time.Second, "the replica takes over", func() error {
		_, err := c.Run(t.Context(), addMemberScript, addMemberCalls(1, 1))
		return err
	})
}
