package sqltest

import (
	"context"
	"testing"

	"tidings/services/sql"
)

// TestDB is an open database of a test. A step that fails ends the test. Its clock is stopped: a test advances it.
type TestDB struct {
	*sql.DB
	T     *testing.T
	Ctx   context.Context
	Clock *Clock
	URL   string // of the database
}

// EachTestDB runs a test on both engines, each time on a new database with a stopped clock.
func EachTestDB(t *testing.T, test func(b *TestDB)) {
	t.Helper()
	EachURL(t, func(t *testing.T, url string) { test(NewTestDB(t, url)) })
}

// NewTestDB opens a database with a stopped clock; the test's end closes it.
func NewTestDB(t *testing.T, url string) *TestDB {
	t.Helper()
	clock := NewClock()
	return &TestDB{Open(t, sql.Config{URL: url, Clock: clock}), t, t.Context(), clock, url}
}

// MustWrite runs one transaction that must succeed.
func (b *TestDB) MustWrite(fn func(tx *sql.Tx) error) {
	b.T.Helper()
	if err := b.Write(b.Ctx, fn); err != nil {
		b.T.Fatal(err)
	}
}
