package announcements

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tidings/services"
	"tidings/services/people"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
	"tidings/tests/histories"
)

// dormancy is how long a user must be away in these tests until they count as new again.
const dormancy = 30 * 24 * time.Hour

// recordVisit records a visit: a new user, or one who was away too long, gets a read position at the present end of the list. It returns
// their state.
func (b *testDB) recordVisit(user services.UserID) (n userState) {
	b.T.Helper()
	b.write(func(tx *sql.Tx) (err error) {
		if err = ensurePosition(b.Ctx, tx, user, b.Clock.Now().Add(-dormancy)); err != nil {
			return err
		}
		if n, err = readUser(b.Ctx, tx.Runner, user); err != nil {
			return err
		}
		return people.MarkActive(b.Ctx, tx, []services.UserID{user})
	})
	n.SeenAt = time.Time{} // the time of the former visit is not compared
	return n
}

// stateWithoutVisitTime is a user's state, without the time of their last visit.
func (b *testDB) stateWithoutVisitTime(user services.UserID) userState {
	b.T.Helper()
	n := sqltest.Must(readUser(b.Ctx, b.Runner, user))(b.T)
	n.SeenAt = time.Time{}
	return n
}

// announcementState makes a user's state in the announcements.
func announcementState(version, position, dotsFrom uint64) services.AnnouncementState {
	return services.AnnouncementState{Version: version, Position: position, DotsDismissedUpTo: dotsFrom}
}

// markAnnouncementsRead marks the list read up to a position, and returns the user's state.
func (b *testDB) markAnnouncementsRead(user services.UserID, position uint64) (n userState) {
	b.T.Helper()
	b.write(func(tx *sql.Tx) (err error) {
		if err = raiseReadPosition(b.Ctx, tx, user, position); err == nil {
			n, err = readUser(b.Ctx, tx.Runner, user)
		}
		return err
	})
	return n
}

func TestNewUsersHaveNothingUnread(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		user := b.MakeUsers("alice")[0]
		version := uint64(b.Clock.Now().UnixMicro())
		sqltest.Equal(b.T, b.stateWithoutVisitTime(user), userState{DismissedUpToByDot: map[string]uint64{}})
		stamp := b.raiseDotNow("shop", 0)
		want := userState{AnnouncementState: announcementState(version, stamp, stamp), DismissedUpToByDot: map[string]uint64{}}
		sqltest.Equal(b.T, b.recordVisit(user), want)
		b.raiseDotNow("shop", 0)
		sqltest.Equal(b.T, b.recordVisit(user), want) // a second visit changes nothing
		sqltest.Equal(b.T, b.stateWithoutVisitTime(user), want)
		b.write(func(tx *sql.Tx) error { _, _, err := setSegments(b.Ctx, tx, user, 6); return err })
		cleared := b.clearUserDot(user, "shop")
		want.Segments, want.DismissedUpToByDot["shop"] = services.SegmentState{Version: version, Bits: 6}, cleared
		sqltest.Equal(b.T, b.recordVisit(user), want)
	})
}

func TestAnnouncementsReadNeverGoesBack(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		user := b.MakeUsers("alice")[0]
		first := b.announce(1).Position
		sqltest.Equal(b.T, b.markAnnouncementsRead(user, first-1).Position, first) // a new user starts at the present end of the list
		second, third := b.announce(2).Position, b.announce(3).Position
		version := b.recordVisit(user).Version
		sqltest.Equal(b.T, b.markAnnouncementsRead(user, third).Position, third)
		late := b.markAnnouncementsRead(user, second)
		sqltest.Equal(b.T, []uint64{late.Position, late.Version, late.DotsDismissedUpTo}, []uint64{third, version + 1, first})
	})
}

// A user who was away for 30 days counts as new, whether or not the janitor has deleted their position.
func TestDormantPositionsAreDropped(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		for _, swept := range []bool{false, true} {
			users := b.MakeUsers(fmt.Sprint("away", swept), fmt.Sprint("here", swept))
			away, here := users[0], users[1]
			b.raiseDotNow("shop", 0)
			b.recordVisit(away)
			b.clearUserDot(away, "shop")
			b.write(func(tx *sql.Tx) error { _, _, err := setSegments(b.Ctx, tx, away, 1); return err })
			old := b.recordVisit(away)
			b.recordVisit(here)
			b.Clock.Advance(dormancy - time.Hour)
			b.recordVisit(here)
			sqltest.Equal(b.T, b.recordVisit(away), old) // just in time
			b.Clock.Advance(time.Hour)
			b.recordVisit(here)
			b.Clock.Advance(dormancy)
			stamp := b.raiseDotNow("shop", 0)
			b.recordVisit(here)
			if swept {
				b.dropAllDormantPositions(1)
				sqltest.Equal(b.T, b.stateWithoutVisitTime(away), userState{Segments: old.Segments, DismissedUpToByDot: map[string]uint64{}})
			}
			back := b.recordVisit(away)
			if back.Version <= old.Version {
				b.T.Fatalf("the version went from %d to %d", old.Version, back.Version)
			}
			sqltest.Equal(b.T, back, userState{AnnouncementState: announcementState(back.Version, stamp, stamp), Segments: old.Segments, DismissedUpToByDot: map[string]uint64{}})
			sqltest.Equal(b.T, b.recordVisit(here).Position < stamp, true)
		}
	})
}

// dropAllDormantPositions runs a whole round of the janitor's steps and returns how many positions it deleted.
func (b *testDB) dropAllDormantPositions(limit int) (dropped int) {
	b.T.Helper()
	for last, first := services.UserID(0), true; first || last > 0; first = false {
		var n int
		var err error
		if last, n, err = dropDormantPositions(b.Ctx, b.DB, b.Clock.Now().Add(-dormancy), last, limit); err != nil {
			b.T.Fatal(err)
		}
		dropped += n
	}
	return dropped
}

func TestDormantPositionsAreDroppedInSteps(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		for n := range 7 {
			b.recordVisit(b.MakeUsers(fmt.Sprint("user", n))[0])
		}
		b.Clock.Advance(dormancy + time.Second)
		b.recordVisit(b.MakeUsers("user3")[0])
		last, dropped, err := dropDormantPositions(b.Ctx, b.DB, b.Clock.Now().Add(-dormancy), 0, 3)
		sqltest.Equal(b.T, []any{last, dropped, err}, []any{b.MakeUsers("user2")[0], 3, error(nil)})
		sqltest.Equal(b.T, b.dropAllDormantPositions(2), 3)
		sqltest.Equal(b.T, b.dropAllDormantPositions(2), 0)
		sqltest.Equal(b.T, sqltest.Must(readUser(b.Ctx, b.Runner, b.MakeUsers("user3")[0]))(b.T).Version > 0, true)
	})
}

// A user returns on two devices while the janitor deletes old positions: they have one position, which the janitor leaves alone.
func TestReturningWhileDormantPositionsAreDropped(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		var users []services.UserID
		for n := range 20 {
			users = append(users, b.MakeUsers(fmt.Sprint("user", n))[0])
			b.recordVisit(users[n])
		}
		b.Clock.Advance(dormancy + time.Second)
		stamp := b.raiseDotNow("shop", 0)
		var all sync.WaitGroup
		all.Go(func() { b.dropAllDormantPositions(3) })
		for _, user := range users {
			for range 2 {
				all.Go(func() {
					if n := b.recordVisit(user); n.Position != stamp || n.DotsDismissedUpTo != stamp {
						b.T.Errorf("user %d is at %+v, want %d", user, n, stamp)
					}
				})
			}
		}
		all.Wait()
		b.raiseDotNow("shop", 0)
		for _, user := range users {
			sqltest.Equal(b.T, b.recordVisit(user).Position, stamp)
		}
	})
}

// TestUserStateAgainstModel runs visits, marks of the list as read, clears of a dot, absences and rounds of the janitor at random, and
// compares the user's state with a model.
func TestUserStateAgainstModel(t *testing.T) {
	histories.ReduceRapidChecks(t, 3)
	eachTestDB(t, func(b *testDB) {
		history := 0
		rapid.Check(b.T, func(t *rapid.T) {
			history++
			user := b.MakeUsers(fmt.Sprint("user", history))[0]
			stamp := b.raiseDotNow("shop", 0)
			var model userState
			var seen, changed time.Time // changed: when the row was made, or a mark moved the position
			away := func() bool {
				since := b.Clock.Now().Add(-dormancy)
				return model.Version > 0 && seen.Before(since) && changed.Before(since)
			}
			forget := func() {
				model.AnnouncementState, model.DismissedUpToByDot = announcementState(0, 0, 0), map[string]uint64{}
			}
			visit := func() {
				if model.Version == 0 {
					model.AnnouncementState = announcementState(1, stamp, stamp)
					changed = b.Clock.Now()
				}
			}
			forget()
			for _, step := range rapid.SliceOfN(rapid.IntRange(0, 7), 1, 30).Draw(t, "steps") {
				switch step {
				case 0, 1:
					stamp = b.raiseDotNow("shop", 0)
				case 2:
					sqltest.Equal(t, sqltest.Must(readUser(b.Ctx, b.Runner, user))(t).isNew(b.Clock.Now().Add(-dormancy)), away() || model.Version == 0)
					if away() {
						forget()
					}
					visit()
					b.recordVisit(user)
					seen = b.Clock.Now()
				case 3:
					upTo := stamp - uint64(rapid.IntRange(0, 3).Draw(t, "back"))
					visit()
					if upTo > model.Position {
						model.Position, changed = upTo, b.Clock.Now()
					}
					b.markAnnouncementsRead(user, upTo)
				case 4:
					model.DismissedUpToByDot["shop"] = stamp
					sqltest.Equal(t, b.clearUserDot(user, "shop"), stamp)
				case 5:
					b.Clock.Advance(time.Duration(rapid.IntRange(0, 40).Draw(t, "days")) * 24 * time.Hour)
				case 6:
					b.dropAllDormantPositions(1000)
					if away() {
						forget()
					}
				}
				got := b.stateWithoutVisitTime(user)
				got.Version = min(got.Version, 1)
				sqltest.Equal(t, got, model)
			}
		})
	})
}
