package sql

import (
	"cmp"
	"context"
	"slices"
	"sync/atomic"
)

// TxEndHook is work that a transaction does once, at its end, with all the values that its functions kept for it. Many small
// additions become one statement.
type TxEndHook struct {
	order int64                                                 // the position of its declaration among the hooks, which run in this order
	run   func(ctx context.Context, tx *Tx, values []any) error // see NewTxEndHook
}

// lastHookOrder is the position of the TxEndHook that was declared last. NewTxEndHook gives each the next position, and they run in
// this order.
var lastHookOrder atomic.Int64

// NewTxEndHook declares an end hook, whose run gets the kept values. run is called in the transaction and, like any function of a
// transaction, may run more than once. End hooks are declared in variables of packages. All transactions run their end hooks in the
// order of these declarations. So the locks that end hooks take have one order, and if each hook sorts its own, no two transactions
// deadlock at their ends.
func NewTxEndHook(run func(ctx context.Context, tx *Tx, values []any) error) *TxEndHook {
	return &TxEndHook{lastHookOrder.Add(1), run}
}

// endHookValue is a value that waits for the end of its transaction.
type endHookValue struct {
	hook  *TxEndHook // gets the value
	value any
}

// KeepForEndHook keeps a value for the end of the transaction. When a function or a RunInSavepoint is rolled back, the values that it
// kept are dropped too.
func (tx *Tx) KeepForEndHook(end *TxEndHook, value any) {
	tx.endHookValues = append(tx.endHookValues, endHookValue{end, value})
}

// runEndHooks calls each TxEndHook for which values were kept, once and with all its values, in the order in which they were declared.
func (tx *Tx) runEndHooks(ctx context.Context) error {
	var ends []*TxEndHook
	values := map[*TxEndHook][]any{}
	for _, k := range tx.endHookValues {
		if values[k.hook] == nil {
			ends = append(ends, k.hook)
		}
		values[k.hook] = append(values[k.hook], k.value)
	}
	// An end hook must not keep values for another one: the hooks run once.
	tx.endHookValues = nil
	slices.SortFunc(ends, func(a, b *TxEndHook) int { return cmp.Compare(a.order, b.order) })
	for _, end := range ends {
		if err := end.run(ctx, tx, values[end]); err != nil {
			return err
		}
	}
	return nil
}

// SignalAtCommit makes the commit of this transaction call the functions that were registered with OnCommitSignal. A transaction that
// is rolled back calls none.
func (tx *Tx) SignalAtCommit() { tx.signalsAtCommit = true }

// OnCommitSignal registers a function that is called after each commit of a transaction that called SignalAtCommit. Register before the
// first write. The function must not block.
func (s *DB) OnCommitSignal(call func()) { s.onCommitSignal = append(s.onCommitSignal, call) }

// callOnCommitSignal calls the functions of OnCommitSignal. The commit is on disk by then.
func (s *DB) callOnCommitSignal() {
	for _, call := range s.onCommitSignal {
		call()
	}
}
