package sql_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"tidings/services/sql"
	"tidings/services/sql/sqltest"
)

// deletedRowMarker is the marker: a text in the names of the rows that the tests delete. The tests look for deletedRowMarkerPart, so that
// a part of a marker is found too.
const (
	deletedRowMarker     = "zqxvMARK"
	deletedRowMarkerPart = "zqxvM"
)

// scrubbedDB is a SQLite file with tables of every kind of page.
type scrubbedDB struct {
	*testing.T
	*sql.DB
	path      string
	rng       *rand.Rand // draws the changes
	lastRowID int        // the greatest ID that was given to a row
}

// createScrubTables make the tables: with rowids, without, and one that is dropped in the end.
var createScrubTables = []string{
	`CREATE TABLE rowed (id INTEGER PRIMARY KEY, name TEXT, text TEXT)`, `CREATE INDEX rowed_by_name ON rowed (name, text)`,
	`CREATE TABLE keyed (name TEXT PRIMARY KEY, id INTEGER, text TEXT) WITHOUT ROWID`,
	`CREATE TABLE dropped (id INTEGER PRIMARY KEY, name TEXT, text TEXT)`,
}

// newScrubbedDB makes a file with the empty tables. The same seed makes the same changes.
func newScrubbedDB(t *testing.T, seed uint64) *scrubbedDB {
	url := sqltest.SQLite(t)
	f := &scrubbedDB{T: t, DB: sqltest.Open(t, sql.Config{URL: url}), path: strings.TrimPrefix(url, "sqlite:"), rng: rand.New(rand.NewPCG(seed, 3))}
	f.runStatements(createScrubTables...)
	return f
}

// runStatements runs statements in one transaction.
func (f *scrubbedDB) runStatements(texts ...string) {
	f.Helper()
	err := f.Write(f.Context(), func(tx *sql.Tx) error {
		for _, text := range texts {
			if _, err := sqltest.QueryLines(f.Context(), tx, text); err != nil {
				return fmt.Errorf("%.200s: %w", text, err)
			}
		}
		return nil
	})
	if err != nil {
		f.Fatal(err)
	}
}

// repeatToRandomLength repeats a text to a random length. The longest need several overflow pages.
func (f *scrubbedDB) repeatToRandomLength(of string) string {
	length := f.rng.IntN([]int{20, 200, 2000, 5000, 20_000}[f.rng.IntN(5)])
	return strings.Repeat(of, 1+length/len(of))
}

// randomChangeStatement returns a random statement that inserts, changes or deletes a row. Most rows do not have the marker, and are kept
// when the rows with the marker are deleted.
func (f *scrubbedDB) randomChangeStatement() string {
	table := []string{"rowed", "keyed", "dropped"}[f.rng.IntN(3)]
	of, id := "kept-"+fmt.Sprint(f.rng.IntN(100)), f.rng.IntN(f.lastRowID+1)
	if f.rng.IntN(3) == 0 {
		of = deletedRowMarker
	}
	switch f.rng.IntN(8) {
	case 0:
		return fmt.Sprintf(`DELETE FROM %s WHERE id = %d`, table, id)
	case 1, 2:
		return fmt.Sprintf(`UPDATE %s SET text = '%s' WHERE id = %d AND instr(name, '%s') = %d`, table, f.repeatToRandomLength(of), id, deletedRowMarker, f.requiredMarkerPositionInName(of))
	case 3:
		return fmt.Sprintf(`UPDATE %s SET name = name || '%s' WHERE id = %d AND instr(name, '%s') = %d`, table, of, id, deletedRowMarker, f.requiredMarkerPositionInName(of))
	}
	f.lastRowID++
	return fmt.Sprintf(`INSERT INTO %s (id, name, text) VALUES (%d, '%s%d', '%s')`, table, f.lastRowID*(1-2*f.rng.IntN(2)), of, f.rng.IntN(1e9), f.repeatToRandomLength(of))
}

// requiredMarkerPositionInName returns the position that the marker must have in a row's name, by instr, before the row may get the text
// of: 1, the beginning, if of is the marker, otherwise 0, nowhere. So no row that is kept has the marker in a text.
func (f *scrubbedDB) requiredMarkerPositionInName(of string) int {
	if of == deletedRowMarker {
		return 1
	}
	return 0
}

// runRandomChanges runs a number of random changes, ten in a transaction.
func (f *scrubbedDB) runRandomChanges(count int) {
	f.Helper()
	for range count / 10 {
		texts := make([]string, 10)
		for i := range texts {
			texts[i] = f.randomChangeStatement()
		}
		f.runStatements(texts...)
	}
}

// deleteMarkedRows deletes the rows whose names have the marker, as an erasure does, and drops one table.
func (f *scrubbedDB) deleteMarkedRows() {
	f.Helper()
	f.runStatements(`DELETE FROM rowed WHERE instr(name, '`+deletedRowMarker+`') > 0`, `DELETE FROM keyed WHERE instr(name, '`+deletedRowMarker+`') > 0`, `DROP TABLE dropped`)
}

// scrub scrubs the whole file the given number of times, and empties the log.
func (f *scrubbedDB) scrub(rounds int) {
	f.Helper()
	for range rounds {
		for part := (sql.ScrubbedPart{More: true}); part.More; {
			var err error
			if part, err = f.Scrub(f.Context(), part.NextAfterPage); err != nil {
				f.Fatal(err)
			}
		}
	}
	if emptied, err := f.EmptyWAL(f.Context()); err != nil || !emptied {
		f.Fatalf("the log is emptied: %v, %v", emptied, err)
	}
}

// readAllRows returns all rows of the tables that are kept. A damaged file ends the test.
func (f *scrubbedDB) readAllRows() (all []string) {
	f.Helper()
	for _, text := range []string{`PRAGMA integrity_check`, `SELECT * FROM rowed ORDER BY id`, `SELECT * FROM keyed ORDER BY id`, `SELECT name FROM rowed ORDER BY name, text`} {
		lines, err := sqltest.QueryLines(f.Context(), f, text)
		if err != nil {
			f.Fatal(err)
		}
		all = append(all, lines...)
	}
	if all[0] != "ok" {
		f.Fatalf("the file is damaged: %q", all[:min(9, len(all))])
	}
	return all
}

// countMarkerPartsInFiles counts the occurrences of deletedRowMarkerPart in the files of the database.
func (f *scrubbedDB) countMarkerPartsInFiles() (count int) {
	f.Helper()
	for _, name := range []string{f.path, f.path + "-wal", f.path + "-shm"} {
		content, err := os.ReadFile(name)
		if err != nil {
			f.Fatal(err)
		}
		count += bytes.Count(content, []byte(deletedRowMarkerPart))
	}
	return count
}

// After a scrub nothing of deleted rows is in the files, whatever was inserted, changed and deleted before: neither in free pages
// nor in the free parts of pages and of overflow pages, nor in the log. All other rows are unchanged, and the file is sound and
// usable.
func TestScrubOverwritesWhatWasDeleted(t *testing.T) {
	for seed := range uint64(6) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			f := newScrubbedDB(t, seed)
			f.runRandomChanges(1500)
			f.deleteMarkedRows()
			before := f.readAllRows()
			if found := f.countMarkerPartsInFiles(); found < 1000 || len(before) < 200 {
				t.Fatalf("the mark is in the files %d times, with %d rows: the test proves little", found, len(before))
			}
			f.scrub(1)
			if found := f.countMarkerPartsInFiles(); found > 0 {
				t.Errorf("the mark is left %d times", found)
			}
			if after := f.readAllRows(); !slices.Equal(after, before) {
				t.Errorf("there are %d rows, before there were %d", len(after), len(before))
			}
			f.runStatements(createScrubTables[len(createScrubTables)-1])
			f.runRandomChanges(500) // pages that were scrubbed are used again
			f.deleteMarkedRows()
			f.scrub(1)
			if f.readAllRows(); f.countMarkerPartsInFiles() > 0 {
				t.Errorf("the mark is left %d times after the second scrub", f.countMarkerPartsInFiles())
			}
		})
	}
}

// A long list of free pages takes many pages itself. They are scrubbed too, because each of them was a page of a table before.
func TestScrubOverwritesALongListOfFreePages(t *testing.T) {
	f := newScrubbedDB(t, 1)
	for range 120 {
		f.lastRowID++
		f.runStatements(fmt.Sprintf(`INSERT INTO dropped (id, name, text) VALUES (%d, '%s', '%s')`, f.lastRowID, deletedRowMarker, strings.Repeat(deletedRowMarker, 12_000)))
	}
	f.runRandomChanges(100)
	f.deleteMarkedRows()
	var free int
	if lines, err := sqltest.QueryLines(t.Context(), f, `PRAGMA freelist_count`); err != nil {
		t.Fatal(err)
	} else if _, err := fmt.Sscan(lines[0], &free); err != nil || free < 2500 {
		t.Fatalf("%q free pages, %v", lines, err)
	}
	before := f.readAllRows()
	f.scrub(1)
	if found := f.countMarkerPartsInFiles(); found > 0 {
		t.Errorf("the mark is left %d times", found)
	}
	if !slices.Equal(f.readAllRows(), before) {
		t.Error("rows have changed")
	}
}

// Others write while the file is scrubbed. None of their rows is lost, and after one more round nothing of rows deleted before is
// left.
func TestScrubBesideOtherWrites(t *testing.T) {
	f := newScrubbedDB(t, 2)
	f.runRandomChanges(1000)
	f.deleteMarkedRows()
	ctx, end := context.WithCancel(t.Context())
	var writing sync.WaitGroup
	var count atomic.Int64
	writing.Go(func() {
		for ctx.Err() == nil && count.Load() < 100_000 {
			err := f.Write(t.Context(), func(tx *sql.Tx) error {
				for range 5 {
					written := count.Add(1)
					text := fmt.Sprintf(`INSERT INTO rowed (id, name, text) VALUES (%d, 'new', 'n-%d')`, 1_000_000+(int(written)*7919)%100_003, written)
					if _, err := sqltest.QueryLines(t.Context(), tx, text); err != nil {
						return err
					}
				}
				return nil
			})
			if err != nil {
				t.Error(err)
				return
			}
		}
	})
	for rounds := 0; rounds < 4 || count.Load() < 500 && !t.Failed(); rounds++ {
		f.scrub(2)
	}
	end()
	writing.Wait()
	lines, err := sqltest.QueryLines(t.Context(), f, `SELECT count(*), count(DISTINCT text) FROM rowed WHERE name = 'new'`)
	if want := fmt.Sprintf("%d %d", count.Load(), count.Load()); err != nil || lines[0] != want {
		t.Errorf("there are %q, written were %s: %v", lines, want, err)
	}
	f.scrub(1)
	if f.readAllRows(); f.countMarkerPartsInFiles() > 0 {
		t.Errorf("the mark is left %d times", f.countMarkerPartsInFiles())
	}
}

// While a reader is in the middle of a read, the log cannot be emptied, but writes succeed. After the read another try succeeds.
func TestEmptyWALDoesNotWaitForReaders(t *testing.T) {
	f := newScrubbedDB(t, 3)
	f.runRandomChanges(50)
	held := sql.NewStatement("rows of the test", `SELECT id FROM rowed`)
	reading := false
	err := f.Each(t.Context(), held, nil, func(scan func(...any) error) error {
		var id int
		if err := scan(&id); err != nil || reading {
			return err
		}
		reading = true
		f.runStatements(`INSERT INTO rowed (id, name) VALUES (2000000, 'behind the reader')`)
		if emptied, err := f.EmptyWAL(t.Context()); emptied || err != nil {
			t.Errorf("the log that a reader holds is emptied: %v, %v", emptied, err)
		}
		f.runStatements(`INSERT INTO rowed (id, name) VALUES (2000001, 'after the try')`)
		return nil
	})
	if err != nil || !reading {
		t.Fatal(reading, err)
	}
	if emptied, err := f.EmptyWAL(t.Context()); !emptied || err != nil {
		t.Errorf("after the reader it is emptied: %v, %v", emptied, err)
	}
	if log, err := os.Stat(f.path + "-wal"); err != nil || log.Size() != 0 {
		t.Errorf("the log has %v, %v", log, err)
	}
	if rows := f.readAllRows(); !slices.ContainsFunc(rows, func(row string) bool { return strings.Contains(row, "after the try") }) {
		t.Error("a row is lost")
	}
}

// On PostgreSQL a scrub does nothing, and a closed database is refused.
func TestScrubOnPostgresAndOnAClosedDatabase(t *testing.T) {
	db := sqltest.Open(t, sql.Config{URL: sqltest.Postgres(t)})
	if part, err := db.Scrub(t.Context(), 0); part != (sql.ScrubbedPart{}) || err != nil || db.CanScrub() {
		t.Errorf("PostgreSQL is scrubbed: %+v, %v", part, err)
	}
	if damage, err := db.FindDamage(t.Context()); damage != "" || err != nil {
		t.Errorf("PostgreSQL is checked: %q, %v", damage, err)
	}
	if emptied, err := db.EmptyWAL(t.Context()); !emptied || err != nil {
		t.Errorf("%v, %v", emptied, err)
	}
	f := newScrubbedDB(t, 4)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := f.EmptyWAL(t.Context()); err == nil {
		t.Error("the log of a closed database is emptied")
	}
	if _, err := f.Scrub(t.Context(), 0); err == nil {
		t.Error("a closed database is scrubbed")
	}
}

// When the log has filled the disk, no write fits that would copy it into the file. So the log is emptied before writes are tried
// again.
func TestCheckWritesEmptiesTheWALFirst(t *testing.T) {
	f := newScrubbedDB(t, 5)
	f.runRandomChanges(50)
	refused := errors.New("disk: file too large")
	if err := f.Write(t.Context(), func(*sql.Tx) error { return refused }); !errors.Is(err, refused) || !f.RefusesWrites() {
		t.Fatalf("%v, writes are refused: %v", err, f.RefusesWrites())
	}
	if err := f.CheckWrites(t.Context()); err != nil || f.RefusesWrites() {
		t.Errorf("%v, writes are refused: %v", err, f.RefusesWrites())
	}
	if log, err := os.Stat(f.path + "-wal"); err != nil || log.Size() > 32<<10 {
		t.Errorf("the log has %d bytes, %v", log.Size(), err)
	}
}
