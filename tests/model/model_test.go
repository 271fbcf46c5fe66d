package model

import (
	"testing"

	"pgregory.net/rapid"

	"tidings/services/redis/redistest"
	"tidings/services/sql/sqltest"
	"tidings/tests/histories"
	"tidings/tests/world"
)

// checkRandomHistories runs random histories on a node and on the reference model, and compares the two. flush empties Redis; nil if that
// is not possible.
func checkRandomHistories(t *testing.T, n *world.Node, flush func()) {
	histories.ReduceRapidChecks(t, 5) // for each of the three pairs of engines
	rapid.Check(t, func(t *rapid.T) {
		w := world.NewReferenceModel(n, flush)
		t.Repeat(w.Actions())
		w.CompareFeedsAndBadges(t)
	})
}

// Badges and feeds equal the reference model after random histories, on each pair of engines.
func TestBadgesAndFeedsEqualTheModel(t *testing.T) {
	t.Run("sqlite-embedded", func(t *testing.T) {
		checkRandomHistories(t, world.StartNode(t, world.NodeOptions{Database: sqltest.SQLite(t), Redis: "embedded", ManualStepping: true}), nil)
	})
	t.Run("sqlite-redis", func(t *testing.T) {
		server := redistest.NewServer(t)
		n := world.StartNode(t, world.NodeOptions{Database: sqltest.SQLite(t), Redis: server.URL(), ManualStepping: true})
		checkRandomHistories(t, n, func() { server.Flush() })
	})
	t.Run("postgres-cluster", func(t *testing.T) {
		url, servers := redistest.ClusterServers(t)
		n := world.StartNode(t, world.NodeOptions{Database: sqltest.Postgres(t), Redis: url, ManualStepping: true})
		checkRandomHistories(t, n, func() {
			for _, server := range servers {
				server.Flush()
			}
		})
	})
}
