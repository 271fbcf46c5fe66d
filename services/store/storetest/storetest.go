// Package storetest opens stores for tests, on databases of package sqltest.
package storetest

import (
	"testing"

	"tidings/services/sql"
	"tidings/services/sql/sqltest"
	"tidings/services/store"
)

// Each runs a test on both engines, as the subtests sqlite and postgres, each time on a new database. Every call of
// open opens that same database; SQLite's only after the last one opened was closed. The test's end closes it.
func Each(t *testing.T, test func(t *testing.T, open func() *store.Store)) {
	t.Helper()
	sqltest.EachURL(t, func(t *testing.T, url string) {
		test(t, func() *store.Store { return Open(t, sql.Config{URL: url}) })
	})
}

// Open opens a store that the test's end closes; see sqltest.Open.
func Open(tb testing.TB, cfg sql.Config) *store.Store {
	tb.Helper()
	return &store.Store{DB: sqltest.Open(tb, cfg)}
}
