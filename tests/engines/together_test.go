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

// follower appends the log's head, as it read it, to the log. So the entry shows whether the function saw everything before it.
func (b *bundle) follower(kind string) func(*sql.Tx) error {
	return func(tx *sql.Tx) error {
		head, err := changelog.LockLog(b.ctx, tx, kind)
		if err != nil {
			return err
		}
		_, err = changelog.AppendLog(b.ctx, tx, kind, fmt.Sprint(head), nil)
		return err
	}
}

// followed checks that each entry of a log names the one before it.
func (b *bundle) followed(kind string, entries int) {
	b.t.Helper()
	list := must(changelog.LogAfter(b.ctx, b.DB, kind, 0, entries+1))(b.t)
	equal(b.t, len(list), entries)
	for _, entry := range list {
		equal(b.t, entry.Key, fmt.Sprint(entry.Version-1))
	}
}

// Each function of a batch sees what those before it did, and nothing of those that failed.
func TestAFunctionOfABatchSeesThoseBeforeIt(t *testing.T) {
	each(t, func(b *bundle) {
		var fns []func(*sql.Tx) error
		var want []error
		for i := range 60 {
			follower := b.follower(fmt.Sprint("log ", i%2))
			fns, want = append(fns, follower), append(want, nil)
			if i%5 == 4 {
				fns = append(fns, func(tx *sql.Tx) error { return errors.Join(follower(tx), errMine) })
				want = append(want, errMine)
			}
		}
		for i, err := range b.WriteAll(b.ctx, fns) {
			if !errors.Is(err, want[i]) {
				b.t.Errorf("function %d: %v, want %v", i, err, want[i])
			}
		}
		b.followed("log 0", 30)
		b.followed("log 1", 30)
	})
}

// Concurrent batches and single writes that change the same rows all end, each in order.
func TestConcurrentBatchesEnd(t *testing.T) {
	each(t, func(b *bundle) {
		const batches, functions, singles = 4, 12, 40
		var all sync.WaitGroup
		for range batches {
			all.Go(func() {
				fns := make([]func(*sql.Tx) error, functions)
				for i := range fns {
					fns[i] = b.follower("log")
				}
				if err := errors.Join(b.WriteAll(b.ctx, fns)...); err != nil {
					b.t.Error(err)
				}
			})
		}
		all.Go(func() {
			for range singles {
				if err := b.Write(b.ctx, b.follower("log")); err != nil {
					b.t.Error(err)
				}
			}
		})
		all.Wait()
		b.followed("log", batches*functions+singles)
	})
}

// Of long batches one runs at a time, and short ones do not wait for it: long ones hold locks for several passes, and those that share
// rows would keep each other from ending.
func TestLongBatchesRunOneAfterTheOther(t *testing.T) {
	b := newBundle(t, sqltest.Postgres(t))
	b.MakeUsers("ann")
	b.write(b.follower("log"))
	held, free, released := make(chan struct{}), make(chan struct{}), make(chan error, 1)
	go func() {
		released <- b.Write(b.ctx, func(tx *sql.Tx) error {
			_, err := changelog.LockLog(b.ctx, tx, "log")
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
				fns[i] = b.follower("log")
			}
			done <- errors.Join(b.WriteAll(b.ctx, fns)...)
		}()
	}
	waiting := func(event string) (count int) {
		text := fmt.Sprintf(`SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND wait_event = '%s'`, event)
		must(b.DB.One(b.ctx, sql.AdHoc("test", text), nil, &count))(t)
		return count
	}
	eventually.Holds(t, "one has begun, and the others wait for it", func() bool { return waiting("transactionid") == 1 && waiting("advisory") == batches-1 })
	if err := errors.Join(b.WriteAll(b.ctx, []func(*sql.Tx) error{put(b.ctx, 1), put(b.ctx, 2)})...); err != nil {
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
	b.followed("log", 1+batches*long)
}

// An id that a function makes is greater than those of the functions before it, however often they are run.
func TestIDsOfABatchRise(t *testing.T) {
	each(t, func(b *bundle) {
		ids := services.NewIDClock(b.clock, 1)
		fns := make([]func(*sql.Tx) error, 20)
		for i := range fns {
			fns[i] = func(tx *sql.Tx) error {
				if i%2 == 0 { // these need an answer first
					if _, err := changelog.LockLog(b.ctx, tx, "log"); err != nil {
						return err
					}
				}
				return putPost(b.ctx, tx, 1, tx.NewID(ids), fmt.Sprint(i))
			}
		}
		equal(b.t, errors.Join(b.WriteAll(b.ctx, fns)...), nil)
		posts := b.published() // the newest first
		equal(b.t, len(posts), len(fns))
		for i, body := range must(b.Lines(b.ctx, "SELECT body FROM posts ORDER BY id DESC"))(b.t) {
			equal(b.t, body, fmt.Sprint(len(fns)-1-i))
		}
	})
}

// A function whose caller's deadline has passed ends at its next statement, with that error. It writes nothing, and the other callers do
// not wait.
func TestAWriteEndsWithItsTime(t *testing.T) {
	each(t, func(b *bundle) {
		ctx, cancel := context.WithTimeout(b.ctx, 50*time.Millisecond)
		defer cancel()
		for _, functions := range []int{1, 3} {
			fns := make([]func(*sql.Tx) error, functions)
			for i := range fns {
				fns[i] = func(tx *sql.Tx) error {
					if err := put(ctx, services.PostID(i+1))(tx); err != nil {
						return err
					}
					<-ctx.Done()
					_, err := changelog.LockLog(ctx, tx, "log")
					return err
				}
			}
			for _, err := range b.WriteAll(ctx, fns) {
				coded(b.t, err, services.Unavailable)
				if !strings.Contains(err.Error(), "took too long") {
					b.t.Errorf("the error is %v", err)
				}
			}
		}
		equal(b.t, len(b.published()), 0)
		b.write(put(b.ctx, 1))
	})
}

// A function that behaves differently each time cannot go out with others, and still ends correctly.
func TestANondeterministicFunctionRunsAlone(t *testing.T) {
	each(t, func(b *bundle) {
		runs := 0
		fns := make([]func(*sql.Tx) error, 12)
		for i := range fns {
			fns[i] = func(tx *sql.Tx) error {
				runs++
				if _, err := changelog.AppendLog(b.ctx, tx, "runs", fmt.Sprint(runs), nil); err != nil || i%3 > 0 {
					return err
				}
				return errMine
			}
		}
		fns = append(fns, b.follower("log"), b.follower("log"))
		for i, err := range b.WriteAll(b.ctx, fns) {
			if (err != nil) != (i < 12 && i%3 == 0) {
				b.t.Errorf("function %d: %v", i, err)
			}
		}
		equal(b.t, len(must(changelog.LogAfter(b.ctx, b.DB, "runs", 0, 100))(b.t)), 8)
		b.followed("log", 2)
	})
}
