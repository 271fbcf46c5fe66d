package sql

import "context"

// A counter is a row. A transaction that raises it holds its lock until the commit, so values are given out in the order
// of the commits.
var (
	lockCounter = NewStatement("lock a counter", `SELECT value FROM counters WHERE name = $1 {for update}`)

	// Migrations make the rows: for an unknown name RaiseCounter changes nothing and returns 0.
	raiseCounter = NewStatement("raise a counter", `UPDATE counters SET value = value + $2 WHERE name = $1 RETURNING value`)
)

// LockCounter locks a counter until this transaction ends. Use it to check, before the counter is raised, for rows that the
// former holder of the lock has added.
func (tx *Tx) LockCounter(ctx context.Context, counter string) error {
	_, err := tx.Run(ctx, lockCounter, counter)
	return err
}

// RaiseCounter adds to a counter and returns the new value. Others wait until this transaction ends.
func (tx *Tx) RaiseCounter(ctx context.Context, counter string, by int) (value int64, err error) {
	_, err = tx.One(ctx, raiseCounter, []any{counter, by}, &value)
	return value, err
}
