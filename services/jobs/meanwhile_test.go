package jobs_test

import (
	"context"
	"testing"

	"tidings/services/sql"
)

// Meanwhile runs beside the transaction of a single command, and its context ends when the command does.
func TestMeanwhileRunsBesideTheTransaction(t *testing.T) {
	each(t, func(t *testing.T, n *node) {
		o, began := newCommand(1, "make"), make(chan context.Context)
		apply := o.Apply
		var beside context.Context
		o.Meanwhile = func(ctx context.Context) { began <- ctx }
		o.Apply = func(ctx context.Context, tx *sql.Tx) ([]string, error) {
			if beside == nil {
				beside = <-began // without a goroutine of its own this waits for ever
			}
			return apply(ctx, tx)
		}
		o.AfterCommit = func(context.Context) error { return beside.Err() }
		n.must(n.Commit(t.Context(), &o.Command)[0])
		if o.ViewsStale() {
			t.Error("the context ended before the update of the views")
		}
		<-beside.Done()
	})
}

// Commands that are committed together run no Meanwhile: a batch of 500 would start 500 goroutines.
func TestABatchRunsNoMeanwhile(t *testing.T) {
	each(t, func(t *testing.T, n *node) {
		first, second := newCommand(1, "make"), newCommand(2, "make")
		for _, o := range []*command{first, second} {
			o.Meanwhile = func(context.Context) { panic("it runs") }
		}
		for _, err := range n.Commit(t.Context(), &first.Command, &second.Command) {
			n.must(err)
		}
	})
}
