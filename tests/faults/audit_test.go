package faults

import (
	"fmt"
	"testing"
	"time"

	"tidings/services/node"
	"tidings/services/redis/redistest"
	"tidings/services/sql/sqltest"
	"tidings/tests/world"
)

// Redis is changed from outside while a subscription is open, so the subscription shows the wrong count. The audit finds,
// repairs, pushes and counts the difference. It finds no other difference, although the program is in use.
func TestAuditRepairsAndPushes(t *testing.T) {
	server := redistest.NewServer(t)
	n := world.StartNode(t, world.NodeOptions{Database: sqltest.SQLite(t), Redis: server.URL(), ChangeConfig: func(cfg *node.Config) { cfg.Audit.LapTime = 2 * time.Second }})
	n.Follow("reader", "author")
	n.Publish("author", "one")
	n.Publish("author", "two")
	w := world.OpenBadgeSubscription(t, n.URL, "reader")
	w.WaitCounts(t, world.RedisLossRecoveryTimeout, 2, 0)
	key := fmt.Sprintf("{u%d}:b", n.EnsureUserIDs("reader")[0])
	for i, damage := range []func(){
		func() { server.Do("HSET", key, "fc", "77") },
		func() { server.Do("HSET", key, "fc", "0", "T", "7ZZZZZZZZZZZZ") },
		func() { server.Do("HSET", key, "NL", "9000;0;30000;5,0,0,0,0,0,0,0", "HL", "3;0000000000009") },
	} {
		damage()
		life := time.NewTicker(50 * time.Millisecond) // one post each tick; more load would take the processor from the audit
		server.Do("HINCRBY", key, "n", "1")           // reconciliation then pushes the wrong number to the subscription
		world.Eventually(t, 30*time.Second, "it is found", func() bool {
			<-life.C
			n.Publish("somebody", "life goes on")
			return n.Metric("tidings_badge_drift_total") == float64(i+1)
		})
		life.Stop()
		w.WaitCounts(t, world.RedisLossRecoveryTimeout, 2, 0)
		if got := n.Badges("reader"); got.HomeFeed.Value != 2 || got.Total.Value != 2 || got.Total.Precision != "EXACT" {
			t.Errorf("after %d: %+v", i, got)
		}
	}
	if visited := n.Metric("tidings_badge_audited_total"); visited < 3 {
		t.Errorf("%v were visited", visited)
	}
}

// An operator can recount one user's badges. No other caller may, and a key without a user is NOT_FOUND.
func TestRecountBadges(t *testing.T) {
	server := redistest.NewServer(t)
	n := world.StartNode(t, world.NodeOptions{Database: sqltest.SQLite(t), Redis: server.URL(), ManualStepping: true})
	n.Follow("reader", "author")
	n.Publish("author", "one")
	n.SettleJobsAndCaches()
	const mutation = `mutation($u:ID!){r:recountBadges(input:{userId:$u}){differed badges{` + world.BadgeFields + `}}}`
	recount := func(want ...string) {
		t.Helper()
		var data struct {
			R struct {
				Differed []string
				Badges   world.Badges
			}
		}
		n.MustAsk("root:admin", mutation, map[string]any{"u": "user:reader"}, &data)
		if fmt.Sprint(data.R.Differed) != fmt.Sprint(want) || data.R.Badges.HomeFeed.Value != 1 {
			t.Errorf("%+v, want %q", data.R, want)
		}
	}
	recount()
	server.Do("HSET", fmt.Sprintf("{u%d}:b", n.EnsureUserIDs("reader")[0]), "fc", "9")
	recount("home feed: count")
	recount()
	for _, c := range []struct{ as, user, code string }{
		{"reader", "user:reader", "FORBIDDEN"}, {"root:ingest", "user:reader", "FORBIDDEN"}, {"", "user:reader", "UNAUTHENTICATED"},
		{"root:admin", "user:nobody", "NOT_FOUND"}, {"root:admin", "post:01J8ZQ4M9V000", "INVALID"}, {"root:admin", "user:", "INVALID"},
	} {
		if got := n.Ask(c.as, mutation, map[string]any{"u": c.user}).ErrorCode(); got != c.code {
			t.Errorf("%s recounts %s: %q, want %s", c.as, c.user, got, c.code)
		}
	}
	server.Kill()
	if got := n.Ask("root:admin", mutation, map[string]any{"u": "user:reader"}).ErrorCode(); got != "UNAVAILABLE" {
		t.Errorf("without Redis: %q", got)
	}
}
