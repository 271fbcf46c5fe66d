package redis

import (
	"context"
	"testing"

	"github.com/redis/go-redis/v9"

	"tidings/services/redis/redistest"
)

func TestRoundTripsAreCounted(t *testing.T) {
	redistest.EachRedis(t, func(t *testing.T, url string) {
		c := connect(t, Options{URL: url})
		if _, err := c.Run(t.Context(), addMemberScript, addMemberCalls(16, 16)); err != nil { // every master knows the script now
			t.Fatal(err)
		}
		for _, test := range []struct {
			name string
			want int
			run  func(ctx context.Context) error
		}{
			{"a command", 1, func(ctx context.Context) error { return c.Commands().Set(ctx, "a", 1, 0).Err() }},
			{"a command that fails", 1, func(ctx context.Context) error { _ = c.Commands().LPush(ctx, "a", 1).Err(); return nil }},
			{"a shared command", 1, func(ctx context.Context) error { return c.batchingClient.Get(ctx, "a").Err() }},
			{"a pipeline of 100", 1, func(ctx context.Context) error {
				_, err := c.Pipeline(ctx, func(p redis.Pipeliner) {
					for i := range 100 {
						p.Get(ctx, addMemberCalls(100, 100)[i].Keys[0]+"none")
					}
				})
				return err
			}},
			{"500 calls", 1, func(ctx context.Context) error {
				_, err := c.Run(ctx, addMemberScript, addMemberCalls(500, 16))
				return err
			}},
			{"501 calls", 2, func(ctx context.Context) error {
				_, err := c.Run(ctx, addMemberScript, addMemberCalls(501, 16))
				return err
			}},
			{"hints at home", 0, func(ctx context.Context) error { return c.PublishHints(ctx, map[string][]Hint{"": {{1, 2}}}) }},
		} {
			ctx, trips := WithRoundTrips(t.Context())
			if err := test.run(ctx); err != nil {
				t.Errorf("%s: %v", test.name, err)
			}
			if trips.Count() != test.want {
				t.Errorf("%s: %d round trips, want %d", test.name, trips.Count(), test.want)
			}
		}
	})
}

func TestSendingAnUnknownScriptInFullIsARoundTrip(t *testing.T) {
	server := redistest.NewServer(t)
	c := connect(t, Options{URL: server.URL()})
	ctx, trips := WithRoundTrips(t.Context())
	if _, err := c.Run(ctx, addMemberScript, addMemberCalls(10, 1)); err != nil { // an unregistered script: unknown at first
		t.Fatal(err)
	}
	if trips.Count() != 2 {
		t.Errorf("%d round trips, want 2: asked, and sent in full", trips.Count())
	}
}

// A call that needs a new connection, because all others are busy, is not counted as more round trips.
func TestTheMakingOfAConnectionIsNoRoundTrip(t *testing.T) {
	redistest.EachRedis(t, func(t *testing.T, url string) {
		c := connect(t, Options{URL: url})
		defer holdConnections(t, c)()
		ctx, trips := WithRoundTrips(t.Context())
		if err := c.Commands().Get(ctx, "none").Err(); err != redis.Nil {
			t.Fatal(err)
		}
		if _, err := c.Pipeline(ctx, func(p redis.Pipeliner) { p.Get(ctx, "none") }); err != nil {
			t.Fatal(err)
		}
		if trips.Count() != 2 {
			t.Errorf("%d round trips, want 2: a command and a pipeline", trips.Count())
		}
	})
}

func TestANestedRoundTripCountAddsToItsOuterCount(t *testing.T) {
	c := connect(t, Options{URL: "embedded"})
	outerCtx, outer := WithRoundTrips(t.Context())
	innerCtx, inner := WithRoundTrips(outerCtx)
	_, other := WithRoundTrips(outerCtx)
	for _, ctx := range []context.Context{innerCtx, outerCtx, t.Context()} {
		if err := c.Commands().Ping(ctx).Err(); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.batchingClient.Get(innerCtx, "none").Err(); err != redis.Nil {
		t.Fatal(err)
	}
	if inner.Count() != 2 || outer.Count() != 3 || other.Count() != 0 {
		t.Errorf("inner %d, outer %d, other %d: want 2, 3, 0", inner.Count(), outer.Count(), other.Count())
	}
}
