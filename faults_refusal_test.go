package main

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"tidings/services/rdb/rdbtest"
	"tidings/services/store/storetest"
)

// A Redis that answers reads and takes no writes gets older with each of them: nothing that it says is EXACT, every number
// is right all the same, and once it takes writes again everything is EXACT, without anybody's doing.
func TestARedisThatRefusesWritesIsNeverExact(t *testing.T) {
	for name, redis := range map[string]struct{ refuse, accept []any }{
		"full":      {[]any{"CONFIG", "SET", "maxmemory", "100kb"}, []any{"CONFIG", "SET", "maxmemory", "0"}},
		"read only": {[]any{"REPLICAOF", "127.0.0.1", "1"}, []any{"REPLICAOF", "NO", "ONE"}},
	} {
		t.Run(name, func(t *testing.T) {
			server := rdbtest.NewServer(t)
			n := startNode(t, nodeOptions{database: storetest.SQLite(t), redis: server.URL()})
			n.follow("reader", "author")
			first := n.publish("author", "one")
			reads := func(precision string, want int) bool {
				t.Helper()
				got := n.badges("reader")
				if got.HomeFeed.Precision == "EXACT" && got.HomeFeed.Value != want || precision == "STALE" && got.HomeFeed.Value != want {
					t.Fatalf("%+v, want %d", got.HomeFeed, want)
				}
				return got.HomeFeed.Precision == precision && got.Total.Precision == precision
			}
			eventually(t, convergence, "the first post", func() bool { return n.badges("reader").HomeFeed.Value == 1 })

			server.Do(redis.refuse...)
			second := n.publish("author", "two")
			eventually(t, convergence, "the refusal is known", func() bool { return n.redis.RefusesWrites() })
			if !reads("STALE", 2) {
				t.Errorf("a query: %+v, want STALE", n.badges("reader"))
			}
			if ids := n.page("reader", 10, "", "").ids(); len(ids) != 2 || ids[0] != second || ids[1] != first {
				t.Errorf("the feed is %v", ids)
			}
			if got := n.markFeedSeen("reader", first); got.HomeFeed.Value != 1 || got.Total.Precision != "STALE" {
				t.Errorf("a mark: %+v", got)
			}
			if !reads("STALE", 1) {
				t.Errorf("a query after the mark: %+v, want STALE", n.badges("reader"))
			}
			if text := n.get(t, "/readyz"); !strings.Contains(text, "Redis refuses writes") {
				t.Errorf("/readyz says %q", text)
			}
			if text := n.get(t, "/metrics"); !strings.Contains(text, "tidings_redis_refuses_writes 1\n") {
				t.Error("no metric says so")
			}

			server.Do(redis.accept...)
			eventually(t, convergence, "an exact answer", func() bool { return reads("EXACT", 1) })
			if text := n.get(t, "/readyz"); text != "ready\n" {
				t.Errorf("/readyz says %q", text)
			}
		})
	}
}

// get reads a page of the node.
func (n *node) get(t *testing.T, path string) string {
	t.Helper()
	response, err := http.Get(n.url + path)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
