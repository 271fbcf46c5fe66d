package sqltest

import (
	"testing"

	"tidings/services/sql"
)

// EachEngine runs a test on both engines, as the subtests sqlite and postgres, each time on a new database. Every call of open opens
// that database again; on SQLite the earlier DB must be closed first. The end of the test closes every DB.
func EachEngine(t *testing.T, test func(t *testing.T, open func() *sql.DB)) {
	t.Helper()
	EachURL(t, func(t *testing.T, url string) {
		test(t, func() *sql.DB { return Open(t, sql.Config{URL: url}) })
	})
}
