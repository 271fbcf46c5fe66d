package sql

import (
	"cmp"
	"context"
	"slices"
	"sync/atomic"
)

// EndHook is work that a transaction does once, at its end, with all the values that its functions kept for it. Many small
// additions become one statement.
type EndHook struct {
	place int64 // of its declaration
	run   func(ctx context.Context, tx *Tx, values []any) error
}

// lastPlace is the place of the EndHook that was declared last. NewEndHook gives each the next place, and they run in this order.
var lastPlace atomic.Int64

// NewEndHook declares an end hook, whose run gets the kept values. run is called in the transaction and, like any function of a transaction,
// may run more than once. End hooks are declared in variables of packages. All transactions run their ends in the order of these
// declarations. So the locks that ends take have one order, and if each end sorts its own, no two transactions deadlock at their ends.
func NewEndHook(run func(ctx context.Context, tx *Tx, values []any) error) *EndHook {
	return &EndHook{lastPlace.Add(1), run}
}

// keptValue is a value that waits for the end of its transaction.
type keptValue struct {
	end   *EndHook
	value any
}

// KeepForEnd keeps a value for the end of the transaction. When a function or an Attempt is rolled back, the values that it kept are
// dropped too.
func (tx *Tx) KeepForEnd(end *EndHook, value any) { tx.kept = append(tx.kept, keptValue{end, value}) }

// runEnds calls each EndHook for which values were kept, once and with all its values, in the order in which they were declared.
func (tx *Tx) runEnds(ctx context.Context) error {
	var ends []*EndHook
	values := map[*EndHook][]any{}
	for _, k := range tx.kept {
		if values[k.end] == nil {
			ends = append(ends, k.end)
		}
		values[k.end] = append(values[k.end], k.value)
	}
	// An end must not keep values for another end: the ends run once.
	tx.kept = nil
	slices.SortFunc(ends, func(a, b *EndHook) int { return cmp.Compare(a.place, b.place) })
	for _, end := range ends {
		if err := end.run(ctx, tx, values[end]); err != nil {
			return err
		}
	}
	return nil
}

// Signal makes the commit of this transaction call the functions that were registered with OnSignal. A transaction that
// is rolled back calls none.
func (tx *Tx) Signal() { tx.signalled = true }

// OnSignal registers a function that is called after each commit with a signal. Register before the first write. The function
// must not block.
func (s *DB) OnSignal(call func()) { s.onSignal = append(s.onSignal, call) }

// callOnSignal calls the functions of OnSignal. The commit is on disk by then.
func (s *DB) callOnSignal() {
	for _, call := range s.onSignal {
		call()
	}
}
