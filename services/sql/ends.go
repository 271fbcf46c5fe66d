package sql

import (
	"cmp"
	"context"
	"slices"
	"sync/atomic"
)

// End is work that a transaction does once, at its end, with all the values that its functions kept for it. Many small
// additions become one statement.
type End struct {
	place int64 // of its declaration
	run   func(ctx context.Context, tx *Tx, values []any) error
}

// lastPlace is the place of the End that was declared last. NewEnd gives each End the next place, and ends run in this order.
var lastPlace atomic.Int64

// NewEnd declares an end, whose run gets the kept values. run is called in the transaction and, like any function of a transaction,
// may run more than once. Ends are declared in variables of packages. All transactions run their ends in the order of these
// declarations. So the locks that ends take have one order, and if each end sorts its own, no two transactions deadlock at their ends.
func NewEnd(run func(ctx context.Context, tx *Tx, values []any) error) *End {
	return &End{lastPlace.Add(1), run}
}

// kept is a value that waits for the end of its transaction.
type kept struct {
	end   *End
	value any
}

// Keep keeps a value for the end of the transaction. When a function or an Attempt is rolled back, the values that it kept are
// dropped too.
func (tx *Tx) Keep(end *End, value any) { tx.kept = append(tx.kept, kept{end, value}) }

// runEnds calls each End for which values were kept, once and with all its values, in the order in which the Ends were declared.
func (tx *Tx) runEnds(ctx context.Context) error {
	var ends []*End
	values := map[*End][]any{}
	for _, k := range tx.kept {
		if values[k.end] == nil {
			ends = append(ends, k.end)
		}
		values[k.end] = append(values[k.end], k.value)
	}
	// An end must not keep values for another end: the ends run once.
	tx.kept = nil
	slices.SortFunc(ends, func(a, b *End) int { return cmp.Compare(a.place, b.place) })
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
