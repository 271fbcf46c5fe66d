package redis

import (
	"context"
	"errors"
	"fmt"
	"net"
	"sync"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"tidings/services"
	"tidings/services/redis/redistest"
)

func TestEachSharedReadGetsItsOwnAnswer(t *testing.T) {
	eachRedisMode(t, func(t *testing.T, mode, url string) {
		c := connect(t, Options{URL: url})
		const keys = 50
		for i := range keys {
			if err := c.Commands().HSet(t.Context(), fmt.Sprintf("{u%d}:h", i), "a", i, "b", -i).Err(); err != nil {
				t.Fatal(err)
			}
		}
		var readers sync.WaitGroup
		for reader := range 16 {
			readers.Go(func() {
				for i := range 100 {
					i = (i + reader) % keys
					values, err := c.batchingClient.HMGet(t.Context(), fmt.Sprintf("{u%d}:h", i), "a", "b", "none").Result()
					if want := fmt.Sprint([]any{fmt.Sprint(i), fmt.Sprint(-i), nil}); err != nil || fmt.Sprint(values) != want {
						t.Errorf("key %d: %v, %v, want %s", i, values, err, want)
						return
					}
				}
			})
		}
		readers.Wait()
	})
}

func TestSharedReadsHaveTheErrorsOfPlainOnes(t *testing.T) {
	redistest.EachRedis(t, func(t *testing.T, url string) {
		c := connect(t, Options{URL: url})
		if err := c.batchingClient.Get(t.Context(), "missing").Err(); !errors.Is(err, redis.Nil) {
			t.Errorf("a missing key: %v, want redis.Nil", err)
		}
		if err := c.batchingClient.Set(t.Context(), "text", "a", 0).Err(); err != nil {
			t.Fatal(err)
		}
		if err := c.batchingClient.HGet(t.Context(), "text", "f").Err(); !redis.HasErrorPrefix(err, "WRONGTYPE") {
			t.Errorf("a wrong type: %v", err)
		}
		ended, cancel := context.WithCancel(t.Context())
		cancel()
		ctx, trips := WithRoundTrips(ended)
		if err := c.batchingClient.Get(ctx, "text").Err(); !errors.Is(err, context.Canceled) || trips.Count() != 0 {
			t.Errorf("a caller who has gone: %v, %d round trips", err, trips.Count())
		}
		commands, err := c.batchingClient.Pipelined(t.Context(), func(p redis.Pipeliner) error {
			p.Get(t.Context(), "text")
			return nil
		})
		if err != nil || commands[0].(*redis.StringCmd).Val() != "a" {
			t.Errorf("a pipeline: %v, %v", commands, err)
		}
	})
}

func TestConcurrentSharedReadsAreBatched(t *testing.T) {
	server := redistest.NewServer(t)
	c := connect(t, Options{URL: server.URL()})
	sent := &requestCounter{}
	c.redis.AddHook(sent)
	const readers, reads = 64, 50
	var all sync.WaitGroup
	for range readers {
		all.Go(func() {
			for range reads {
				if err := c.batchingClient.Get(t.Context(), "k").Err(); err != redis.Nil {
					t.Error(err)
				}
			}
		})
	}
	all.Wait()
	if n := sent.count(); n >= readers*reads/2 {
		t.Errorf("%d reads took %d writes: they do not share", readers*reads, n)
	}
}

// requestCounter counts what a client really sends: single commands, and pipelines.
type requestCounter struct {
	mu       sync.Mutex // guards requests
	requests int        // how many commands and pipelines were sent
}

// count returns how many commands and pipelines were sent so far.
func (s *requestCounter) count() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.requests
}

// countRequest counts one sent command or pipeline, unless it is part of making a connection: the client decides how many
// connections it makes.
func (s *requestCounter) countRequest(first redis.Cmder) {
	if isHandshake(first) || first.Name() == "info" {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.requests++
}

// DialHook changes nothing: connections are not counted.
func (s *requestCounter) DialHook(next redis.DialHook) redis.DialHook { return next }

// ProcessHook counts a command that is sent alone.
func (s *requestCounter) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error { s.countRequest(cmd); return next(ctx, cmd) }
}

// ProcessPipelineHook counts a pipeline as one request.
func (s *requestCounter) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return func(ctx context.Context, cmds []redis.Cmder) error { s.countRequest(cmds[0]); return next(ctx, cmds) }
}

func TestASharedReadTimesOutWithoutADeadline(t *testing.T) {
	proxy := redistest.NewProxy(t, redistest.NewServer(t).Addr())
	c := connect(t, Options{URL: proxy.URL(), ReadTimeout: 200 * time.Millisecond})
	proxy.BlackHole(true)
	var readers sync.WaitGroup
	ended := make(chan struct{})
	for range 8 {
		readers.Go(func() {
			if err := MapError(c.batchingClient.Get(t.Context(), "k").Err()); !services.IsUnavailable(err) {
				t.Errorf("in a black hole: %v, want UNAVAILABLE", err)
			}
		})
	}
	go func() { readers.Wait(); close(ended) }()
	select {
	case <-ended:
	case <-time.After(10 * time.Second):
		t.Fatal("the reads hang")
	}
}

func BenchmarkReadOfADocument(b *testing.B) {
	c, err := Open(b.Context(), Options{URL: "private", DataDir: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	defer c.Close()
	fields := []string{"st", "n", "T", "fc", "f", "N1", "Cu", "A"}
	for _, field := range fields {
		if err := c.Commands().HSet(b.Context(), "{u1}:b", field, "1700000000000000").Err(); err != nil {
			b.Fatal(err)
		}
	}
	for name, client := range map[string]redis.Cmdable{"plain": c.Commands(), "shared": c.batchingClient} {
		b.Run(name, func(b *testing.B) {
			b.SetParallelism(64)
			b.RunParallel(func(p *testing.PB) {
				for p.Next() {
					if err := client.HMGet(b.Context(), "{u1}:b", fields...).Err(); err != nil {
						b.Error(err)
						return
					}
				}
			})
		})
	}
}

// A client of a server at an IP address opens without a question to a name server: one that does not answer would delay the start.
func TestOpeningAsksNoNameServer(t *testing.T) {
	resolver := net.DefaultResolver
	t.Cleanup(func() { net.DefaultResolver = resolver })
	net.DefaultResolver = &net.Resolver{PreferGo: true, Dial: func(context.Context, string, string) (net.Conn, error) {
		t.Error("a name server is asked")
		return nil, net.ErrClosed
	}}
	connect(t, Options{URL: "redis://" + redistest.NewServer(t).Addr()})
	connect(t, Options{URL: "embedded"})
}
