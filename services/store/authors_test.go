package store_test

import (
	"errors"
	"sync"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/jobs"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
	"tidings/services/store"
	"tidings/services/store/storetest"
)

func (b *bundle) author(author services.Author) (version uint64) {
	b.t.Helper()
	b.write(func(tx *store.Tx) (err error) {
		version, err = tx.PutAuthor(b.ctx, author)
		return err
	})
	return version
}

func TestAuthors(t *testing.T) {
	each(t, func(b *bundle) {
		equal(b.t, must(b.AuthorMode(b.ctx, 7))(b.t), services.AuthorSmall)
		equal(b.t, must(b.Authors(b.ctx, []services.UserID{7, 8}))(b.t), map[services.UserID]services.Author{})
		b.write(func(tx *store.Tx) error {
			author, err := tx.AuthorForUpdate(b.ctx, 7)
			equal(b.t, author, services.Author{Number: 7})
			return err
		})
		pinned := services.AuthorBig
		big := services.Author{Number: 7, Followers: 5000, Mode: services.AuthorBig, Pinned: &pinned, Unnamed: 2, CountedAt: b.clock.Now()}
		equal(b.t, b.author(big), uint64(1))
		equal(b.t, b.author(big), uint64(2))
		big.Version = 2
		huge := services.Author{Number: 1<<32 - 1, Followers: 1_000_000, Mode: services.AuthorHuge}
		b.author(huge)
		huge.Pull, huge.Version = true, 1 // a huge author is listed in their followers' documents
		equal(b.t, must(b.Authors(b.ctx, []services.UserID{7, 8, huge.Number}))(b.t), map[services.UserID]services.Author{7: big, huge.Number: huge})
		b.write(func(tx *store.Tx) error {
			author, err := tx.AuthorForUpdate(b.ctx, huge.Number)
			equal(b.t, author, huge)
			mode, err2 := tx.AuthorMode(b.ctx, huge.Number)
			equal(b.t, mode, services.AuthorHuge)
			if err == nil {
				err = err2
			}
			return err
		})
		big.Pinned = nil
		b.author(big)
		equal(b.t, must(b.Authors(b.ctx, []services.UserID{7}))(b.t)[7].Pinned, (*services.AuthorMode)(nil))
	})
}

func TestPullAuthorsOfAReader(t *testing.T) {
	each(t, func(b *bundle) {
		b.follow(services.Edge{Follower: 1, Followee: 2, Since: 20}, services.Edge{Follower: 1, Followee: 3, Since: 30},
			services.Edge{Follower: 1, Followee: 4, Since: 40}, services.Edge{Follower: 1, Followee: 1, Since: 10}, services.Edge{Follower: 9, Followee: 4, Since: 90})
		for _, author := range []services.Author{
			{Number: 1, Mode: services.AuthorHuge}, {Number: 2, Mode: services.AuthorHuge}, {Number: 3, Mode: services.AuthorBig},
			{Number: 4, Mode: services.AuthorSmall, Pull: true}, {Number: 5, Mode: services.AuthorHuge},
		} {
			b.author(author)
		}
		equal(b.t, must(b.PulledBy(b.ctx, 1))(b.t), []services.Edge{{Follower: 1, Followee: 2, Since: 20}, {Follower: 1, Followee: 4, Since: 40}})
		equal(b.t, len(must(b.PulledBy(b.ctx, 3))(b.t)), 0)
		equal(b.t, must(b.PullAuthors(b.ctx, 0, 10))(b.t), []services.UserID{1, 2, 4, 5})
		equal(b.t, must(b.PullAuthors(b.ctx, 1, 2))(b.t), []services.UserID{2, 4})
		equal(b.t, must(b.Pulls(b.ctx, 4))(b.t), true)
		equal(b.t, must(b.Pulls(b.ctx, 3))(b.t), false)
		equal(b.t, must(b.Pulls(b.ctx, 77))(b.t), false)
	})
}

func TestCountFollowers(t *testing.T) {
	each(t, func(b *bundle) {
		for follower := services.UserID(1); follower <= 9; follower++ {
			b.follow(services.Edge{Follower: follower, Followee: 100})
		}
		for limit, want := range map[int]int{5: 5, 9: 9, 10: 9, 1_000_000: 9} {
			equal(b.t, must(b.CountFollowers(b.ctx, 100, limit))(b.t), want)
		}
		equal(b.t, must(b.CountFollowers(b.ctx, 1, 10))(b.t), 0)
	})
}

func TestThresholds(t *testing.T) {
	each(t, func(b *bundle) {
		_, set, err := b.Thresholds(b.ctx)
		if set || err != nil {
			b.t.Fatalf("thresholds stand before anybody set them: %v", err)
		}
		for _, thresholds := range []services.Thresholds{{Big: 5, Huge: 10}, {Big: services.MaxThreshold, Huge: services.MaxThreshold}} {
			b.write(func(tx *store.Tx) error { return tx.SetThresholds(b.ctx, thresholds) })
			got, set, err := b.Thresholds(b.ctx)
			if !set || err != nil || got != thresholds {
				b.t.Errorf("the thresholds are %v (%v, %v), want %v", got, set, err, thresholds)
			}
		}
	})
}

func TestInFlightFanouts(t *testing.T) {
	each(t, func(b *bundle) {
		first, second := store.InFlightFanout{Post: 5, Author: 1}, store.InFlightFanout{Post: 6, Author: 2}
		begin := func(fanout store.InFlightFanout, chunks int) {
			b.write(func(tx *store.Tx) error { return tx.BeginFanout(b.ctx, fanout, chunks) })
		}
		end := func(post services.PostID) (left int) {
			b.write(func(tx *store.Tx) (err error) {
				left, err = tx.EndChunk(b.ctx, post)
				return err
			})
			return left
		}
		begin(second, 1)
		b.clock.advance(time.Minute)
		begin(first, 2)
		begin(first, 9) // changes nothing
		equal(b.t, must(b.InFlightFanouts(b.ctx))(b.t), []store.InFlightFanout{first, second})
		b.write(func(tx *store.Tx) error {
			return errors.Join(tx.ResizeFanout(b.ctx, 5, 3), tx.ResizeFanout(b.ctx, 77, 3))
		})
		equal(b.t, []int{end(5), end(5), end(5), end(5), end(77)}, []int{2, 1, 0, -1, -1})
		equal(b.t, must(b.InFlightFanouts(b.ctx))(b.t), []store.InFlightFanout{second})
		begin(first, 2)
		equal(b.t, must(b.ForgetFanouts(b.ctx, b.clock.Now()))(b.t), 1)
		equal(b.t, must(b.InFlightFanouts(b.ctx))(b.t), []store.InFlightFanout{first})
	})
}

func TestTheLastChunkOfAnAuthor(t *testing.T) {
	each(t, func(b *bundle) {
		b.author(services.Author{Number: 7, Mode: services.AuthorBig, Pull: true, Unnamed: 2})
		end := func() (last bool) {
			b.write(func(tx *store.Tx) (err error) {
				last, err = tx.EndAuthorChunk(b.ctx, 7)
				return err
			})
			return last
		}
		equal(b.t, []bool{end(), end(), end()}, []bool{false, true, false}) // said once too often it changes nothing
		got := must(b.Authors(b.ctx, []services.UserID{7}))(b.t)[7]
		equal(b.t, got, services.Author{Number: 7, Mode: services.AuthorBig, Pull: true, Version: 3})
	})
}

func TestAuthorsToLookAt(t *testing.T) {
	each(t, func(b *bundle) {
		for follower := services.UserID(1); follower <= 5; follower++ {
			for followee := services.UserID(100); followee < 100+follower; followee++ {
				b.follow(services.Edge{Follower: follower, Followee: followee}) // 100 has 5, 101 has 4, ..., 104 has 1
			}
		}
		b.author(services.Author{Number: 104})
		b.author(services.Author{Number: 7})
		equal(b.t, must(b.AuthorsToLookAt(b.ctx, 3, 0, 10))(b.t), []services.UserID{100, 101, 102})
		equal(b.t, must(b.AuthorsToLookAt(b.ctx, 3, 100, 1))(b.t), []services.UserID{101})
		equal(b.t, len(must(b.AuthorsToLookAt(b.ctx, 6, 0, 10))(b.t)), 0)
		equal(b.t, must(b.AuthorsToLookAt(b.ctx, 0, 0, 10))(b.t), []services.UserID{7, 104})
		equal(b.t, must(b.AuthorsToLookAt(b.ctx, 0, 7, 10))(b.t), []services.UserID{104})
	})
}

func TestJobCountsOfSomeKinds(t *testing.T) {
	each(t, func(b *bundle) {
		waiting, oldest, err := jobs.JobCountsOf(b.ctx, b.Store.DB, []string{"a", "b"})
		if waiting != 0 || !oldest.IsZero() || err != nil {
			b.t.Fatalf("%d wait, the oldest since %v, %v", waiting, oldest, err)
		}
		began := b.clock.Now()
		for _, kind := range []string{"a", "b", "c", "a"} {
			b.write(func(tx *store.Tx) error { return jobs.Enqueue(b.ctx, tx.Tx, jobs.NewJob{Kind: kind}) })
			b.clock.advance(time.Second)
		}
		waiting, oldest, err = jobs.JobCountsOf(b.ctx, b.Store.DB, []string{"b", "a"})
		if waiting != 3 || !oldest.Equal(began) || err != nil {
			b.t.Errorf("%d wait, the oldest since %v, %v", waiting, oldest, err)
		}
		_, oldest, err = jobs.JobCountsOf(b.ctx, b.Store.DB, []string{"c"})
		if !oldest.Equal(began.Add(2*time.Second)) || err != nil {
			b.t.Errorf("the oldest since %v, %v", oldest, err)
		}
	})
}

// The trace names each statement, reads and writes, so that tests can count what an operation costs.
func TestTraceNamesEachStatement(t *testing.T) {
	sqltest.EachURL(t, func(t *testing.T, url string) {
		var mu sync.Mutex
		var told []string
		s := storetest.Open(t, sql.Config{URL: url, Trace: func(statement string) {
			mu.Lock()
			defer mu.Unlock()
			told = append(told, statement)
		}})
		ctx := t.Context()
		if _, err := s.AuthorMode(ctx, 1); err != nil {
			t.Fatal(err)
		}
		err := s.Write(ctx, func(tx *store.Tx) error { _, err := tx.PutAuthor(ctx, services.Author{Number: 1}); return err })
		if err != nil {
			t.Fatal(err)
		}
		mu.Lock()
		defer mu.Unlock()
		if len(told) < 2 || told[len(told)-2] != "an author's mode" || told[len(told)-1] != "put an author" {
			t.Errorf("it was told %q", told)
		}
	})
}
