package sqltest

import (
	"testing"

	"tidings/services/sql"
)

// RunDuringTransaction runs first in a transaction on PostgreSQL, then starts second while the transaction is open, and returns
// both errors. The transaction ends as soon as second waits for one of its locks, or has ended. If the transaction is run again,
// second is not started again.
func RunDuringTransaction(t testing.TB, db *sql.DB, first func(tx *sql.Tx) error, second func() error) (firstErr, secondErr error) {
	t.Helper()
	var done chan error
	firstErr = db.Write(t.Context(), func(tx *sql.Tx) error {
		if done != nil {
			return first(tx)
		}
		if err := first(tx); err != nil {
			return err
		}
		done = make(chan error, 1)
		go func() { done <- second() }()
		for {
			select {
			case secondErr = <-done:
				done <- secondErr
				return nil
			default:
			}
			// The transaction itself looks: PostgreSQL ends transactions that are idle for long.
			waits, err := QueryLines(t.Context(), tx, "SELECT pid FROM pg_locks WHERE NOT granted AND pg_backend_pid() = ANY(pg_blocking_pids(pid))")
			if err != nil || len(waits) > 0 {
				return err
			}
		}
	})
	if done != nil {
		secondErr = <-done
	}
	return firstErr, secondErr
}
