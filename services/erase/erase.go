// Package erase declares the steps that remove a user. Each feature lists its steps, beside its exports; services/node lists the
// features, and services/erasures runs the steps.
//
// A step is one transaction with a bounded amount of work, and is idempotent. All steps are repeated until a pass of them finds
// nothing: rows that a request under way still adds are removed by the next pass.
package erase

import (
	"context"
	"fmt"
	"math"
	"time"

	"tidings/services"
	"tidings/services/sql"
)

// StepPosition says for which user a run of a step is, and where it begins. The user's row in the table of users is already deleted.
type StepPosition struct {
	User        services.UserID
	UserKey     string
	Began       time.Time // when the erasure began
	ResumeAfter int64     // where the previous run ended; 0: the beginning
	// LaterPass says that this is not the first pass. A later pass also removes data that earlier passes kept for the jobs of other
	// users, because those jobs have read it meanwhile.
	LaterPass bool
}

// StepResult is the outcome of a run of a step. It is recorded in the run's transaction, so that after a crash a step continues
// where it ended.
type StepResult struct {
	Removed        map[string]int // how many of each kind
	ResumeAfter    int64          // where the next run continues
	More           bool           // the step is not at its end
	NeedsLaterPass bool           // another pass is needed, after a while
}

// Step is one step of an erasure. Run removes the next part of the user's data, after at.ResumeAfter. It writes only in the
// transaction: other effects could not be rolled back, and a run is repeated after a conflict.
type Step struct {
	Name string // stored: unique and the same across releases
	Run  func(ctx context.Context, tx *sql.Tx, at StepPosition) (StepResult, error)
}

// KeyRemover removes the key of a user from what requests wrote since a time. It runs in the transaction that frees the key. Until
// then requests can name the user, even after the step that removes what earlier requests wrote.
type KeyRemover func(ctx context.Context, tx *sql.Tx, key string, since time.Time) error

// These bound a run: how many rows it removes, and how many it passes over in a table without an index on the user.
const (
	// RowsPerRun is how many rows a run of DeleteRows or UndoFoundRows removes at most: so few that requests hardly notice the lock of
	// SQLite's writer.
	RowsPerRun = 200
	// rowsPerScanPart is about how many rows a part of ScanPartEndFinder has. Rows that are only passed over are much cheaper than
	// rows that are removed.
	rowsPerScanPart = 10_000
)

// DeleteRows returns the step that deletes the rows of a table that have the user in a column with an index. keys is the primary key, by
// which the subquery picks a batch: DELETE has no LIMIT on PostgreSQL. kind is the name under which the removed rows are counted; "" for
// rows that other counts include.
func DeleteRows(kind, table, column, keys string) Step {
	st := sql.NewStatement("erase "+table+" by "+column, fmt.Sprintf(
		`DELETE FROM %[1]s WHERE (%[3]s) IN (SELECT %[3]s FROM %[1]s WHERE %[2]s = $1 LIMIT $2)`, table, column, keys))
	return Step{Name: table + "." + column, Run: func(ctx context.Context, tx *sql.Tx, at StepPosition) (StepResult, error) {
		n, err := tx.Run(ctx, st, at.User, RowsPerRun)
		// No position is needed: removed rows are not found again.
		return StepResult{Removed: RemovedCounts(kind, n), More: n == RowsPerRun}, err
	}}
}

// DeleteRowsByScan returns the step that deletes the rows of a table that have the user in a column without an index: it walks
// along the first column of the primary key. That reads the whole table, but a part at a time; an index for the sake of erasures
// would slow each write.
func DeleteRowsByScan(kind, table, first, column string) Step {
	bound := ScanPartEndFinder(table, first)
	st := sql.NewStatement("erase "+table+" by "+column, fmt.Sprintf(
		`DELETE FROM %s WHERE %s > $2 AND %s <= $3 AND %s = $1`, table, first, first, column))
	return Step{Name: table + "." + column, Run: func(ctx context.Context, tx *sql.Tx, at StepPosition) (StepResult, error) {
		end, last, err := bound(ctx, tx, at.ResumeAfter)
		if err != nil {
			return StepResult{}, err
		}
		n, err := tx.Run(ctx, st, at.User, at.ResumeAfter, end)
		return StepResult{Removed: RemovedCounts(kind, n), ResumeAfter: end, More: !last}, err
	}}
}

// ScanPartEndFinder makes the function that finds where a part of a table ends, for steps that go through a whole table part by part: a
// value of the first column of its primary key, a bounded number of rows after a position. last is true for the last part, which has no
// end: rows that are added meanwhile belong to it. Rows with the same value stay together, so a part may be longer than the bound.
func ScanPartEndFinder(table, first string) func(ctx context.Context, tx *sql.Tx, after int64) (end int64, last bool, err error) {
	st := sql.NewStatement("bound of "+table, fmt.Sprintf(`SELECT %[2]s FROM %[1]s WHERE %[2]s > $1 ORDER BY %[2]s LIMIT 1 OFFSET $2`, table, first))
	return func(ctx context.Context, tx *sql.Tx, after int64) (end int64, last bool, err error) {
		found, err := tx.One(ctx, st, []any{after, rowsPerScanPart}, &end)
		if err != nil || found {
			return end, false, err
		}
		return math.MaxInt64, true, nil
	}
}

// UndoFoundRows returns the step that reads the IDs of the user's next rows, at most RowsPerRun, and calls undo with them. The
// parameters of find are the user, the position after which it looks, and the limit. If bound is not nil, the fourth parameter is
// the end of a part of the table.
func UndoFoundRows(name string, find sql.Statement, bound func(context.Context, *sql.Tx, int64) (int64, bool, error),
	undo func(ctx context.Context, tx *sql.Tx, at StepPosition, found []int64) (map[string]int, error)) Step {
	return Step{Name: name, Run: func(ctx context.Context, tx *sql.Tx, at StepPosition) (done StepResult, err error) {
		args, end, last := []any{at.User, at.ResumeAfter, RowsPerRun}, int64(math.MaxInt64), true
		if bound != nil {
			if end, last, err = bound(ctx, tx, at.ResumeAfter); err != nil {
				return done, err
			}
			args = append(args, end)
		}
		found, err := sql.ReadColumn[int64](ctx, tx, find, args...)
		if err != nil {
			return done, err
		}
		// There may be more: the next run continues after the last row that was found.
		if len(found) == RowsPerRun {
			end, last = found[RowsPerRun-1], false
		}
		if len(found) > 0 {
			done.Removed, err = undo(ctx, tx, at, found)
		}
		done.ResumeAfter, done.More = end, !last
		return done, err
	}}
}

// CallOnce returns the step that calls do once, in one transaction. Nothing bounds the rows that do removes, so it is only for rows
// whose number stays small.
func CallOnce(name, kind string, do func(ctx context.Context, tx *sql.Tx, user services.UserID) (int, error)) Step {
	return Step{Name: name, Run: func(ctx context.Context, tx *sql.Tx, at StepPosition) (StepResult, error) {
		n, err := do(ctx, tx, at.User)
		return StepResult{Removed: RemovedCounts(kind, n)}, err
	}}
}

// RemovedCounts returns how many of a kind were removed; nil for none.
func RemovedCounts(kind string, n int) map[string]int {
	if kind == "" || n == 0 {
		return nil
	}
	return map[string]int{kind: n}
}
