package store_test

import (
	"sync"
	"testing"
	"tidings/services"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
	"tidings/services/store"
	"tidings/services/store/storetest"
	"time"
)

func TestPositionsOnlyGrow(t *testing.T) {
	each(t, func(b *bundle) {
		equal(b.t, must(b.Position(b.ctx, 1, store.HomePage, ""))(b.t), services.PostID(0))
		for _, step := range []struct{ to, stands services.PostID }{{7, 7}, {5, 7}, {7, 7}, {9, 9}, {0, 9}, {services.MaxPostID, services.MaxPostID}} {
			b.clock.advance(time.Second)
			var stands services.PostID
			b.write(func(tx *store.Tx) (err error) {
				stands, err = tx.RaisePosition(b.ctx, 1, store.HomePage, "", step.to)
				return err
			})
			equal(b.t, stands, step.stands)
			equal(b.t, must(b.Position(b.ctx, 1, store.HomePage, ""))(b.t), step.stands)
		}
		equal(b.t, must(b.Position(b.ctx, 2, store.HomePage, ""))(b.t), services.PostID(0))
		equal(b.t, must(b.Position(b.ctx, 1, store.HomePage, "x"))(b.t), services.PostID(0))
		equal(b.t, must(b.Position(b.ctx, 1, "topic", ""))(b.t), services.PostID(0))
		rows := must(b.Lines(b.ctx, "SELECT last_access_at - $1 FROM user_access_log", b.clock.Now()))(b.t)
		equal(b.t, rows, []string{"0"}) // a late report is an access too
	})
}

// The trace names each statement, reads and writes, so that tests can count what an operation costs.
func TestTraceNamesEachStatement(t *testing.T) {
	sqltest.EachURL(t, func(t *testing.T, url string) {
		var mu sync.Mutex
		var told []string
		s := storetest.Open(t, sql.Config{URL: url, Trace: func(statement string) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, statement)
		}})
		ctx := t.Context()
		if _, err := s.Position(ctx, 1, store.HomePage, ""); err != nil {
			t.Fatal(err)
		}
		err := s.Write(ctx, func(tx *store.Tx) error { _, err := tx.RaisePosition(ctx, 1, store.HomePage, "", 1); return err })
		if err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		defer mu.Unlock()
		if len(told) < 2 || told[len(told)-2] != "a position" || told[len(told)-1] != "raise a position" {
			t.Errorf("it was told %q", told)
		}
	})
}
