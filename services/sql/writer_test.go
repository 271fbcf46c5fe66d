package sql_test

import (
	"context"
	"errors"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
	"tidings/tests/eventually"
)

// startBlockedWrite begins a write and stops in the middle of it, which stops SQLite's writer. letGo lets the write continue and
// returns its error. Writes to SQLite queue up meanwhile and become one group.
func (b *testDB) startBlockedWrite() (letGo func() error) {
	b.T.Helper()
	held, gate, done := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	open := sync.OnceFunc(func() { close(gate) })
	b.T.Cleanup(open) // runs before the database is closed, which would wait forever
	go func() {
		done <- b.Write(b.Ctx, func(*sql.Tx) error {
			close(held)
			<-gate
			return nil
		})
	}()
	<-held
	return func() error {
		open()
		return <-done
	}
}

// queueWrites starts writes, which wait in the writer's queue in this order, and returns a function that waits for their errors.
func (b *testDB) queueWrites(fns ...func(tx *sql.Tx) error) (errs func() []error) {
	b.T.Helper()
	results := make([]chan error, len(fns))
	for i, fn := range fns {
		results[i] = make(chan error, 1)
		before := b.QueuedWrites()
		go func() { results[i] <- b.Write(b.Ctx, fn) }()
		eventually.Holds(b.T, "the write queues", func() bool { return b.QueuedWrites() > before })
	}
	return func() []error {
		var errs []error
		for _, result := range results {
			errs = append(errs, <-result)
		}
		return errs
	}
}

// While no write waits, none is queued, on both engines.
func TestNothingIsQueuedWithoutWrites(t *testing.T) {
	eachTestDB(t, func(b *testDB) { equal(t, b.QueuedWrites(), 0) })
}

// SQLite's writer runs writes that wait in its queue as one group: each sees the writes before it, and other readers see none of them
// before the group is committed.
func TestGroupIsOneTransaction(t *testing.T) {
	b := newTestDB(t, sqltest.SQLite(t))
	letGo := b.startBlockedWrite()
	const writes = 20
	var inside, outside []int
	var fns []func(*sql.Tx) error
	for id := range services.PostID(writes) {
		fns = append(fns, func(tx *sql.Tx) error {
			mine, err := sqltest.QueryLines(b.Ctx, tx, "SELECT id FROM posts")
			others, err2 := sqltest.QueryLines(b.Ctx, b, "SELECT id FROM posts")
			inside, outside = append(inside, len(mine)), append(outside, len(others))
			return errors.Join(err, err2, publishPost(b.Ctx, id+1)(tx))
		})
	}
	errs := b.queueWrites(fns...)
	if err := letGo(); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(errs()...); err != nil {
		t.Fatal(err)
	}
	for i := range writes {
		if inside[i] != i || outside[i] != 0 {
			t.Fatalf("write %d saw %d posts of its group, and readers saw %d", i, inside[i], outside[i])
		}
	}
	equal(t, len(b.publishedPosts()), writes)
}

// Writes that fail are undone alone, although SQLite's writer runs them in one transaction with others.
func TestGroupFailsOneByOne(t *testing.T) {
	b := newTestDB(t, sqltest.SQLite(t))
	letGo := b.startBlockedWrite()
	then := func(id services.PostID, and func() error) func(*sql.Tx) error {
		return func(tx *sql.Tx) error { return errors.Join(publishPost(b.Ctx, id)(tx), and()) }
	}
	errs := b.queueWrites(
		publishPost(b.Ctx, 1),
		then(2, func() error { return errDeliberate }),
		then(3, func() error { panic("three") }),
		func(tx *sql.Tx) error {
			_, err := tx.Run(b.Ctx, sql.AdHoc("test", "SELECT no_such_column"))
			return err
		},
		publishPost(b.Ctx, 1),
		publishPost(b.Ctx, 6),
	)
	if err := letGo(); err != nil {
		t.Fatal(err)
	}
	var codes []services.Code
	for _, err := range errs() {
		codes = append(codes, services.CodeOf(err))
	}
	equal(t, codes, []services.Code{"", services.Internal, services.Internal, services.Internal, services.Conflict, ""})
	equal(t, b.publishedPosts(), []services.PostID{6, 1})
}

// A short write does not wait for all batches (long writes) that came before it. Short writes and batches take turns, so a batch does not
// wait forever.
func TestShortWritesAndBatchesTakeTurns(t *testing.T) {
	b := newTestDB(t, sqltest.SQLite(t))
	letGo := b.startBlockedWrite()
	const size = 21 // the shortest batch
	var ran []string
	var waits []func() error
	write := func(ctx context.Context, name string, functions int) {
		fns := make([]func(*sql.Tx) error, functions)
		for i := range fns {
			fns[i] = func(*sql.Tx) error {
				if i == 0 {
					ran = append(ran, name)
				}
				return nil
			}
		}
		before, done := b.QueuedWrites(), make(chan error, 1)
		go func() { done <- errors.Join(b.WriteAll(ctx, fns)...) }()
		eventually.Holds(t, "the write queues", func() bool { return b.QueuedWrites() > before })
		waits = append(waits, func() error { return <-done })
	}
	// The first batch has 300 functions, so that no other write shares its transaction.
	write(b.Ctx, "batch 1", 300)
	write(b.Ctx, "batch 2", size)
	write(sql.WithBulkWrites(b.Ctx), "one function for many", 1)
	write(b.Ctx, "short 1", 1)
	write(b.Ctx, "short 2", size-1)
	if err := letGo(); err != nil {
		t.Fatal(err)
	}
	for _, wait := range waits {
		if err := wait(); err != nil {
			t.Error(err)
		}
	}
	equal(t, ran, []string{"batch 1", "short 1", "short 2", "batch 2", "one function for many"})
}

// A write whose caller's context ends while the write still waits in the queue does not run.
func TestCallerGivesUpInTheQueue(t *testing.T) {
	b := newTestDB(t, sqltest.SQLite(t))
	letGo := b.startBlockedWrite()
	ctx, cancel := context.WithCancel(b.Ctx)
	ran := false
	gaveUp := make(chan error)
	go func() { gaveUp <- b.Write(ctx, func(*sql.Tx) error { ran = true; return nil }) }()
	eventually.Holds(t, "the write queues", func() bool { return b.QueuedWrites() == 1 })
	errs := b.queueWrites(publishPost(b.Ctx, 1))
	cancel()
	err := <-gaveUp // while the blocked write still stops the writer
	wantCode(t, err, services.Unavailable)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
	if err := errors.Join(letGo(), errors.Join(errs()...)); err != nil {
		t.Fatal(err)
	}
	if ran {
		t.Error("the write ran after its caller got the answer that it would not")
	}
	equal(t, b.publishedPosts(), []services.PostID{1})
}

// Once a function runs, the end of its caller's context does not end its statements or its commit, because an aborted statement
// would undo the whole group.
func TestCallerGivesUpTooLate(t *testing.T) {
	b := newTestDB(t, sqltest.SQLite(t))
	letGo := b.startBlockedWrite()
	ctx, cancel := context.WithCancel(b.Ctx)
	result := make(chan error)
	go func() {
		result <- b.Write(ctx, func(tx *sql.Tx) error {
			cancel()
			return publishPost(ctx, 1)(tx)
		})
	}()
	eventually.Holds(t, "the write queues", func() bool { return b.QueuedWrites() == 1 })
	errs := b.queueWrites(publishPost(b.Ctx, 2))
	if err := errors.Join(letGo(), <-result, errors.Join(errs()...)); err != nil {
		t.Fatal(err)
	}
	equal(t, b.publishedPosts(), []services.PostID{2, 1})
}

// awaitWritesRefused waits until the database accepts no further writes, and lets other goroutines run for a while.
func (b *testDB) awaitWritesRefused() {
	b.T.Helper()
	ctx, cancel := context.WithCancel(b.Ctx)
	cancel() // so that a write that is still accepted does not run
	for range 100 {
		eventually.Holds(b.T, "a write is refused", func() bool {
			return strings.Contains(b.Write(ctx, func(*sql.Tx) error { return nil }).Error(), "closed")
		})
		runtime.Gosched()
	}
}

func TestCloseWaitsForAWriteThatHasBegun(t *testing.T) {
	sqltest.EachURL(t, func(t *testing.T, url string) {
		b := newTestDB(t, url)
		letGo := b.startBlockedWrite()
		closed := make(chan error, 1)
		go func() { closed <- b.Close() }()
		b.awaitWritesRefused()
		select {
		case err := <-closed:
			t.Fatalf("it closed before the write was done: %v", err)
		default:
		}
		if err := errors.Join(letGo(), <-closed); err != nil {
			t.Fatal(err)
		}
	})
}

// Of 300 writes, 256 are queued and the others wait for room in the queue. Each is done or refused.
func TestCloseWaitsForQueuedWrites(t *testing.T) {
	url := sqltest.SQLite(t)
	b := newTestDB(t, url)
	letGo := b.startBlockedWrite()
	const writes = 300
	errs := make(chan error, writes)
	for id := range services.PostID(writes) {
		go func() { errs <- b.Write(b.Ctx, publishPost(b.Ctx, id+1)) }()
	}
	eventually.Holds(t, "the queue is full", func() bool { return b.QueuedWrites() == 256 })
	closed := make(chan error, 1)
	go func() { closed <- b.Close() }()
	b.awaitWritesRefused()
	if err := letGo(); err != nil {
		t.Fatal(err)
	}
	done := 0
	for range writes {
		if err := <-errs; err == nil {
			done++
		} else {
			wantCode(t, err, services.Unavailable)
		}
	}
	if err := <-closed; err != nil {
		t.Fatal(err)
	}
	if done < 256 {
		t.Errorf("%d writes were done", done)
	}
	equal(t, len(newTestDB(t, url).publishedPosts()), done)
}

// A full disk makes SQLite drop the whole transaction of a group. Callers whose writes fit still succeed, no caller gets a
// success for a write that was rolled back, and the writer continues when there is space again.
func TestFullDisk(t *testing.T) {
	b := newTestDB(t, sqltest.SQLite(t))
	pages := must(sqltest.QueryLines(b.Ctx, b, "PRAGMA page_count"))(t)[0]
	limit := func(pages string) {
		b.MustWrite(func(tx *sql.Tx) error {
			_, err := sqltest.QueryLines(b.Ctx, tx, "PRAGMA max_page_count = "+pages)
			return err
		})
	}
	big := func(id services.PostID) func(*sql.Tx) error {
		return putPost(b.Ctx, id, strings.Repeat("x", 1<<20))
	}
	limit(pages)
	letGo := b.startBlockedWrite()
	errs := b.queueWrites(publishPost(b.Ctx, 1), big(2), publishPost(b.Ctx, 3),
		func(tx *sql.Tx) error { _ = big(4)(tx); return nil }) // ignores the error, but must not succeed
	if err := letGo(); err != nil {
		t.Fatal(err)
	}
	var codes []services.Code
	for _, err := range errs() {
		codes = append(codes, services.CodeOf(err))
	}
	equal(t, codes, []services.Code{"", services.Unavailable, "", services.Unavailable})
	equal(t, b.publishedPosts(), []services.PostID{3, 1})
	limit("1000000")
	b.MustWrite(big(2))
	equal(t, b.publishedPosts(), []services.PostID{3, 2, 1})
}

// While another process has the file's write lock, a caller whose deadline passes gets an error, and does not delay callers that
// can wait.
func TestAWriteEndsWithItsTimeWhileTheFileIsLocked(t *testing.T) {
	url := sqltest.SQLite(t)
	b := newTestDB(t, url)
	letGo := sqltest.LockSQLiteFile(t, url)
	timely := func(id services.PostID) {
		ctx, cancel := context.WithTimeout(b.Ctx, 20*time.Millisecond)
		defer cancel()
		err := b.Write(ctx, publishPost(ctx, id))
		wantCode(t, err, services.Unavailable)
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "took too long") {
			t.Errorf("the error is %v", err)
		}
	}
	timely(1)
	patient := make(chan error, 1)
	go func() { patient <- b.Write(b.Ctx, publishPost(b.Ctx, 2)) }()
	timely(3)
	letGo()
	if err := <-patient; err != nil {
		t.Error(err)
	}
	equal(t, b.publishedPosts(), []services.PostID{2})
}

func TestReaderSeesNothingOfAnInFlightWrite(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		b.MustWrite(func(tx *sql.Tx) error {
			if err := publishPost(b.Ctx, 1)(tx); err != nil {
				return err
			}
			if seen := b.publishedPosts(); len(seen) > 0 {
				b.T.Errorf("a reader sees %v", seen)
			}
			return nil
		})
		equal(b.T, b.publishedPosts(), []services.PostID{1})
	})
}
