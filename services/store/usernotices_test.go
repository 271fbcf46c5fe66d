package store_test

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tidings/services"
	"tidings/services/store"
	"tidings/tests/histories"
)

const dormancy = 30 * 24 * time.Hour

// enter is the first thing that a user's visit does.
func (b *bundle) enter(user services.UserID) (n store.UserNotices) {
	b.t.Helper()
	b.write(func(tx *store.Tx) (err error) {
		if err = tx.EnterNotices(b.ctx, user, b.clock.Now().Add(-dormancy)); err != nil {
			return err
		}
		if n, err = tx.UserNotices(b.ctx, user); err != nil {
			return err
		}
		return tx.MarkActive(b.ctx, []services.UserID{user})
	})
	n.SeenAt = time.Time{} // of the visit before
	return n
}

// standing is a user's state, without the time of their last visit.
func (b *bundle) standing(user services.UserID) store.UserNotices {
	b.t.Helper()
	n := must(b.UserNotices(b.ctx, user))(b.t)
	n.SeenAt = time.Time{}
	return n
}

func standsAt(version, position, dotsFrom uint64) services.NoticeState {
	return services.NoticeState{Version: version, Position: position, DotsFrom: dotsFrom}
}

func (b *bundle) markAnnouncements(user services.UserID, position uint64) (n store.UserNotices) {
	b.t.Helper()
	b.write(func(tx *store.Tx) (err error) { n, err = tx.RaiseAnnouncementsRead(b.ctx, user, position); return err })
	return n
}

func TestNewUsersStartAtTheEnd(t *testing.T) {
	each(t, func(b *bundle) {
		user := b.users("alice")[0]
		version := uint64(b.clock.Now().UnixMicro())
		equal(b.t, b.standing(user), store.UserNotices{Dots: map[string]uint64{}})
		stamp := b.raise("shop", 0)
		want := store.UserNotices{NoticeState: standsAt(version, stamp, stamp), Dots: map[string]uint64{}}
		equal(b.t, b.enter(user), want)
		b.raise("shop", 0)
		equal(b.t, b.enter(user), want) // again changes nothing
		equal(b.t, b.standing(user), want)
		b.write(func(tx *store.Tx) error { _, err := tx.SetSegments(b.ctx, user, 6); return err })
		cleared := b.clear(user, "shop")
		want.Segments, want.Dots["shop"] = services.SegmentState{Version: version, Bits: 6}, cleared
		equal(b.t, b.enter(user), want)
	})
}

func TestAnnouncementsReadNeverGoesBack(t *testing.T) {
	each(t, func(b *bundle) {
		user := b.users("alice")[0]
		first := b.announce(1).Position
		equal(b.t, b.markAnnouncements(user, first-1).Position, first) // new: the present end
		second, third := b.announce(2).Position, b.announce(3).Position
		version := b.enter(user).Version
		equal(b.t, b.markAnnouncements(user, third).Position, third)
		late := b.markAnnouncements(user, second)
		equal(b.t, []uint64{late.Position, late.Version, late.DotsFrom}, []uint64{third, version + 1, first})
	})
}

// A user who was away for 30 days counts as new, whether or not the janitor has run.
func TestDormantPositionsGo(t *testing.T) {
	each(t, func(b *bundle) {
		for _, swept := range []bool{false, true} {
			users := b.users(fmt.Sprint("away", swept), fmt.Sprint("here", swept))
			away, here := users[0], users[1]
			b.raise("shop", 0)
			b.enter(away)
			b.clear(away, "shop")
			b.write(func(tx *store.Tx) error { _, err := tx.SetSegments(b.ctx, away, 1); return err })
			old := b.enter(away)
			b.enter(here)
			b.clock.advance(dormancy - time.Hour)
			b.enter(here)
			equal(b.t, b.enter(away), old) // just in time
			b.clock.advance(time.Hour)
			b.enter(here)
			b.clock.advance(dormancy)
			stamp := b.raise("shop", 0)
			b.enter(here)
			if swept {
				b.sweep(1)
				equal(b.t, b.standing(away), store.UserNotices{Segments: old.Segments, Dots: map[string]uint64{}})
			}
			back := b.enter(away)
			if back.Version <= old.Version {
				b.t.Fatalf("the version went from %d to %d", old.Version, back.Version)
			}
			equal(b.t, back, store.UserNotices{NoticeState: standsAt(back.Version, stamp, stamp), Segments: old.Segments, Dots: map[string]uint64{}})
			equal(b.t, b.enter(here).Position < stamp, true)
		}
	})
}

// sweep runs a whole round of the janitor's steps and returns how many positions it deleted.
func (b *bundle) sweep(limit int) (dropped int) {
	b.t.Helper()
	for last, first := services.UserID(0), true; first || last > 0; first = false {
		var n int
		var err error
		if last, n, err = b.DropDormantNotices(b.ctx, b.clock.Now().Add(-dormancy), last, limit); err != nil {
			b.t.Fatal(err)
		}
		dropped += n
	}
	return dropped
}

func TestDropDormantNoticesIsBoundedAndComplete(t *testing.T) {
	each(t, func(b *bundle) {
		for n := range 7 {
			b.enter(b.users(fmt.Sprint("user", n))[0])
		}
		b.clock.advance(dormancy + time.Second)
		b.enter(b.users("user3")[0])
		last, dropped, err := b.DropDormantNotices(b.ctx, b.clock.Now().Add(-dormancy), 0, 3)
		equal(b.t, []any{last, dropped, err}, []any{b.users("user2")[0], 3, error(nil)})
		equal(b.t, b.sweep(2), 3)
		equal(b.t, b.sweep(2), 0)
		equal(b.t, must(b.UserNotices(b.ctx, b.users("user3")[0]))(b.t).Version > 0, true)
	})
}

// A user returns on two devices while the janitor runs: they have one position, which the janitor leaves alone.
func TestReturningWhileDormantNoticesAreDropped(t *testing.T) {
	each(t, func(b *bundle) {
		var users []services.UserID
		for n := range 20 {
			users = append(users, b.users(fmt.Sprint("user", n))[0])
			b.enter(users[n])
		}
		b.clock.advance(dormancy + time.Second)
		stamp := b.raise("shop", 0)
		var all sync.WaitGroup
		all.Go(func() { b.sweep(3) })
		for _, user := range users {
			for range 2 {
				all.Go(func() {
					if n := b.enter(user); n.Position != stamp || n.DotsFrom != stamp {
						b.t.Errorf("user %d is at %+v, want %d", user, n, stamp)
					}
				})
			}
		}
		all.Wait()
		b.raise("shop", 0)
		for _, user := range users {
			equal(b.t, b.enter(user).Position, stamp)
		}
	})
}

// TestUserNoticesAgainstModel visits, marks, clears, goes away and sweeps at random.
func TestUserNoticesAgainstModel(t *testing.T) {
	histories.Fewer(t, 3)
	each(t, func(b *bundle) {
		history := 0
		rapid.Check(b.t, func(t *rapid.T) {
			history++
			user := b.users(fmt.Sprint("user", history))[0]
			stamp := b.raise("shop", 0)
			var model store.UserNotices
			var seen, changed time.Time // changed: when the row was made or a mark moved it
			away := func() bool {
				since := b.clock.Now().Add(-dormancy)
				return model.Version > 0 && seen.Before(since) && changed.Before(since)
			}
			forget := func() { model.NoticeState, model.Dots = standsAt(0, 0, 0), map[string]uint64{} }
			visit := func() {
				if model.Version == 0 {
					model.NoticeState = standsAt(1, stamp, stamp)
					changed = b.clock.Now()
				}
			}
			forget()
			for _, step := range rapid.SliceOfN(rapid.IntRange(0, 7), 1, 30).Draw(t, "steps") {
				switch step {
				case 0, 1:
					stamp = b.raise("shop", 0)
				case 2:
					equal(t, must(b.UserNotices(b.ctx, user))(t).IsNew(b.clock.Now().Add(-dormancy)), away() || model.Version == 0)
					if away() {
						forget()
					}
					visit()
					b.enter(user)
					seen = b.clock.Now()
				case 3:
					upTo := stamp - uint64(rapid.IntRange(0, 3).Draw(t, "back"))
					visit()
					if upTo > model.Position {
						model.Position, changed = upTo, b.clock.Now()
					}
					b.markAnnouncements(user, upTo)
				case 4:
					model.Dots["shop"] = stamp
					equal(t, b.clear(user, "shop"), stamp)
				case 5:
					b.clock.advance(time.Duration(rapid.IntRange(0, 40).Draw(t, "days")) * 24 * time.Hour)
				case 6:
					b.sweep(1000)
					if away() {
						forget()
					}
				}
				got := b.standing(user)
				got.Version = min(got.Version, 1)
				equal(t, got, model)
			}
		})
	})
}
