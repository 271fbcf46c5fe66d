package world

import (
	"testing"
	"time"

	"tidings/services/node"
	"tidings/services/redis/redistest"
	"tidings/services/sql/sqltest"
)

// ForEachStoragePair runs a test on every pair of a database and a Redis that the project supports.
func ForEachStoragePair(t *testing.T, test func(t *testing.T, options NodeOptions)) {
	t.Helper()
	t.Run("sqlite-embedded", func(t *testing.T) {
		test(t, NodeOptions{Database: sqltest.SQLite(t), Redis: "embedded"})
	})
	t.Run("sqlite-redis", func(t *testing.T) {
		test(t, NodeOptions{Database: sqltest.SQLite(t), Redis: redistest.Redis(t)})
	})
	t.Run("postgres-cluster", func(t *testing.T) {
		test(t, NodeOptions{Database: sqltest.Postgres(t), Redis: redistest.Cluster(t)})
	})
}

// DeviceUpdateTimeout is how long a change may take to reach a device on a machine that is busy with other tests. The promise is a
// second. It must stay far below 30 s: within that time reconciliation renders the badges of every watched user once more (see
// CompareOneUserIn of push.Config), and so a device would be shown even changes of which nothing notified its node.
const DeviceUpdateTimeout = 10 * time.Second

// nodePair is two nodes on one PostgreSQL and one Redis.
type nodePair struct {
	t    *testing.T
	A, B *Node
}

// StartNodePair starts two nodes on one new PostgreSQL database and one Redis.
func StartNodePair(t *testing.T, redis string, change func(*node.Config)) nodePair {
	t.Helper()
	database := sqltest.Postgres(t)
	start := func(name string) *Node {
		return StartNode(t, NodeOptions{Database: database, Redis: redis, ChangeConfig: func(cfg *node.Config) {
			cfg.Node = name
			if change != nil {
				change(cfg)
			}
		}})
	}
	return nodePair{t: t, A: start("a"), B: start("b")}
}
