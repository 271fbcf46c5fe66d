// Package erase declares the steps that remove a user. Each feature lists its steps, beside its exports; services/node lists the
// features, and services/erasures runs the steps.
//
// A step is one transaction with a bounded amount of work, and is idempotent. All steps are repeated until a pass of them finds
// nothing: what a request that was under way still adds is removed by the next pass.
package erase

import (
	"context"
	"fmt"
	"math"

	"tidings/services"
	"tidings/services/sql"
)

// At is the position of a run of a step. Key is the user's key, which no table of users has any more.
type At struct {
	User  services.UserID
	Key   string
	After int64 // where the run before ended; 0: the beginning
	// Late says that this is not the first pass. Then the rest of removed things, which the jobs of other users have read meanwhile,
	// is removed as well.
	Late bool
}

// Done is the outcome of a run of a step. It is recorded in the run's transaction, so that a step goes on after a crash where it ended.
type Done struct {
	Removed map[string]int // how many of each kind
	After   int64          // where the next run goes on
	More    bool           // the step is not at its end
	Waits   bool           // another pass is needed, after a while
}

// Step is one step. It writes in the transaction only: whatever else it did could not be undone with it, and a run is repeated
// after a conflict.
type Step struct {
	Name string // stored: unique and the same across releases
	Run  func(ctx context.Context, tx *sql.Tx, at At) (Done, error)
}

// These bound a run: how many rows it removes, and how many it passes over in a table without an index of the user.
const (
	// Few enough that requests hardly notice the lock of SQLite's writer.
	Batch = 200
	// Rows that are only passed over are much cheaper than rows that are removed.
	reach = 10_000
)

// Rows is the step that deletes the rows of a table that have the user in a column with an index. keys is the primary key, by which the
// subquery picks a batch: DELETE has no LIMIT on PostgreSQL. kind names the rows for the answer; "" for rows that other counts include.
func Rows(kind, table, column, keys string) Step {
	st := sql.NewStatement("erase "+table+" by "+column, fmt.Sprintf(
		`DELETE FROM %[1]s WHERE (%[3]s) IN (SELECT %[3]s FROM %[1]s WHERE %[2]s = $1 LIMIT $2)`, table, column, keys))
	return Step{Name: table + "." + column, Run: func(ctx context.Context, tx *sql.Tx, at At) (Done, error) {
		n, err := tx.Run(ctx, st, at.User, Batch)
		// No position is needed: what was removed is not found again.
		return Done{Removed: Count(kind, n), More: n == Batch}, err
	}}
}

// Sweep is the step that deletes the rows of a table that have the user in a column without an index: it walks along the first column
// of the primary key. That reads the whole table, but a part at a time; an index for the sake of erasures would slow each write.
func Sweep(kind, table, first, column string) Step {
	bound := Bound(table, first)
	st := sql.NewStatement("erase "+table+" by "+column, fmt.Sprintf(
		`DELETE FROM %s WHERE %s > $2 AND %s <= $3 AND %s = $1`, table, first, first, column))
	return Step{Name: table + "." + column, Run: func(ctx context.Context, tx *sql.Tx, at At) (Done, error) {
		end, last, err := bound(ctx, tx, at.After)
		if err != nil {
			return Done{}, err
		}
		n, err := tx.Run(ctx, st, at.User, at.After, end)
		return Done{Removed: Count(kind, n), After: end, More: !last}, err
	}}
}

// Bound makes the function that finds the end of a part of a table: a value of the first column of its primary key, a bounded
// number of rows after a position. last is true for the last part, which has no end: rows that are added meanwhile belong to it.
// Rows with the same value stay together, so a part may be longer than the bound.
func Bound(table, first string) func(ctx context.Context, tx *sql.Tx, after int64) (end int64, last bool, err error) {
	st := sql.NewStatement("bound of "+table, fmt.Sprintf(`SELECT %[2]s FROM %[1]s WHERE %[2]s > $1 ORDER BY %[2]s LIMIT 1 OFFSET $2`, table, first))
	return func(ctx context.Context, tx *sql.Tx, after int64) (end int64, last bool, err error) {
		found, err := tx.One(ctx, st, []any{after, reach}, &end)
		if err != nil || found {
			return end, false, err
		}
		return math.MaxInt64, true, nil
	}
}

// Found is the step that reads the next things of the user, at most Batch, and undoes them. find has the parameters of the user, the
// position after which it looks, and the most to list. With bound, it is also given the end of the part of its table.
func Found(name string, find sql.Statement, bound func(context.Context, *sql.Tx, int64) (int64, bool, error),
	undo func(ctx context.Context, tx *sql.Tx, at At, found []int64) (map[string]int, error)) Step {
	return Step{Name: name, Run: func(ctx context.Context, tx *sql.Tx, at At) (done Done, err error) {
		args, end, last := []any{at.User, at.After, Batch}, int64(math.MaxInt64), true
		if bound != nil {
			if end, last, err = bound(ctx, tx, at.After); err != nil {
				return done, err
			}
			args = append(args, end)
		}
		found, err := sql.Column[int64](ctx, tx, find, args...)
		if err != nil {
			return done, err
		}
		// There may be more: go on behind the last one that was found.
		if len(found) == Batch {
			end, last = found[Batch-1], false
		}
		if len(found) > 0 {
			done.Removed, err = undo(ctx, tx, at, found)
		}
		done.After, done.More = end, !last
		return done, err
	}}
}

// Of is the step that a function does at once, as for a few rows. It is not bounded: do must not have a list that grows.
func Of(name, kind string, do func(ctx context.Context, tx *sql.Tx, user services.UserID) (int, error)) Step {
	return Step{Name: name, Run: func(ctx context.Context, tx *sql.Tx, at At) (Done, error) {
		n, err := do(ctx, tx, at.User)
		return Done{Removed: Count(kind, n)}, err
	}}
}

// Count is how many of a kind were removed; nil for none.
func Count(kind string, n int) map[string]int {
	if kind == "" || n == 0 {
		return nil
	}
	return map[string]int{kind: n}
}
