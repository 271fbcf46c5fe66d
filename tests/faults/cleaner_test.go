package faults

import (
	"testing"
	"time"

	"tidings/services/redis/redistest"
	"tidings/services/sql/sqltest"
	"tidings/tests/world"
)

// cleanerState is the state of the cleaner that an operator reads from the API.
type cleanerState struct {
	Running   bool
	LastRunAt *time.Time
	Freed     struct{ Inboxes, Entries, Dormant, Unknown, Orphans, Endless, Keys int } // what the last run removed; Keys counts all removed keys
}

// cleanerFields selects the fields of cleanerState in a query.
const cleanerFields = `{running lastRunAt freed{inboxes entries dormant unknown orphans endless keys}}`

// A node cleans its Redis by itself, and again when an operator asks for it. The API and the metrics show what it freed.
// Another application's keys stay, and so do the feeds of active users.
func TestRedisIsCleaned(t *testing.T) {
	server := redistest.NewServer(t)
	n := world.StartNode(t, world.NodeOptions{Database: sqltest.SQLite(t), Redis: server.URL()})
	state := func() (c cleanerState) {
		t.Helper()
		var data struct {
			Admin struct{ Cleaner cleanerState }
		}
		n.MustAsk("root:admin", `{admin{cleaner`+cleanerFields+`}}`, nil, &data)
		return data.Admin.Cleaner
	}
	world.Eventually(t, time.Minute, "the first run ends", func() bool { return state().LastRunAt != nil })
	n.Follow("reader", "author")
	n.Publish("author", "one")
	w := world.OpenBadgeSubscription(t, n.URL, "reader")
	w.WaitCounts(t, world.RedisLossRecoveryTimeout, 1, 0)
	server.Do("HSET", "{u4000000000}:b", "st", "1", "d", "20000")
	server.Do("HSET", "{u4000000001}:c", "1", "1,0,0,1,0,0,")
	server.Do("SET", "p:0000000000009", "0000000000000001x{}")
	server.Do("SET", "{u4000000001}:cart", "another application's")
	before := state().LastRunAt
	const ask = `mutation{r:cleanNow{cleaner` + cleanerFields + `}}`
	var data struct {
		R struct{ Cleaner cleanerState }
	}
	n.MustAsk("root:admin", ask, nil, &data)
	if c := data.R.Cleaner; !c.Running && !c.LastRunAt.After(*before) { // the run may have ended before this answer was read
		t.Errorf("after it was asked for: %+v", c)
	}
	world.Eventually(t, time.Minute, "the next run ends", func() bool { c := state(); return !c.Running && c.LastRunAt.After(*before) })
	if c := state(); c.Freed.Unknown != 1 || c.Freed.Orphans != 1 || c.Freed.Endless != 1 || c.Freed.Keys != 3 {
		t.Errorf("it freed %+v", c)
	}
	if keys := n.Metric("tidings_cleaner_keys_total"); keys != 3 {
		t.Errorf("the metric says %v", keys)
	}
	if server.Do("EXISTS", "{u4000000001}:cart") != int64(1) {
		t.Error("another application's key was dropped")
	}
	w.WaitCounts(t, world.RedisLossRecoveryTimeout, 1, 0)
	for _, as := range []string{"reader", "root:ingest"} {
		if got := n.Ask(as, ask, nil).ErrorCode(); got != "FORBIDDEN" {
			t.Errorf("%s may ask for it: %q", as, got)
		}
	}
}
