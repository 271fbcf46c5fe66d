// Package rdbtest opens the projections of users for tests of features, on the servers of redistest. A step that fails ends
// the test.
package rdbtest

import (
	"testing"

	"tidings/services"
	"tidings/services/rdb"
	"tidings/services/redis"
	"tidings/services/redis/clienttest"
	"tidings/services/redis/redistest"
)

// Open opens projections that the test's end closes.
func Open(tb testing.TB, options redis.Options, shape rdb.DocumentShape) *rdb.Projections {
	tb.Helper()
	return clienttest.OpenBy(tb, options, func(options redis.Options) (*rdb.Projections, error) {
		return rdb.Open(tb.Context(), options, shape)
	})
}

// EachRedis runs a test with an empty Redis of each kind: embedded, one server, and a cluster.
func EachRedis(t *testing.T, run func(t *testing.T, c *rdb.Projections)) {
	t.Helper()
	redistest.EachRedis(t, func(t *testing.T, url string) {
		// The servers are shared by tests and slow under the race detector, so a timeout says nothing about the code under test.
		run(t, Open(t, redis.Options{URL: url, ReadTimeout: clienttest.LongReadTimeout}, rdb.DocumentShape{}))
	})
}

// Snapshot reads everything that Redis holds of one user's projection.
func Snapshot(tb testing.TB, c *rdb.Projections, user services.UserID) rdb.UserSnapshot {
	tb.Helper()
	snapshots, err := c.ReadUserSnapshots(tb.Context(), []services.UserID{user})
	if err != nil {
		tb.Fatal(err)
	}
	return snapshots[0]
}
