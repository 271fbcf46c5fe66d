package erasures

import (
	"bytes"
	"log/slog"
	"os"
	"strings"
	"testing"
	"time"

	"tidings/services/fanout/fanouttest"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
)

var rowsToHold = sql.NewStatement("rows that the test holds", `SELECT name FROM counters`)

// at is the step at which the erasure is.
func (w *world) at() string {
	w.TB.Helper()
	rows, err := w.Store.Lines(w.TB.Context(), `SELECT step FROM erasures`)
	if w.Must(err); len(rows) != 1 {
		w.TB.Fatalf("%q", rows)
	}
	return rows[0]
}

// A reader that never ends, as a backup that hangs, holds the write-ahead log. The erasure ends all the same, after some tries, and the
// server's log says so; a reader that ends in time is only waited for.
func TestAReaderDoesNotHoldAnErasure(t *testing.T) {
	for _, ends := range []bool{true, false} {
		var said bytes.Buffer
		url := sqltest.SQLite(t)
		w := newWorld(t, fanouttest.Options{SQL: url, Redis: "embedded"}, nothing("nothing"))
		w.cfg.Logger = slog.New(slog.NewTextHandler(&said, nil))
		erasure := w.begin()
		tries := 0
		held := func(scan func(...any) error) error { // the rest of the rows is not read yet
			if tries > 0 {
				return nil
			}
			for !erasure.Done() && (!ends || w.at() != emptyLog) {
				w.Work(w.Fanout)
				w.Clock.Advance(time.Second)
				if tries++; tries > 200 {
					t.Fatal("the erasure does not end")
				}
				var err error
				if erasure, _, err = w.ByName(t.Context(), erasure.Name); err != nil {
					t.Fatal(err)
				}
			}
			return nil
		}
		w.Must(w.Store.Each(t.Context(), rowsToHold, nil, held))
		if ends == erasure.Done() {
			t.Errorf("with a reader that ends: %v, the erasure is done: %v", ends, erasure.Done())
		}
		w.end(erasure)
		if warned := strings.Contains(said.String(), "level=WARN"); warned == ends {
			t.Errorf("with a reader that ends: %v, the log says %s", ends, said.String())
		}
		log, err := os.Stat(strings.TrimPrefix(url, "sqlite:") + "-wal")
		if w.Must(err); ends && log.Size() > 64<<10 { // what ends the erasure is written behind it
			t.Errorf("the log has %d bytes", log.Size())
		}
	}
}
