package faults

import (
	"testing"
	"time"

	"tidings/services/redis/redistest"
	"tidings/services/sql/sqltest"
	"tidings/tests/world"
)

// While Redis does not answer, badges come from SQL and say so. When Redis is back with its data, the exact badges have a
// newer version, so a client that drops older versions accepts them.
func TestExactBadgesAreNewerAfterRedisWasAway(t *testing.T) {
	server := redistest.NewServer(t)
	n := world.StartNode(t, world.NodeOptions{Database: sqltest.SQLite(t), Redis: server.URL()})
	n.Follow("alice", "bob")
	n.Publish("bob", "one")
	world.Eventually(t, 10*time.Second, "alice has one new post", func() bool { return n.Badges("alice").HomeFeed.Value == 1 })

	server.Pause()
	var stale world.Badges
	world.Eventually(t, 10*time.Second, "a STALE answer from SQL", func() bool {
		stale = n.Badges("alice")
		return stale.HomeFeed.Precision == "STALE"
	})
	if stale.HomeFeed.Value != 1 || stale.Total.Precision != "STALE" {
		t.Errorf("from SQL: %+v", stale)
	}
	server.Resume()
	world.Eventually(t, 15*time.Second, "an exact answer that is newer than the stale one", func() bool {
		got := n.Badges("alice")
		return got.HomeFeed.Precision == "EXACT" && got.HomeFeed.Value == 1 && got.Version > stale.Version
	})
}
