package engines

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"tidings/services"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
)

// errLimitReached is what the functions of cellInserterBelowLimit return if the owner has no room for a row.
var errLimitReached = errors.New("there is no room")

// cellsPerOwnerLimit is the limit of how many rows of the table owned an owner may have.
var cellsPerOwnerLimit = sql.NewOwnerLimit("cells", sql.AdHoc("whether there are too many cells", `SELECT 1 WHERE NOT EXISTS (
	SELECT 1 FROM {rows $1 owner BIGINT, most BIGINT} AS c WHERE (SELECT count(*) FROM owned WHERE owner = c.owner) > c.most)`))

// cellInserterBelowLimit returns a function that inserts a row of an owner if the owner has fewer than most. keep says whether it also
// enforces cellsPerOwnerLimit, which holds against other transactions.
func cellInserterBelowLimit(ctx context.Context, owner services.UserID, cell, most int, keep bool) func(tx *sql.Tx) error {
	count := sql.AdHoc("count cells", `SELECT count(*) FROM owned WHERE owner = $1`)
	insert := sql.AdHoc("insert a cell", `INSERT INTO owned (owner, cell) VALUES ($1, $2)`)
	return func(tx *sql.Tx) error {
		rows := 0
		if _, err := tx.One(ctx, count, []any{owner}, &rows); err != nil {
			return err
		}
		if rows >= most {
			return errLimitReached
		}
		if keep {
			tx.EnforceLimit(cellsPerOwnerLimit, owner, most)
		}
		_, err := tx.Run(ctx, insert, owner, cell)
		return err
	}
}

// createCellsPerOwnerTable creates the table owned.
func (b *testDB) createCellsPerOwnerTable() {
	b.MustWrite(func(tx *sql.Tx) error {
		return execute(b.Ctx, tx, `CREATE TABLE owned (owner BIGINT NOT NULL, cell BIGINT NOT NULL, PRIMARY KEY (owner, cell))`)
	})
}

// Batches and single writes that insert rows of the same owners at once fill each owner's limit, and never pass it.
func TestALimitHoldsAgainstConcurrentBatches(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		b.createCellsPerOwnerTable()
		const owners, most, writers, rows = 3, 20, 6, 10
		var all sync.WaitGroup
		for writer := range writers {
			all.Go(func() {
				var fns []func(*sql.Tx) error
				for i := range rows * owners {
					owner := services.UserID(1 + (i+writer)%owners) // writers have the owners in different orders
					fns = append(fns, cellInserterBelowLimit(b.Ctx, owner, writer*1000+i, most, true))
				}
				for len(fns) > 0 {
					size := min(len(fns), 1+writer*3)
					for _, err := range b.WriteAll(b.Ctx, fns[:size]) {
						if err != nil && !errors.Is(err, errLimitReached) {
							b.T.Error(err)
						}
					}
					fns = fns[size:]
				}
			})
		}
		all.Wait()
		lines := must(sqltest.QueryLines(b.Ctx, b, "SELECT owner, count(*) FROM owned GROUP BY owner ORDER BY owner"))(b.T)
		equal(b.T, fmt.Sprint(lines), "[1 20 2 20 3 20]")
	})
}

// A limit locks the owner and counts the owner's rows at the end of a transaction. Both go out with the insertion, so they take no round
// trip.
func TestALimitTakesNoRoundTrip(t *testing.T) {
	url, trips := sqltest.CountRoundTrips(t, sqltest.Postgres(t))
	b := newTestDB(t, url)
	b.createCellsPerOwnerTable()
	took := map[bool]int{}
	for i, keep := range []bool{false, true, false, true} { // the first two prepare their statements
		trips.TakeRoundTrips()
		equal(t, errors.Join(b.WriteAll(b.Ctx, []func(*sql.Tx) error{cellInserterBelowLimit(b.Ctx, 1, i, 9, keep)})...), nil)
		took[keep] = trips.TakeRoundTrips()
	}
	equal(t, took[true], took[false])
}
