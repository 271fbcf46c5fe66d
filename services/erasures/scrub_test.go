package erasures

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"tidings/services/fanout/fanouttest"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
)

// selectCounterNames is a read that the tests keep open, so that the write-ahead log cannot be emptied meanwhile.
var selectCounterNames = sql.NewStatement("rows that the test holds", `SELECT name FROM counters`)

// currentStep returns the step at which the erasure is.
func (w *erasureWorld) currentStep() string {
	w.TB.Helper()
	rows, err := sqltest.QueryLines(w.TB.Context(), w.DB, `SELECT step FROM erasures`)
	if w.Must(err); len(rows) != 1 {
		w.TB.Fatalf("%q", rows)
	}
	return rows[0]
}

// runOneSecond runs the due jobs, and advances the clock by a second. It returns the erasure as it is then.
func (w *erasureWorld) runOneSecond(erasure Erasure) Erasure {
	w.TB.Helper()
	w.RunDueJobs(w.Fanout)
	w.Clock.Advance(time.Second)
	now, _, err := w.ByName(w.TB.Context(), erasure.Name)
	w.Must(err)
	return now
}

// A reader that never ends, such as a backup that hangs, holds the write-ahead log. The erasure still ends, after some tries,
// and the server's log says so. If the reader ends in time, the erasure waits for it and logs nothing.
func TestAnEndlessReaderDoesNotBlockAnErasure(t *testing.T) {
	for _, ends := range []bool{true, false} {
		var said bytes.Buffer
		url := sqltest.SQLite(t)
		w := newErasureWorld(t, fanouttest.Options{SQLURL: url, RedisURL: "embedded"}, emptyStep("nothing"))
		w.cfg.Logger = slog.New(slog.NewTextHandler(&said, nil))
		erasure := w.beginErasure()
		tries := 0
		held := func(scan func(...any) error) error { // the read stays open until the call for the first row returns
			if tries > 0 {
				return nil
			}
			for !erasure.Done() && (!ends || w.currentStep() != stepEmptyWAL) {
				if tries++; tries > 200 {
					t.Fatal("the erasure does not end")
				}
				erasure = w.runOneSecond(erasure)
			}
			return nil
		}
		w.Must(w.DB.Each(t.Context(), selectCounterNames, nil, held))
		if ends == erasure.Done() {
			t.Errorf("with a reader that ends: %v, the erasure is done: %v", ends, erasure.Done())
		}
		w.runToEnd(erasure)
		if warned := strings.Contains(said.String(), "level=WARN"); warned == ends {
			t.Errorf("with a reader that ends: %v, the log says %s", ends, said.String())
		}
		log, err := os.Stat(strings.TrimPrefix(url, "sqlite:") + "-wal")
		if w.Must(err); ends && log.Size() > 64<<10 { // a little is left: the end of the erasure is written after the log was emptied
			t.Errorf("the log has %d bytes", log.Size())
		}
	}
}

// A damaged file is not overwritten: the erasure ends, and the server's log says why.
func TestADamagedFileIsNotScrubbed(t *testing.T) {
	var said bytes.Buffer
	url := sqltest.SQLite(t)
	w := newErasureWorld(t, fanouttest.Options{SQLURL: url, RedisURL: "embedded"}, emptyStep("nothing"))
	w.cfg.Logger = slog.New(slog.NewTextHandler(&said, nil))
	w.Write(func(ctx context.Context, tx *sql.Tx) error {
		for _, text := range []string{
			`CREATE TABLE damaged (id INTEGER PRIMARY KEY, name TEXT)`, `INSERT INTO damaged (name) VALUES ('a'), ('b')`,
			`UPDATE sqlite_dbpage SET data = CAST(substr(data, 1, 4) || x'09' || substr(data, 6) AS BLOB) -- nine rows
				WHERE pgno = (SELECT rootpage FROM sqlite_schema WHERE name = 'damaged')`,
		} {
			if _, err := sqltest.QueryLines(ctx, tx, text); err != nil {
				return fmt.Errorf("%s: %w", text, err)
			}
		}
		return nil
	})
	if damage, err := w.DB.FindDamage(t.Context()); err != nil || damage == "" {
		t.Fatalf("the file is not damaged: %q, %v", damage, err)
	}
	if erasure := w.runToEnd(w.beginErasure()); !erasure.Done() {
		t.Error("the erasure does not end")
	}
	if text := said.String(); !strings.Contains(text, "level=ERROR") || !strings.Contains(text, "it was not scrubbed") {
		t.Errorf("the log says %s", text)
	}
}

// While a reader holds the write-ahead log, overwritten pages make that log longer. Beyond a bound the scrub waits for the reader. The
// scrub continues if the reader ends, and is given up otherwise.
func TestAScrubDoesNotFillTheDisk(t *testing.T) {
	for _, ends := range []bool{true, false} {
		var said bytes.Buffer
		w := newErasureWorld(t, fanouttest.Options{SQLURL: sqltest.SQLite(t), RedisURL: "embedded"}, emptyStep("nothing"))
		w.cfg.Logger = slog.New(slog.NewTextHandler(&said, nil))
		w.scrubState.walPages = maxWALPages
		erasure := w.beginErasure()
		tries := 0
		held := func(func(...any) error) error {
			if tries > 0 {
				return nil
			}
			for !erasure.Done() && (!ends || w.scrubState.emptyWALFailures < 3) {
				if tries++; tries > 200 {
					t.Fatal("the erasure does not end")
				}
				erasure = w.runOneSecond(erasure)
			}
			return nil
		}
		w.Must(w.DB.Each(t.Context(), selectCounterNames, nil, held))
		if ends && w.currentStep() != stepScrubFile {
			t.Errorf("the scrub goes on to %s", w.currentStep())
		}
		w.runToEnd(erasure)
		if given := strings.Contains(said.String(), "it was not scrubbed"); given == ends {
			t.Errorf("with a reader that ends: %v, the log says %s", ends, said.String())
		}
		if ends && w.scrubState.walPages >= maxWALPages {
			t.Errorf("the log was not emptied: %d pages since", w.scrubState.walPages)
		}
	}
}
