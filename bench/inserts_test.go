package main

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	"tidings/services/sql"
)

// The rows of a load are those that were not there before it. After a round of the floor, a new database has the same rows.
func TestTheFloorInsertsWhatTheLoadHasWritten(t *testing.T) {
	folder := t.TempDir()
	file := filepath.Join(folder, "tidings.db")
	tables, err := sql.Open(t.Context(), sql.Config{URL: "sqlite:" + file})
	if err != nil {
		t.Fatal(err)
	}
	if err := tables.Close(); err != nil {
		t.Fatal(err)
	}
	store, err := openRawSQLite(file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = store.Close() })
	insert := func(from, to int) {
		t.Helper()
		for i := from; i < to; i++ {
			if _, err := store.ExecContext(t.Context(), `INSERT INTO users (number, key) VALUES ($1, $2)`, i, fmt.Sprint("person-", i)); err != nil {
				t.Fatal(err)
			}
		}
	}
	var twins []string
	inserts, err := openInsertBaseline("sqlite", file, 1, func(context.Context) (string, string, error) {
		name := filepath.Join(folder, fmt.Sprint("twin-", len(twins), ".db"))
		twins = append(twins, name)
		return "sqlite:" + name, name, nil
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = inserts.loadDatabase.Close() })
	insert(1, 10)
	if err := inserts.recordRowsBeforeLoad(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := inserts.collectWrittenRows(t.Context(), 5); err == nil || !strings.Contains(err.Error(), "no row") {
		t.Errorf("a load that wrote nothing: %v", err)
	}
	const events = 3 * ingestBatchSize
	insert(10, 10+events)
	if _, err := store.ExecContext(t.Context(), `UPDATE counters SET value = 77 WHERE name = 'users'`); err != nil {
		t.Fatal(err)
	}
	if err := inserts.collectWrittenRows(t.Context(), events); err != nil {
		t.Fatal(err)
	}
	if err := inserts.recordRowsBeforeLoad(t.Context()); err != nil {
		t.Fatal(err)
	}
	insert(10_000, 10_010) // of a second load, which does not count
	if err := inserts.collectWrittenRows(t.Context(), 10); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := inserts.measureRound(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if len(twins) != 2 || len(inserts.results) != 2 || !(inserts.results[0].ratePerSecond > 0) {
		t.Fatalf("twins %v, %+v", twins, inserts.results)
	}
	twin, err := openRawSQLite(twins[1])
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = twin.Close() })
	var count, least, greatest int
	if err := twin.QueryRowContext(t.Context(), `SELECT count(*), min(number), max(number) FROM users`).Scan(&count, &least, &greatest); err != nil {
		t.Fatal(err)
	}
	if count != events || least != 10 || greatest != 9+events {
		t.Errorf("the twin has %d users from %d to %d, the load wrote %d from 10 on", count, least, greatest, events)
	}
	if l := inserts.compareLoad("ingest", series{{ratePerSecond: 2 * inserts.results.medianRate()}}); l.value != 2 || l.unit != "x" {
		t.Errorf("%+v", l)
	}
}

func TestPlaceholders(t *testing.T) {
	for want, got := range map[string]string{"($1)": placeholders(1, 1), "($1,$2),($3,$4)": placeholders(2, 2), "($1),($2),($3)": placeholders(3, 1)} {
		if got != want {
			t.Errorf("got %s, want %s", got, want)
		}
	}
}

// Each call replaces the database of the call before by an empty one.
func TestNewDatabasesAreEmpty(t *testing.T) {
	newEmptyDatabase := sqliteDatabaseFactory(t.TempDir())
	for range 2 {
		url, name, err := newEmptyDatabase(t.Context())
		if err != nil || url != "sqlite:"+name {
			t.Fatalf("%s, %s, %v", url, name, err)
		}
		db, err := openRawSQLite(name)
		if err != nil {
			t.Fatal(err)
		}
		if err := createBareCommitTable(t.Context(), db); err != nil {
			t.Errorf("it is not empty: %v", err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
	}
}
