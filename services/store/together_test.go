package store_test

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
	"tidings/services/sql/sqltest"
	"tidings/services/store"
)

// follower appends to a log what it found as the log's head, and so says whether it saw all that was before it.
func (b *bundle) follower(kind string) func(*store.Tx) error {
	return func(tx *store.Tx) error {
		head, err := changelog.LockLog(b.ctx, tx.Tx, kind)
		if err != nil {
			return err
		}
		_, err = changelog.AppendLog(b.ctx, tx.Tx, kind, fmt.Sprint(head), nil)
		return err
	}
}

// followed checks that each entry of a log names the one before it.
func (b *bundle) followed(kind string, entries int) {
	b.t.Helper()
	list := must(changelog.LogAfter(b.ctx, b.Store.DB, kind, 0, entries+1))(b.t)
	equal(b.t, len(list), entries)
	for _, entry := range list {
		equal(b.t, entry.Key, fmt.Sprint(entry.Version-1))
	}
}

// Each function of a batch sees what those before it did, and nothing of those that failed.
func TestAFunctionOfABatchSeesThoseBeforeIt(t *testing.T) {
	each(t, func(b *bundle) {
		var fns []func(*store.Tx) error
		var want []error
		for i := range 60 {
			follower := b.follower(fmt.Sprint("log ", i%2))
			fns, want = append(fns, follower), append(want, nil)
			if i%5 == 4 {
				fns = append(fns, func(tx *store.Tx) error { return errors.Join(follower(tx), errMine) })
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

// Batches and single writes that change the same rows all the time all come to their end, each in order.
func TestBatchesAtOnceComeToTheirEnd(t *testing.T) {
	each(t, func(b *bundle) {
		const batches, functions, singles = 4, 12, 40
		var all sync.WaitGroup
		for range batches {
			all.Go(func() {
				fns := make([]func(*store.Tx) error, functions)
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

// An id that a function makes is greater than those of the functions before it, however often they are run.
func TestIDsOfABatchRise(t *testing.T) {
	each(t, func(b *bundle) {
		ids := services.NewIDClock(b.clock, 1)
		fns := make([]func(*store.Tx) error, 20)
		for i := range fns {
			fns[i] = func(tx *store.Tx) error {
				if i%2 == 0 { // these need an answer first
					if _, err := changelog.LockLog(b.ctx, tx.Tx, "log"); err != nil {
						return err
					}
				}
				post := services.Post{ID: tx.NewID(ids), Author: 1, Kind: services.PostKindPost, Body: fmt.Sprint(i), UpdatedAt: tx.Now}
				return tx.InsertPost(b.ctx, post)
			}
		}
		equal(b.t, errors.Join(b.WriteAll(b.ctx, fns)...), nil)
		posts := b.published() // the newest first
		equal(b.t, len(posts), len(fns))
		found := must(b.Posts(b.ctx, posts))(b.t)
		for i, id := range posts {
			equal(b.t, found[id].Body, fmt.Sprint(len(fns)-1-i))
		}
	})
}

// A function whose caller's deadline has passed ends at its next statement, with that error. It leaves nothing behind, and the
// other callers do not wait.
func TestAWriteEndsWithItsTime(t *testing.T) {
	each(t, func(b *bundle) {
		ctx, cancel := context.WithTimeout(b.ctx, 50*time.Millisecond)
		defer cancel()
		for _, functions := range []int{1, 3} {
			fns := make([]func(*store.Tx) error, functions)
			for i := range fns {
				fns[i] = func(tx *store.Tx) error {
					if err := put(ctx, services.PostID(i+1))(tx); err != nil {
						return err
					}
					<-ctx.Done()
					_, err := changelog.LockLog(ctx, tx.Tx, "log")
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

// A function that does something else whenever it is run cannot go out with others, and still ends as it should.
func TestAFunctionThatIsNeverTheSameRunsAlone(t *testing.T) {
	each(t, func(b *bundle) {
		runs := 0
		fns := make([]func(*store.Tx) error, 12)
		for i := range fns {
			fns[i] = func(tx *store.Tx) error {
				runs++
				if _, err := changelog.AppendLog(b.ctx, tx.Tx, "runs", fmt.Sprint(runs), nil); err != nil || i%3 > 0 {
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
		equal(b.t, len(must(changelog.LogAfter(b.ctx, b.Store.DB, "runs", 0, 100))(b.t)), 8)
		b.followed("log", 2)
	})
}

// Many changes of few shows, each of which draws its version and notes where the show stood, go out together as changes of
// many shows do: a version that another of them has taken meanwhile does not end a pass.
func TestChangesOfTheSameShowsGoOutTogether(t *testing.T) {
	url, trips := sqltest.CountTrips(t, sqltest.Postgres(t))
	b := newBundle(t, url)
	const shows, changes = 12, 60
	host := b.users("host")[0]
	for i := range shows {
		b.show(aShow(services.PostID(i+1), host, services.ShowUpcoming, 1))
	}
	fns := make([]func(*store.Tx) error, changes)
	for i := range fns {
		fns[i] = func(tx *store.Tx) error {
			if _, err := changelog.LockLog(b.ctx, tx.Tx, "show"); err != nil {
				return err
			}
			show, err := tx.ShowForUpdate(b.ctx, services.PostID(i%shows+1))
			if err != nil {
				return err
			}
			if i%7 == 3 { // some are refused
				return errMine
			}
			version, err := changelog.AppendLog(b.ctx, tx.Tx, "show", fmt.Sprint(i), nil)
			if err != nil {
				return err
			}
			former := &store.ShowFormer{Show: show.ID, Host: show.Host, Status: show.Status, Version: show.Version, Until: version, UntilAt: tx.Now}
			show.Version, show.UpdatedAt = version+1000, tx.Now
			return tx.UpdateShow(b.ctx, show, former)
		}
	}
	trips.Take()
	for i, err := range b.WriteAll(b.ctx, fns) {
		if (i%7 == 3) != errors.Is(err, errMine) || i%7 != 3 && err != nil {
			t.Errorf("change %d: %v", i, err)
		}
	}
	const most = 30 // one by one they take 6 each
	n := trips.Take()
	t.Logf("%d round trips", n)
	if n > most {
		t.Errorf("%d changes of %d shows took %d round trips, want %d at most", changes, shows, n, most)
	}
	for i, entry := range must(changelog.LogAfter(b.ctx, b.Store.DB, "show", 0, changes))(t) {
		if want := fmt.Sprint(i + (i+3)/6); entry.Key != want {
			t.Errorf("entry %d is of change %s, want %s", i, entry.Key, want)
		}
	}
}
