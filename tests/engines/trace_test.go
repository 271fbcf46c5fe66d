package engines

import (
	"sync"
	"testing"

	"tidings/services/positions"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
)

// sql.Config.Trace is called with the name of each statement, of reads and of writes, so that tests can count the statements of an
// operation.
func TestTraceNamesEachStatement(t *testing.T) {
	sqltest.EachURL(t, func(t *testing.T, url string) {
		var mu sync.Mutex
		var traced []string
		s := sqltest.Open(t, sql.Config{URL: url, Trace: func(statement string) {
			mu.Lock()
			defer mu.Unlock()
			traced = append(traced, statement)
		}})
		ctx := t.Context()
		if _, err := positions.Of[uint64](ctx, s, 1, positions.HomeFeedView); err != nil {
			t.Fatal(err)
		}
		err := s.Write(ctx, func(tx *sql.Tx) error {
			_, err := positions.Advance(ctx, tx, 1, positions.HomeFeedView, 1)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		defer mu.Unlock()
		if len(traced) < 2 || traced[len(traced)-2] != "a position" || traced[len(traced)-1] != "raise a position" {
			t.Errorf("it traced %q", traced)
		}
	})
}
