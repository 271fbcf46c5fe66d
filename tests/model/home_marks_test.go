package model

import (
	"testing"
	"time"

	"tidings/services"
	"tidings/services/node"
	"tidings/services/redis/redistest"
	"tidings/services/sql/sqltest"
	"tidings/tests/world"
)

// While Redis is down, a page of the feed comes from SQL and shows posts that no inbox has yet. markHomeFeedSeen without upTo marks these
// posts too, even if it is sent after Redis is back and before their fan-out runs.
func TestMarkWithoutUpToCoversPostsInFlight(t *testing.T) {
	for name, database := range map[string]func(testing.TB) string{"sqlite": sqltest.SQLite, "postgres": sqltest.Postgres} {
		t.Run(name, func(t *testing.T) {
			server := redistest.NewServer(t)
			n := world.StartNode(t, world.NodeOptions{Database: database(t), Redis: server.URL(), ManualStepping: true})
			n.Follow("alice", "bob")
			n.SettleJobsAndCaches()
			n.ReadFeedPage("alice", 10, "", "") // makes their inbox
			server.Pause()
			n.Publish("bob", "one")
			n.Publish("bob", "two")
			if shown := n.ReadFeedPage("alice", 10, "", "").Ids(); len(shown) != 2 {
				t.Fatalf("without Redis the page shows %v", shown)
			}
			server.Resume()
			world.Eventually(t, 10*time.Second, "Redis answers", func() bool {
				return n.Redis.Client.Ping(t.Context()) == nil && n.Badges("alice").HomeFeed.Precision == services.Exact.String()
			})
			n.MarkFeedSeen("alice", "")
			n.SettleJobsAndCaches()
			waitExactFeedCount(t, n, "alice", "after a mark of everything that was shown", 0)
			n.Publish("bob", "three")
			n.SettleJobsAndCaches()
			if got := n.Badges("alice").HomeFeed; got.Value != 1 {
				t.Errorf("after one more post: %+v", got)
			}
		})
	}
}

// A huge author's post is on the pages of the node through which it was published before another node has the post in its node cache.
// markHomeFeedSeen without upTo through the other node still marks the post.
func TestMarkWithoutUpToCoversPostsOfOtherNodes(t *testing.T) {
	database, redis := sqltest.Postgres(t), redistest.Redis(t)
	start := func(name string) *world.Node {
		return world.StartNode(t, world.NodeOptions{Database: database, Redis: redis, ManualStepping: true, ChangeConfig: func(cfg *node.Config) { cfg.Node = name }})
	}
	a, b := start("a"), start("b")
	a.Publish("bob", "an old one")
	a.MakeAuthorsHuge("bob")
	a.Follow("alice", "bob")
	for _, n := range []*world.Node{a, b} {
		n.SettleJobsAndCaches()
		n.ReadFeedPage("alice", 10, "", "")
	}
	a.Publish("bob", "pulled")
	if shown := a.ReadFeedPage("alice", 10, "", ""); len(shown.Edges) != 2 {
		t.Fatalf("on the node that published it the page shows %v", shown.Ids())
	}
	b.MarkFeedSeen("alice", "")
	for name, n := range map[string]*world.Node{"a": a, "b": b} {
		n.SettleJobsAndCaches()
		waitExactFeedCount(t, n, "alice", "on "+name+" after a mark of everything that was shown", 0)
	}
}
