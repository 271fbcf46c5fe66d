package sql

import (
	"context"
	"sync/atomic"
)

// AddedWrite is an extra write in the transactions of all writes under a context, such as a record of these writes. It is stored
// exactly if one of these transactions is committed. WithAddedWrite makes it.
type AddedWrite struct {
	write     func(ctx context.Context, tx *Tx) error // see WithAddedWrite
	committed atomic.Bool                             // a transaction with the write was committed
}

// addedWriteKey is the context key of the AddedWrite.
type addedWriteKey struct{}

// WithAddedWrite returns a context for DB.Write and DB.WriteAll: after each function that succeeds they call write in the same
// transaction. An error of write is an error of that function. write must be safe to repeat.
func WithAddedWrite(ctx context.Context, write func(ctx context.Context, tx *Tx) error) (context.Context, *AddedWrite) {
	added := &AddedWrite{write: write}
	return context.WithValue(ctx, addedWriteKey{}, added), added
}

// Committed reports whether a transaction with the added write was committed.
func (b *AddedWrite) Committed() bool { return b.committed.Load() }

// addedWriteOf is the write that a context adds; nil for none.
func addedWriteOf(ctx context.Context) *AddedWrite {
	added, _ := ctx.Value(addedWriteKey{}).(*AddedWrite)
	return added
}

// wrap adds the write to the functions of a transaction.
func (b *AddedWrite) wrap(ctx context.Context, fns []func(*Tx) error) []func(*Tx) error {
	both := make([]func(*Tx) error, len(fns))
	for i, fn := range fns {
		// fn runs first: the added write may read what fn has written.
		both[i] = func(tx *Tx) error {
			if err := fn(tx); err != nil {
				return err
			}
			// The added write is a part of the function: if it fails, the function is rolled back too.
			return b.write(ctx, tx)
		}
	}
	return both
}

// recordOutcome sets committed if the write was committed with one of the functions. errs has the error of each function.
func (b *AddedWrite) recordOutcome(errs []error) {
	for _, err := range errs {
		// One function without an error is enough: the write that was added to it is committed.
		if err == nil {
			b.committed.Store(true)
		}
	}
}
