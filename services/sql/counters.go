package sql

import "context"

// A counter is a number in a row of its own, such as the last user ID. A transaction that raises a counter holds the lock of the row
// until the commit, so values are given out in the order of the commits.
var (
	lockCounter = NewStatement("lock a counter", `SELECT value FROM counters WHERE name = $1 {for update}`)

	// Migrations make the rows: for an unknown name RaiseCounter changes nothing and returns 0.
	raiseCounter = NewStatement("raise a counter", `UPDATE counters SET value = value + $2 WHERE name = $1 RETURNING value`)
)

// LockCounter locks a counter until this transaction ends. A transaction that has to see the rows of the previous holder of the lock
// before it raises the counter calls it first.
func (tx *Tx) LockCounter(ctx context.Context, counter string) error {
	_, err := tx.Run(ctx, lockCounter, counter)
	return err
}

// RaiseCounter adds to a counter and returns the new value. Other transactions that raise or lock the counter wait until this one
// ends.
func (tx *Tx) RaiseCounter(ctx context.Context, counter string, by int) (value int64, err error) {
	_, err = tx.One(ctx, raiseCounter, []any{counter, by}, &value)
	return value, err
}
