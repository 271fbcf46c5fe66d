package faults

import (
	"testing"

	"tidings/services/redis/redistest"
	"tidings/services/sql/sqltest"
	"tidings/tests/world"
)

// Redis is killed and comes back with a snapshot from before the last writes. Its data looks complete, but reads, open subscriptions
// and later writes must not use any of it.
func TestRedisComesBackFromAnOlderSnapshot(t *testing.T) {
	server := redistest.NewServer(t)
	n := world.StartNode(t, world.NodeOptions{Database: sqltest.SQLite(t), Redis: server.URL()})
	for _, reader := range []string{"watcher", "sleeper", "looker"} {
		n.Follow(reader, "author")
	}
	var ids []string
	publish := func(body string) { ids = append([]string{n.Publish("author", body)}, ids...) }
	shows := func(reader string, want int) {
		t.Helper()
		world.Eventually(t, world.RedisLossRecoveryTimeout, reader+" has the badge", func() bool {
			got := n.Badges(reader).HomeFeed
			return got.Value == want && got.Precision == "EXACT"
		})
	}
	publish("one")
	watch := world.OpenBadgeSubscription(t, n.URL, "watcher")
	watch.WaitCounts(t, world.RedisLossRecoveryTimeout, 1, 0)
	shows("sleeper", 1)
	shows("looker", 1)
	server.Do("SAVE")
	publish("two")
	publish("three")
	watch.WaitCounts(t, world.RedisLossRecoveryTimeout, 3, 0)
	shows("sleeper", 3)
	n.MarkFeedSeen("looker", "")
	shows("looker", 0)

	server.Kill()
	server.Start()
	if left := server.Do("DBSIZE"); left == int64(0) {
		t.Fatal("the snapshot is empty: nothing is tried")
	}
	right := func(reader string, want int) (precision string) {
		t.Helper()
		got := n.Badges(reader).HomeFeed
		if got.Value != want {
			t.Errorf("%s has %+v, want %d", reader, got, want)
		}
		if page := n.ReadFeedPage(reader, 10, "", ""); len(page.Ids()) != 3 || page.Ids()[0] != ids[0] {
			t.Errorf("%s lists %v, want %v", reader, page.Ids(), ids)
		}
		return got.Precision
	}
	world.Eventually(t, world.RedisLossRecoveryTimeout, "an exact answer after right ones only", func() bool {
		sleeper, looker := right("sleeper", 3), right("looker", 0)
		return sleeper == "EXACT" && looker == "EXACT" || t.Failed()
	})
	publish("four")
	watch.WaitCounts(t, world.RedisLossRecoveryTimeout, 4, 0)
	shows("sleeper", 4)
	shows("looker", 1)
}
