package engines

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/jobs"
	"tidings/services/people"
	"tidings/services/sql"
)

// Transactions run their end hooks (sql.TxEndHook) in one order, whichever hook got a value first. So two transactions take the locks of
// their hooks in one order too, and do not deadlock.
func TestTxEndHooksRunInOneOrder(t *testing.T) {
	var ran []string
	end := func(name string) *sql.TxEndHook {
		return sql.NewTxEndHook(func(_ context.Context, _ *sql.Tx, values []any) error {
			for _, value := range values {
				ran = append(ran, fmt.Sprint(name, value))
			}
			return nil
		})
	}
	ends := []*sql.TxEndHook{end("a"), end("b"), end("c")}
	eachTestDB(t, func(b *testDB) {
		keep := func(order ...int) func(*sql.Tx) error {
			return func(tx *sql.Tx) error {
				for _, i := range order {
					tx.KeepForEndHook(ends[i], i)
				}
				return nil
			}
		}
		for _, order := range [][]int{{0, 1, 2}, {2, 1, 0}, {1, 2, 0}} {
			ran = nil
			b.MustWrite(keep(order...))
			equal(b.T, ran[max(0, len(ran)-3):], []string{"a0", "b1", "c2"})
		}
		ran = nil
		if err := errors.Join(b.WriteAll(b.Ctx, []func(*sql.Tx) error{keep(2, 1), keep(0, 2)})...); err != nil {
			b.T.Fatal(err)
		}
		equal(b.T, ran[max(0, len(ran)-4):], []string{"a0", "b1", "c2", "c2"}) // only the last values, because a transaction may run again
	})
}

// If the grouped job of a fact cannot be added, all facts of the commit are rolled back, and every caller gets the error.
func TestNoFactWithoutItsGroupedJob(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		fact := func(key string) func(*sql.Tx) error {
			return func(tx *sql.Tx) error {
				if _, err := people.Ensure(b.Ctx, tx, []string{key}); err != nil {
					return err
				}
				return jobs.Enqueue(b.Ctx, tx, jobs.NewJob{Kind: "a", MergeGroup: "1", Payload: []byte(key)})
			}
		}
		noQueue := func(tx *sql.Tx) error { return execute(b.Ctx, tx, "ALTER TABLE jobs RENAME TO gone") }
		for i, err := range b.WriteAll(b.Ctx, []func(*sql.Tx) error{fact("alice"), noQueue, fact("bob")}) {
			if err == nil {
				b.T.Errorf("part %d stands without its job", i)
			}
		}
		equal(b.T, len(must(people.IDs(b.Ctx, b.TestDB.DB, []string{"alice", "bob"}))(b.T)), 0)
		b.MustWrite(fact("alice"))
		queued := must(jobs.Claim(b.Ctx, b.DB, []string{"a"}, 10, time.Second, 0))(b.T)
		if len(queued) != 1 || string(queued[0].Payload) != "alice" {
			b.T.Errorf("the jobs are %v", queued)
		}
	})
}

// A panic of an end hook (sql.TxEndHook) undoes its transaction too, and ends neither the process nor SQLite's writer.
func TestAPanicOfATxEndHookUndoesEverything(t *testing.T) {
	explode := sql.NewTxEndHook(func(context.Context, *sql.Tx, []any) error { panic("out of a clear sky") })
	keeps := func(tx *sql.Tx) error {
		tx.KeepForEndHook(explode, 1)
		return nil
	}
	eachTestDB(t, func(b *testDB) {
		wantCode(b.T, b.Write(b.Ctx, func(tx *sql.Tx) error { return errors.Join(publishPost(b.Ctx, 1)(tx), keeps(tx)) }), services.Internal)
		for _, err := range b.WriteAll(b.Ctx, []func(*sql.Tx) error{publishPost(b.Ctx, 2), keeps}) {
			wantCode(b.T, err, services.Internal)
		}
		b.MustWrite(publishPost(b.Ctx, 3))
		equal(b.T, b.publishedPosts(), []services.PostID{3})
	})
}
