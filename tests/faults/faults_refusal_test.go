package faults

import (
	"strings"
	"testing"

	"tidings/services/redis/redistest"
	"tidings/services/sql/sqltest"
	"tidings/tests/world"
)

// A Redis that answers reads but refuses writes falls further behind with each mutation. Every number is still right, and none is
// reported as EXACT. Once Redis accepts writes again, everything becomes EXACT by itself.
func TestARedisThatRefusesWritesIsNeverExact(t *testing.T) {
	for name, redis := range map[string]struct{ refuse, accept []any }{
		"full":      {[]any{"CONFIG", "SET", "maxmemory", "100kb"}, []any{"CONFIG", "SET", "maxmemory", "0"}},
		"read only": {[]any{"REPLICAOF", "127.0.0.1", "1"}, []any{"REPLICAOF", "NO", "ONE"}},
	} {
		t.Run(name, func(t *testing.T) {
			server := redistest.NewServer(t)
			n := world.StartNode(t, world.NodeOptions{Database: sqltest.SQLite(t), Redis: server.URL()})
			n.Follow("reader", "author")
			first := n.Publish("author", "one")
			reads := func(precision string, want int) bool {
				t.Helper()
				got := n.Badges("reader")
				if got.HomeFeed.Precision == "EXACT" && got.HomeFeed.Value != want || precision == "STALE" && got.HomeFeed.Value != want {
					t.Fatalf("%+v, want %d", got.HomeFeed, want)
				}
				return got.HomeFeed.Precision == precision && got.Total.Precision == precision
			}
			world.Eventually(t, world.RedisLossRecoveryTimeout, "the first post", func() bool { return n.Badges("reader").HomeFeed.Value == 1 })

			server.Do(redis.refuse...)
			second := n.Publish("author", "two")
			world.Eventually(t, world.RedisLossRecoveryTimeout, "the refusal is known", func() bool { return n.Redis.Client.RefusesWrites() })
			if !reads("STALE", 2) {
				t.Errorf("a query: %+v, want STALE", n.Badges("reader"))
			}
			if ids := n.ReadFeedPage("reader", 10, "", "").Ids(); len(ids) != 2 || ids[0] != second || ids[1] != first {
				t.Errorf("the feed is %v", ids)
			}
			if got := n.MarkFeedSeen("reader", first); got.HomeFeed.Value != 1 || got.Total.Precision != "STALE" {
				t.Errorf("a mark: %+v", got)
			}
			if !reads("STALE", 1) {
				t.Errorf("a query after the mark: %+v, want STALE", n.Badges("reader"))
			}
			if text := n.Get(t, "/readyz"); !strings.Contains(text, "Redis refuses writes") {
				t.Errorf("/readyz says %q", text)
			}
			if text := n.Get(t, "/metrics"); !strings.Contains(text, "tidings_redis_refuses_writes 1\n") {
				t.Error("no metric says so")
			}

			server.Do(redis.accept...)
			world.Eventually(t, world.RedisLossRecoveryTimeout, "an exact answer", func() bool { return reads("EXACT", 1) })
			if text := n.Get(t, "/readyz"); text != "ready\n" {
				t.Errorf("/readyz says %q", text)
			}
		})
	}
}
