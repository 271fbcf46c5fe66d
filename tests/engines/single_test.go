package engines

import (
	"errors"
	"testing"

	"tidings/services/sql"
	"tidings/services/sql/sqltest"
)

// A batch of one function takes a round trip for each answer that the function waits for, and one for COMMIT. No statement is sent
// twice, unless the function fails after a change.
func TestASingleFunctionWaitsOnlyForItsAnswers(t *testing.T) {
	url, trips := sqltest.CountRoundTrips(t, sqltest.Postgres(t))
	b := newTestDB(t, url)
	b.MustWrite(func(tx *sql.Tx) error {
		return execute(b.Ctx, tx, `CREATE TABLE cells (k BIGINT PRIMARY KEY, v BIGINT NOT NULL)`)
	})
	steps := func(ops ...cellStep) func(*sql.Tx) error {
		return func(tx *sql.Tx) error {
			_, err := runCellSteps(databaseCells{b.Ctx, tx}, ops)
			return err
		}
	}
	read, put := cellStep{"read", 1, 0}, cellStep{"put", 1, 0}
	b.MustWrite(steps(cellStep{"keep", 1, 0}))
	const around = 3 // the statements of a batch besides the function's own: BEGIN, a savepoint and COMMIT
	for _, c := range []struct {
		name              string
		fn                func(*sql.Tx) error
		want              error
		trips, statements int // round trips, and statements without those of around
	}{
		{"two writes", steps(put, put), nil, 2, 2},
		{"a read and two writes", steps(read, put, put), nil, 3, 3},
		{"reads and writes in turns", steps(put, read, put, read, put), nil, 4, 5},
		{"a wrong guess", func(tx *sql.Tx) error {
			table := databaseCells{b.Ctx, tx}
			changed, err := table.updateRow(1000, 1)
			if err == nil && changed == 0 {
				_, err = table.read(1)
			}
			return err
		}, nil, 3, 2},
		{"a failure that changed nothing", func(tx *sql.Tx) error {
			return errors.Join(steps(read)(tx), errDeliberate)
		}, errDeliberate, 2, 1},
		{"a read, and a failure that changed something", func(tx *sql.Tx) error {
			return errors.Join(steps(read, put)(tx), errDeliberate)
		}, errDeliberate, 3, 1 + 1 + 2 + 3}, // a rollback, both statements again, between savepoints
	} {
		t.Run(c.name, func(t *testing.T) {
			for range 2 { // the first time, the connection prepares the statements
				trips.TakeRoundTrips()
				trips.TakeStatements()
				if err := b.WriteAll(b.Ctx, []func(*sql.Tx) error{c.fn})[0]; !errors.Is(err, c.want) {
					t.Errorf("the answer is %v, want %v", err, c.want)
				}
			}
			if took, sent := trips.TakeRoundTrips(), trips.TakeStatements(); took != c.trips || sent != c.statements+around {
				t.Errorf("%d round trips with %d statements, want %d with %d", took, sent, c.trips, c.statements+around)
			}
		})
	}
}
