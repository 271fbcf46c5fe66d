package main

import (
	"testing"
	"time"

	"tidings/services"
	"tidings/services/rdb/rdbtest"
	"tidings/services/store/storetest"
)

// While Redis is away a page comes from SQL and shows posts that no inbox has yet. A mark without upTo covers them, also
// when it is made after Redis has come back and before their fan-out runs.
func TestMarkWithoutUpToCoversPostsInFlight(t *testing.T) {
	for name, database := range map[string]func(testing.TB) string{"sqlite": storetest.SQLite, "postgres": storetest.Postgres} {
		t.Run(name, func(t *testing.T) {
			server := rdbtest.NewServer(t)
			n := startNode(t, nodeOptions{database: database(t), redis: server.URL(), manual: true})
			n.follow("alice", "bob")
			n.settle()
			n.page("alice", 10, "", "") // her inbox is there
			server.Pause()
			n.publish("bob", "one")
			n.publish("bob", "two")
			if shown := n.page("alice", 10, "", "").ids(); len(shown) != 2 {
				t.Fatalf("without Redis the page shows %v", shown)
			}
			server.Resume()
			eventually(t, 10*time.Second, "Redis answers", func() bool {
				return n.redis.Ping(t.Context()) == nil && n.badges("alice").HomeFeed.Precision == string(services.Exact)
			})
			n.markFeedSeen("alice", "")
			n.settle()
			if got := n.badges("alice").HomeFeed; got.Value != 0 || got.Precision != string(services.Exact) {
				t.Errorf("after a mark of everything that was shown: %+v", got)
			}
			n.publish("bob", "three")
			n.settle()
			if got := n.badges("alice").HomeFeed; got.Value != 1 {
				t.Errorf("after one more post: %+v", got)
			}
		})
	}
}

// A huge author's post is on the page of the node that published it before another node's memory has it: a mark through
// the other node covers it all the same.
func TestMarkWithoutUpToCoversPostsOfOtherNodes(t *testing.T) {
	database, redis := storetest.Postgres(t), rdbtest.Redis(t)
	start := func(name string) *node {
		return startNode(t, nodeOptions{database: database, redis: redis, manual: true, change: func(cfg *Config) { cfg.Node = name }})
	}
	a, b := start("a"), start("b")
	a.publish("bob", "an old one")
	a.makeHuge("bob")
	a.follow("alice", "bob")
	for _, n := range []*node{a, b} {
		n.settle()
		n.page("alice", 10, "", "")
	}
	a.publish("bob", "pulled")
	if shown := a.page("alice", 10, "", ""); len(shown.Edges) != 2 {
		t.Fatalf("on the node that published it the page shows %v", shown.ids())
	}
	b.markFeedSeen("alice", "")
	for name, n := range map[string]*node{"a": a, "b": b} {
		n.settle()
		if got := n.badges("alice").HomeFeed; got.Value != 0 || got.Precision != string(services.Exact) {
			t.Errorf("on %s after a mark of everything that was shown: %+v", name, got)
		}
	}
}
