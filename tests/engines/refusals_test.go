package engines

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
)

// A database without room reports that it refuses writes, from the first refused write until a write is on disk again. Reads, and
// writes that fail for other reasons, do not change the report.
func TestFullDatabaseRefusesWrites(t *testing.T) {
	b := newBundle(t, sqltest.SQLite(t))
	limit := func(pages string) {
		b.write(func(tx *sql.Tx) error {
			_, err := tx.Lines(b.ctx, "PRAGMA max_page_count = "+pages)
			return err
		})
	}
	big := func(tx *sql.Tx) error {
		return putPost(b.ctx, tx, 1, 2, strings.Repeat("x", 1<<20))
	}
	want := func(refuses bool, when string) {
		t.Helper()
		if b.RefusesWrites() != refuses {
			t.Errorf("%s: %v, want %v", when, !refuses, refuses)
		}
	}
	coded(t, b.Write(b.ctx, func(*sql.Tx) error { return errMine }), services.Internal)
	ended, cancel := context.WithCancel(b.ctx)
	cancel()
	_ = b.Write(ended, big)
	want(false, "after errors of callers")
	if err := b.CheckWrites(ended); err != nil {
		t.Errorf("while all is well it is not tried at all: %v", err)
	}
	limit(must(b.Lines(b.ctx, "PRAGMA page_count"))(t)[0])
	coded(t, b.Write(b.ctx, big), services.Unavailable)
	want(true, "without room")
	b.write(func(*sql.Tx) error { return nil })
	want(true, "after a write of nothing")
	if err := b.CheckWrites(ended); err == nil {
		t.Error("a check without time must not try to write")
	}
	want(true, "after a try that did not happen")
	limit("1000000")
	want(true, "before anything is tried")
	watch, stop := context.WithCancel(b.ctx)
	watched := make(chan error, 1)
	go func() { watched <- b.Watch(watch) }()
	deadline := time.After(30 * time.Second)
	for b.RefusesWrites() {
		select {
		case <-deadline:
			t.Fatal("it refuses writes for ever")
		case <-time.After(10 * time.Millisecond):
		}
	}
	stop()
	if err := <-watched; !errors.Is(err, context.Canceled) {
		t.Errorf("the watch ended with %v", err)
	}
	b.write(big)
}

func TestErrorsThatMeanRefusedWrites(t *testing.T) {
	for _, c := range []struct {
		err  error
		want bool
	}{
		{nil, false}, {errMine, false}, {context.DeadlineExceeded, false},
		{sqltest.PostgresError("53100", ""), true}, {sqltest.PostgresError("25006", ""), true}, {sqltest.PostgresError("58030", ""), true},
		{sqltest.PostgresError("53300", ""), false}, {sqltest.PostgresError("40001", ""), false}, {sqltest.PostgresError("57P01", ""), false},
		{errors.New("write tidings.db-wal: file too large"), true},
	} {
		for _, err := range []error{c.err, sql.Fault("test", c.err)} {
			if got := sql.Refused(err); got != c.want {
				t.Errorf("%v: %v, want %v", fmt.Sprint(err), got, c.want)
			}
		}
	}
}
