// Package sqltest gives tests a database of their own: SQLite in a file, PostgreSQL in a server that the test
// binary starts and that ends with it.
//
// It guarantees that no two calls share a database, and that nothing outlives the test binary, even if the binary is killed. It
// never skips: without PostgreSQL's programs the test fails and says how to get them.
package sqltest

import (
	database "database/sql"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"tidings/services/sql"
)

// EachURL runs a test on both engines, as the subtests sqlite and postgres, each time with the URL of a new database.
func EachURL(t *testing.T, test func(t *testing.T, url string)) {
	t.Helper()
	t.Run("sqlite", func(t *testing.T) { test(t, SQLite(t)) })
	t.Run("postgres", func(t *testing.T) { test(t, Postgres(t)) })
}

// SQLite is the URL of a new SQLite file, which is deleted with the test. It has all tables, and they are empty.
func SQLite(tb testing.TB) (url string) {
	tb.Helper()
	// The file is a copy of a migrated file: the migrations themselves take longer than most tests.
	content, err := migratedFile()
	path := filepath.Join(tb.TempDir(), "tidings.db")
	if err == nil {
		err = os.WriteFile(path, content, 0o600)
	}
	if err != nil {
		tb.Fatal(err)
	}
	return "sqlite:" + path
}

// LockSQLiteFile takes the write lock of a SQLite file, as another process does, until release or the test's end.
func LockSQLiteFile(tb testing.TB, url string) (release func()) {
	tb.Helper()
	db, err := database.Open("sqlite", strings.TrimPrefix(url, "sqlite:"))
	if err == nil {
		db.SetMaxOpenConns(1)
		_, err = db.ExecContext(tb.Context(), "BEGIN IMMEDIATE")
	}
	if err != nil {
		tb.Fatalf("sqltest: lock %s: %v", url, err)
	}
	release = sync.OnceFunc(func() { _ = db.Close() }) // which ends the transaction
	tb.Cleanup(release)
	return release
}

// Open opens a database, which the end of the test closes. Its log goes to the test's output.
func Open(tb testing.TB, cfg sql.Config) *sql.DB {
	tb.Helper()
	if cfg.Log == nil {
		cfg.Log = slog.New(slog.NewTextHandler(tb.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	}
	db, err := sql.Open(tb.Context(), cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := db.Close(); err != nil {
			tb.Error(err)
		}
	})
	return db
}
