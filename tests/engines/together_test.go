package engines

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/changelog"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
	"tidings/tests/eventually"
)

// lastSequenceAppender returns a function that reads the last sequence of a log, which is the version of its last entry, and appends an entry with that
// version as its key. So the new entry shows whether the function saw all entries before it.
func (b *testDB) lastSequenceAppender(kind string) func(*sql.Tx) error {
	return func(tx *sql.Tx) error {
		newest, err := changelog.LockLog(b.Ctx, tx, kind)
		if err != nil {
			return err
		}
		_, err = changelog.AppendLog(b.Ctx, tx, kind, fmt.Sprint(newest), nil)
		return err
	}
}

// wantChainedLog checks that a log has this many entries, and that the key of each is the version of the entry before it: each function
// of lastSequenceAppender saw the entries before its own.
func (b *testDB) wantChainedLog(kind string, entries int) {
	b.T.Helper()
	list := must(changelog.LogAfter(b.Ctx, b.DB, kind, 0, entries+1))(b.T)
	equal(b.T, len(list), entries)
	for _, entry := range list {
		equal(b.T, entry.Key, fmt.Sprint(entry.Version-1))
	}
}

// Each function of a batch sees the effects of the functions before it, and no effects of functions that failed.
func TestAFunctionOfABatchSeesThoseBeforeIt(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		var fns []func(*sql.Tx) error
		var want []error
		for i := range 60 {
			follower := b.lastSequenceAppender(fmt.Sprint("log ", i%2))
			fns, want = append(fns, follower), append(want, nil)
			if i%5 == 4 {
				fns = append(fns, func(tx *sql.Tx) error { return errors.Join(follower(tx), errDeliberate) })
				want = append(want, errDeliberate)
			}
		}
		for i, err := range b.WriteAll(b.Ctx, fns) {
			if !errors.Is(err, want[i]) {
				b.T.Errorf("function %d: %v, want %v", i, err, want[i])
			}
		}
		b.wantChainedLog("log 0", 30)
		b.wantChainedLog("log 1", 30)
	})
}

// A batch sends the statements of all its functions together, in passes of one round trip; a long batch also prefetches, that is, sends
// reads ahead of a pass. So, if its functions touch different rows, each read is sent twice, by a prefetch and by a pass, and each write
// once, however many reads follow each other. A function that fails is undone, and is not sent again if it has changed nothing.
func TestALongBatchSendsItsStatementsOnce(t *testing.T) {
	const functions, around = 40, 8 // around are BEGIN, savepoints, the batch's own lock and COMMIT
	url, trips := sqltest.CountRoundTrips(t, sqltest.Postgres(t))
	b := newTestDB(t, url)
	b.MustWrite(func(tx *sql.Tx) error {
		return execute(b.Ctx, tx, `CREATE TABLE cells (k BIGINT PRIMARY KEY, v BIGINT NOT NULL)`)
	})
	for _, c := range []struct {
		name string
		fn   func(table databaseCells, key int) error
		want error
		each int // statements of each function
	}{
		{"four reads and four writes", func(table databaseCells, key int) (err error) {
			for n := 0; n < 4 && err == nil; n++ {
				cell := key + n*functions
				_, err = runCellSteps(table, []cellStep{{"read", cell, 0}, {"keep", cell, n}})
			}
			return err
		}, nil, 4 + 8},
		{"eight reads", func(table databaseCells, key int) (err error) {
			for n := 0; n < 8 && err == nil; n++ {
				_, err = table.read(key + n)
			}
			return err
		}, nil, 1 + 2 + 6 + 8}, // two passes, because the second is as cheap as a prefetch; six prefetches; and the last pass
		{"a wrong guess, and then a failure that changed nothing", func(table databaseCells, key int) error {
			changed, err := table.updateRow(key+1000, 1) // the first pass learns that the cell does not exist
			if err == nil && changed == 0 {
				_, err = table.read(key)
				err = errors.Join(err, errDeliberate)
			}
			return err
		}, errDeliberate, 1 + 2},
		{"a failure that changed nothing", func(table databaseCells, key int) error {
			_, err := table.read(key)
			if changed, failed := table.updateRow(key+1000, 1); err == nil && failed == nil && changed == 0 {
				err = errDeliberate
			}
			return err
		}, errDeliberate, 1 + 2},
		{"a failure that changed something", func(table databaseCells, key int) error {
			_, err := table.updateRow(key, 1)
			_, failed := table.read(key)
			return errors.Join(err, failed, errDeliberate)
		}, errDeliberate, 2 + 2 + 3}, // with the savepoint and the rollback to it
	} {
		t.Run(c.name, func(t *testing.T) {
			fns := make([]func(*sql.Tx) error, functions)
			for i := range fns {
				fns[i] = func(tx *sql.Tx) error { return c.fn(databaseCells{b.Ctx, tx}, i) }
			}
			trips.TakeStatements()
			for i, err := range b.WriteAll(b.Ctx, fns) {
				if !errors.Is(err, c.want) {
					t.Errorf("function %d: %v, want %v", i, err, c.want)
				}
			}
			if got := trips.TakeStatements(); got < functions*c.each || got > functions*c.each+around {
				t.Errorf("%d statements, want %d for each function", got, c.each)
			}
		})
	}
}

// Concurrent batches and single writes that change the same rows all end, and each batch runs in order.
func TestConcurrentBatchesEnd(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		const batches, functions, singles = 4, 12, 40
		var all sync.WaitGroup
		for range batches {
			all.Go(func() {
				fns := make([]func(*sql.Tx) error, functions)
				for i := range fns {
					fns[i] = b.lastSequenceAppender("log")
				}
				if err := errors.Join(b.WriteAll(b.Ctx, fns)...); err != nil {
					b.T.Error(err)
				}
			})
		}
		all.Go(func() {
			for range singles {
				if err := b.Write(b.Ctx, b.lastSequenceAppender("log")); err != nil {
					b.T.Error(err)
				}
			}
		})
		all.Wait()
		b.wantChainedLog("log", batches*functions+singles)
	})
}

// Long batches run one at a time, because they hold locks for several passes, and two that share rows would keep each other from
// ending. Short batches do not wait for them.
func TestLongBatchesRunOneAfterTheOther(t *testing.T) {
	b := newTestDB(t, sqltest.Postgres(t))
	b.MakeUsers("ann")
	b.MustWrite(b.lastSequenceAppender("log"))
	held, free, released := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		released <- b.Write(b.Ctx, func(tx *sql.Tx) error {
			_, err := changelog.LockLog(b.Ctx, tx, "log")
			close(held)
			<-free
			return err
		})
	}()
	<-held
	const batches, long = 3, 33
	done := make(chan error, batches)
	for range batches {
		go func() {
			fns := make([]func(*sql.Tx) error, long)
			for i := range fns {
				fns[i] = b.lastSequenceAppender("log")
			}
			done <- errors.Join(b.WriteAll(b.Ctx, fns)...)
		}()
	}
	waiting := func(event string) (count int) {
		text := fmt.Sprintf(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND wait_event = '%s'`, event)
		must(b.DB.One(b.Ctx, sql.AdHoc("test", text), nil, &count))(t)
		return count
	}
	eventually.Holds(t, "one has begun, and the others wait for it", func() bool { return waiting("transactionid") == 1 && waiting("advisory") == batches-1 })
	if err := errors.Join(b.WriteAll(b.Ctx, []func(*sql.Tx) error{publishPost(b.Ctx, 1), publishPost(b.Ctx, 2)})...); err != nil {
		t.Errorf("a short batch: %v", err)
	}
	close(free)
	if err := <-released; err != nil {
		t.Error(err)
	}
	for range batches {
		if err := <-done; err != nil {
			t.Error(err)
		}
	}
	b.wantChainedLog("log", 1+batches*long)
}

// An ID that a function makes is greater than the IDs of the functions before it, however often the functions run.
func TestIDsOfABatchRise(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		ids := services.NewIDClock(b.Clock, 1)
		fns := make([]func(*sql.Tx) error, 20)
		for i := range fns {
			fns[i] = func(tx *sql.Tx) error {
				if i%2 == 0 { // these functions need an answer first
					if _, err := changelog.LockLog(b.Ctx, tx, "log"); err != nil {
						return err
					}
				}
				return putPost(b.Ctx, tx, 1, services.PostID(tx.NewID(ids)), fmt.Sprint(i))
			}
		}
		equal(b.T, errors.Join(b.WriteAll(b.Ctx, fns)...), nil)
		posts := b.publishedPosts() // the newest first
		equal(b.T, len(posts), len(fns))
		for i, body := range must(sqltest.QueryLines(b.Ctx, b, "SELECT body FROM posts ORDER BY id DESC"))(b.T) {
			equal(b.T, body, fmt.Sprint(len(fns)-1-i))
		}
	})
}

// After the deadline of its caller, a function ends at its next statement with an error that says so. It writes nothing, and a later
// write succeeds.
func TestAWriteEndsWithItsTime(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		ctx, cancel := context.WithTimeout(b.Ctx, 50*time.Millisecond)
		defer cancel()
		for _, functions := range []int{1, 3} {
			fns := make([]func(*sql.Tx) error, functions)
			for i := range fns {
				fns[i] = func(tx *sql.Tx) error {
					if err := publishPost(ctx, services.PostID(i+1))(tx); err != nil {
						return err
					}
					<-ctx.Done()
					_, err := changelog.LockLog(ctx, tx, "log")
					return err
				}
			}
			for _, err := range b.WriteAll(ctx, fns) {
				wantCode(b.T, err, services.Unavailable)
				if !strings.Contains(err.Error(), "took too long") {
					b.T.Errorf("the error is %v", err)
				}
			}
		}
		equal(b.T, len(b.publishedPosts()), 0)
		b.MustWrite(publishPost(b.Ctx, 1))
	})
}

// A function that behaves differently each time cannot be sent together with others, but still ends correctly.
func TestANondeterministicFunctionRunsAlone(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		runs := 0
		fns := make([]func(*sql.Tx) error, 12)
		for i := range fns {
			fns[i] = func(tx *sql.Tx) error {
				runs++
				if _, err := changelog.AppendLog(b.Ctx, tx, "runs", fmt.Sprint(runs), nil); err != nil || i%3 > 0 {
					return err
				}
				return errDeliberate
			}
		}
		fns = append(fns, b.lastSequenceAppender("log"), b.lastSequenceAppender("log"))
		for i, err := range b.WriteAll(b.Ctx, fns) {
			if (err != nil) != (i < 12 && i%3 == 0) {
				b.T.Errorf("function %d: %v", i, err)
			}
		}
		equal(b.T, len(must(changelog.LogAfter(b.Ctx, b.DB, "runs", 0, 100))(b.T)), 8)
		b.wantChainedLog("log", 2)
	})
}

// A function that reads other rows each time cannot be sent together with others either, but still ends correctly.
func TestAFunctionThatReadsOtherRowsEachTimeRunsAlone(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		runs := 0
		restless := func(tx *sql.Tx) error {
			runs++
			var one int
			_, err := tx.One(b.Ctx, sql.AdHoc("test", `SELECT CAST($1 AS BIGINT)`), []any{runs}, &one)
			return err
		}
		const others = 40
		fns := []func(*sql.Tx) error{restless}
		for range others {
			fns = append(fns, b.lastSequenceAppender("log"))
		}
		for i, err := range b.WriteAll(b.Ctx, fns) {
			if err != nil {
				b.T.Errorf("function %d: %v", i, err)
			}
		}
		b.wantChainedLog("log", others)
	})
}

// A prefetch sends the statement whose rows a function waits for, maybe without the function's own earlier writes. So it can fail
// although the function does not.
func TestAPrefetchThatFailsIsNoFailureOfItsFunction(t *testing.T) {
	b := newTestDB(t, sqltest.Postgres(t)) // on SQLite there are no prefetches
	b.MustWrite(func(tx *sql.Tx) error {
		return errors.Join(execute(b.Ctx, tx, `CREATE TABLE parents (k BIGINT PRIMARY KEY)`),
			execute(b.Ctx, tx, `CREATE TABLE children (k BIGINT PRIMARY KEY, parent BIGINT NOT NULL REFERENCES parents (k))`))
	})
	fns := make([]func(*sql.Tx) error, 42)
	for i := range fns {
		fns[i] = func(tx *sql.Tx) error {
			if i%3 != 2 { // the third of each three has no parent
				if err := execute(b.Ctx, tx, `INSERT INTO parents (k) VALUES ($1)`, i); err != nil {
					return err
				}
			}
			var child int
			_, err := tx.One(b.Ctx, sql.AdHoc("child", `INSERT INTO children (k, parent) VALUES ($1, $1) RETURNING k`), []any{i}, &child)
			return err
		}
	}
	var want []string
	for i, err := range b.WriteAll(b.Ctx, fns) {
		if (err != nil) != (i%3 == 2) {
			b.T.Errorf("function %d: %v", i, err)
		}
		if i%3 != 2 {
			want = append(want, fmt.Sprint(i))
		}
	}
	equal(b.T, must(sqltest.QueryLines(b.Ctx, b, `SELECT k FROM children ORDER BY k`))(b.T), want)
}

// The error for a statement that cannot be prepared does not name the statement in the batch. Only the statement's own function
// fails, even if other functions are already final, and the effects of the others occur once.
func TestAStatementThatCannotBePreparedFailsItsFunctionAlone(t *testing.T) {
	for _, late := range []int{0, 1, 6} { // the number of reads before the statement
		b := newTestDB(t, sqltest.Postgres(t))
		const others = 8
		var fns []func(*sql.Tx) error
		for i := range others {
			fns = append(fns, b.lastSequenceAppender("log"))
			if i == others/2 {
				fns = append(fns, func(tx *sql.Tx) error {
					for n := range late {
						var one int
						if _, err := tx.One(b.Ctx, sql.AdHoc("test", `SELECT CAST($1 AS BIGINT)`), []any{n}, &one); err != nil {
							return err
						}
					}
					return execute(b.Ctx, tx, "SELECT no_such_column")
				})
			}
		}
		for i, err := range b.WriteAll(b.Ctx, fns) {
			if (err != nil) != (i == others/2+1) {
				t.Errorf("after %d reads, function %d: %v", late, i, err)
			}
		}
		b.wantChainedLog("log", others)
	}
}
