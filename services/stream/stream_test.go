package stream

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/people"
	"tidings/services/people/peopletest"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
	"tidings/tests/eventually"
)

// A marked user gets one change, with the changed parts and their causes. A mark without a difference leaves no change.
func TestMarksBecomeChanges(t *testing.T) {
	peopletest.EachTestDB(t, func(b *peopletest.TestDB) {
		t := b.T
		w := newTestWorld(b)
		users := b.MakeUsers("ann", "bob")
		s := w.newService()
		w.runUntilIdle(s)
		now := time.Now()
		w.setLikes(users[0], 3, "notification:1", now)
		sqltest.Equal(t, s.Mark(b.Ctx, []services.UserID{users[0], users[1], users[0]}), nil)
		w.runUntilIdle(s)
		changes := sqltest.Must(s.ChangesAfter(b.Ctx, 0, 10))(t)
		if len(changes) != 1 || changes[0].Key != "ann" || changes[0].State.Total.Value != 3 || changes[0].Silent(0) || changes[0].State.NewestAlert(0).ID != "notification:1" {
			t.Fatalf("%+v", changes)
		}
		first := changes[0].Seq
		sqltest.Equal(t, s.Mark(b.Ctx, users), nil)
		w.runUntilIdle(s)
		if again, _ := w.totalsAfter(s, first); len(again) != 0 {
			t.Errorf("without a change there are %v", again)
		}
		if waiting, _, err := s.Lag(b.Ctx); waiting != 0 || err != nil {
			t.Errorf("%d users are due, %v", waiting, err)
		}
		w.setLikes(users[0], 1, "", now)
		sqltest.Equal(t, s.Mark(b.Ctx, users[:1]), nil)
		w.runUntilIdle(s)
		changes = sqltest.Must(s.ChangesAfter(b.Ctx, first, 10))(t)
		if len(changes) != 1 || changes[0].State.Total.Value != 1 || !changes[0].Silent(first) || changes[0].Silent(first-1) {
			t.Errorf("after a fall: %+v", changes)
		}
	})
}

// The newest item that is left of a part that fell is looked up, however old the item is.
func TestTheNewestItemOfAFallenPartIsLookedUp(t *testing.T) {
	peopletest.EachTestDB(t, func(b *peopletest.TestDB) {
		t := b.T
		w := newTestWorld(b)
		ann := b.MakeUsers("ann")
		s := w.newService()
		w.runUntilIdle(s)
		first := time.Now()
		now := first.Add(time.Millisecond)
		changes := func(likes int, item string, at time.Time) Change {
			t.Helper()
			w.setLikes(ann[0], likes, item, at)
			sqltest.Equal(t, s.Mark(b.Ctx, ann), nil)
			w.runUntilIdle(s)
			list := sqltest.Must(s.ChangesAfter(b.Ctx, 0, 10))(t)
			if len(list) != 1 {
				t.Fatalf("%+v", list)
			}
			return list[0]
		}
		one := changes(2, "a", first)
		if since := now.Add(-maxAlertAge); w.lastNewestItemsSince.Before(since.Add(-time.Minute)) || w.lastNewestItemsSince.After(time.Now()) {
			t.Errorf("new items are looked up since %s", w.lastNewestItemsSince)
		}
		changes(1, "", now)
		if !w.lastNewestItemsSince.IsZero() {
			t.Errorf("what is left is looked up since %s", w.lastNewestItemsSince)
		}
		two := changes(2, "b", now)
		if two.Silent(one.Seq) {
			t.Errorf("a second item: %+v", two)
		}
		three := changes(1, "a", first)
		if !w.lastNewestItemsSince.IsZero() || !three.Silent(two.Seq-1) || three.Silent(0) {
			t.Errorf("the second was read, what is left was looked up since %s: %+v", w.lastNewestItemsSince, three)
		}
	})
}

// Many changes of a user leave one in the stream.
func TestABurstOfAUserIsOneChange(t *testing.T) {
	peopletest.EachTestDB(t, func(b *peopletest.TestDB) {
		t := b.T
		w := newTestWorld(b)
		users := b.MakeUsers("ann", "bob", "cat", "dan")
		s := w.newService()
		s.cfg.ChangeInterval = time.Hour
		w.runUntilIdle(s)
		const bursts, each = 200, 500
		for i := range bursts {
			for _, user := range users {
				w.setLikes(user, (i+1)*each, "", time.Time{})
			}
			sqltest.Equal(t, s.Mark(b.Ctx, users), nil)
		}
		if totals, _ := w.totalsAfter(s, 0); len(totals) != 0 {
			t.Fatalf("changes before the interval: %v", totals)
		}
		b.MustWrite(func(tx *sql.Tx) error { _, err := tx.Run(b.Ctx, makeAllUsersDue, tx.Now); return err })
		w.runUntilIdle(s)
		totals, _ := w.totalsAfter(s, 0)
		if s.Stats().Changes != uint64(len(users)) || len(totals) != len(users) || totals[users[2]] != bursts*each {
			t.Errorf("%d changes: %v", s.Stats().Changes, totals)
		}
	})
}

// A mark that comes while its user is compared is not lost, and a mark of a user whose badges cannot be read waits.
func TestMarksDuringComparison(t *testing.T) {
	peopletest.EachTestDB(t, func(b *peopletest.TestDB) {
		t := b.T
		w := newTestWorld(b)
		users := b.MakeUsers("ann", "bob")
		s := w.newService()
		w.runUntilIdle(s)
		w.setLikes(users[0], 1, "", time.Time{})
		sqltest.Equal(t, s.Mark(b.Ctx, users[:1]), nil)
		w.afterBadgesRead = func() {
			w.afterBadgesRead = nil
			w.setLikes(users[0], 2, "", time.Time{})
			sqltest.Equal(t, s.Mark(b.Ctx, users[:1]), nil)
		}
		w.runUntilIdle(s)
		if totals, _ := w.totalsAfter(s, 0); totals[users[0]] != 2 {
			t.Errorf("a mark was lost: %v", totals)
		}
		w.badgeReadErrors[users[1]] = errors.New("not now")
		w.setLikes(users[1], 7, "", time.Time{})
		w.setLikes(users[0], 3, "", time.Time{})
		sqltest.Equal(t, s.Mark(b.Ctx, users), nil)
		w.runUntilIdle(s)
		if totals, _ := w.totalsAfter(s, 0); totals[users[0]] != 3 || totals[users[1]] != 0 {
			t.Errorf("with one user who cannot be read: %v", totals)
		}
		delete(w.badgeReadErrors, users[1])
		b.MustWrite(func(tx *sql.Tx) error { _, err := tx.Run(b.Ctx, makeAllUsersDue, tx.Now); return err })
		w.runUntilIdle(s)
		if totals, _ := w.totalsAfter(s, 0); totals[users[1]] != 7 {
			t.Errorf("the user is not tried again: %v", totals)
		}
	})
}

// Users who are marked all the time are compared once in an interval, and so are those whose marks come while they are compared.
func TestMarksDuringComparisonWaitTheInterval(t *testing.T) {
	peopletest.EachTestDB(t, func(b *peopletest.TestDB) {
		t := b.T
		w := newTestWorld(b)
		users := b.MakeUsers("ann", "bob")
		s := w.newService()
		s.cfg.ChangeInterval = time.Hour
		w.runUntilIdle(s)
		w.nextChangeAt[users[1]] = time.Now().Add(time.Minute)
		for round := 1; round <= 3; round++ {
			w.setLikes(users[0], round, "", time.Time{})
			sqltest.Equal(t, s.Mark(b.Ctx, users), nil)
			w.afterBadgesRead = func() {
				w.afterBadgesRead = nil
				sqltest.Equal(t, s.Mark(b.Ctx, users), nil)
			}
			b.MustWrite(func(tx *sql.Tx) error { _, err := tx.Run(b.Ctx, makeAllUsersDue, tx.Now); return err })
			w.runUntilIdle(s)
			if compared := s.Stats().ComparedUsers; compared != uint64(round*len(users)) {
				t.Errorf("after %d rounds %d users were compared", round, compared)
			}
			if waiting, _, err := s.Lag(b.Ctx); waiting != 0 || err != nil {
				t.Errorf("%d users are due again at once, %v", waiting, err)
			}
			if totals, _ := w.totalsAfter(s, 0); totals[users[0]] != round {
				t.Errorf("round %d: %v", round, totals)
			}
		}
	})
}

// Badges that change by time alone are compared when they are due. A lap finds changes that nobody marked, and a shared change
// begins a lap.
func TestUnmarkedChangesAreFoundByTimeAndLaps(t *testing.T) {
	peopletest.EachTestDB(t, func(b *peopletest.TestDB) {
		t := b.T
		w := newTestWorld(b)
		users := b.MakeUsers("ann", "bob")
		b.MustWrite(func(tx *sql.Tx) error { return people.MarkActive(b.Ctx, tx, users) })
		s := w.newService()
		w.setLikes(users[1], 4, "", time.Time{})
		w.nextChangeAt[users[0]] = time.Now().Add(time.Hour)
		sqltest.Equal(t, s.Mark(b.Ctx, users[:1]), nil)
		w.runUntilIdle(s)
		if totals, _ := w.totalsAfter(s, 0); totals[users[1]] != 4 || s.Stats().Laps != 1 {
			t.Errorf("after the first lap: %v, %+v", totals, s.Stats())
		}
		w.setLikes(users[0], 2, "", time.Time{})
		w.runUntilIdle(s)
		if totals, _ := w.totalsAfter(s, 0); totals[users[0]] != 0 {
			t.Errorf("before its time: %v", totals)
		}
		delete(w.nextChangeAt, users[0])
		b.MustWrite(func(tx *sql.Tx) error { _, err := tx.Run(b.Ctx, makeAllUsersDue, tx.Now); return err })
		w.runUntilIdle(s)
		if totals, _ := w.totalsAfter(s, 0); totals[users[0]] != 2 {
			t.Errorf("at its time: %v", totals)
		}
		w.setLikes(users[1], 5, "", time.Time{})
		s.cfg.LapInterval = time.Minute
		s.lap.began = time.Now().Add(-10 * time.Second) // after a twelfth of the time between laps, and long before its end
		s.lap.ended, s.lap.repeatSoon = s.lap.began, false
		w.runUntilIdle(s)
		if totals, _ := w.totalsAfter(s, 0); totals[users[1]] == 5 {
			t.Error("a lap has begun without a shared change")
		}
		w.appliedSharedChanges++
		eventually.HoldsWithin(t, 10*time.Second, "a lap after a shared change has found the user", func() bool {
			w.runUntilIdle(s)
			totals, _ := w.totalsAfter(s, 0)
			return totals[users[1]] == 5
		})
	})
}

// One of two nodes writes, the other takes over, and a writer that comes back late changes nothing.
func TestLateWriterIsFenced(t *testing.T) {
	peopletest.EachTestDB(t, func(b *peopletest.TestDB) {
		t := b.T
		w := newTestWorld(b)
		users := b.MakeUsers("ann")
		late, next := w.newService(), w.newService()
		short := late.cfg.Lease
		late.cfg.Lease = time.Minute // on a busy machine the short one may end between two steps
		w.runUntilIdle(late)
		if w.runUntilIdle(next); next.Stats().IsWriter {
			t.Fatal("two nodes write")
		}
		late.resign(b.Ctx)
		late.cfg.Lease, late.isWriterUntil = short, time.Time{}
		w.setLikes(users[0], 1, "", time.Time{})
		sqltest.Equal(t, late.Mark(b.Ctx, users), nil)
		w.afterBadgesRead = func() { // the late writer hangs here until another node has the lease and has written newer badges
			w.afterBadgesRead = nil
			w.setLikes(users[0], 2, "", time.Time{})
			sqltest.Equal(t, next.Mark(b.Ctx, users), nil)
			eventually.HoldsWithin(t, 10*time.Second, "another node writes", func() bool {
				w.runUntilIdle(next)
				totals, _ := w.totalsAfter(next, 0)
				return totals[users[0]] == 2
			})
		}
		w.runUntilIdle(late)
		if totals, _ := w.totalsAfter(next, 0); totals[users[0]] != 2 {
			t.Errorf("the late writer has replaced the newer change: %v", totals)
		}
		late.resign(b.Ctx)
		next.resign(b.Ctx)
		if late.isWriterUntil = (time.Time{}); !sqltest.Must(late.becomeWriter(b.Ctx))(t) {
			t.Error("a resigned writer keeps its lease")
		}
	})
}

// Two nodes mark and write while a reader follows by position: it misses no user's last change, and no version falls.
func TestReaderMissesNothing(t *testing.T) {
	peopletest.EachTestDB(t, func(b *peopletest.TestDB) {
		t := b.T
		w := newTestWorld(b)
		keys := make([]string, 60)
		for i := range keys {
			keys[i] = string(rune('a'+i%26)) + string(rune('a'+i/26))
		}
		users := b.MakeUsers(keys...)
		nodes := []*Service{w.newService(), w.newService()}
		ctx, stop := context.WithCancel(b.Ctx)
		defer stop()
		var running, marking sync.WaitGroup
		for _, s := range nodes {
			running.Go(func() { _ = s.Run(ctx) })
		}
		for marker := range 4 {
			random := rand.New(rand.NewPCG(1, uint64(marker)))
			marking.Go(func() {
				for i := range 150 {
					some := []services.UserID{users[random.IntN(len(users))], users[random.IntN(len(users))]}
					for _, user := range some {
						w.setLikes(user, 1000*i+random.IntN(1000)+1, "", time.Time{})
					}
					if err := nodes[marker%2].Mark(b.Ctx, some); err != nil {
						t.Errorf("mark: %v", err)
					}
				}
			})
		}
		seen, at := map[services.UserID]int{}, uint64(0)
		follow := func() {
			var totals map[services.UserID]int
			totals, at = w.totalsAfter(nodes[0], at)
			for user, total := range totals {
				seen[user] = total
			}
		}
		marked := make(chan struct{})
		go func() { marking.Wait(); close(marked) }()
		for done := false; !done; {
			follow()
			select {
			case <-marked:
				done = true
			default:
			}
		}
		eventually.HoldsWithin(t, 20*time.Second, "the reader has everybody's last change", func() bool {
			follow()
			w.mu.Lock()
			defer w.mu.Unlock()
			for user, likes := range w.likes {
				if seen[user] != likes {
					return false
				}
			}
			return true
		})
		stop()
		running.Wait()
	})
}

// While the stream is off, nothing is written or read. A stream that is switched on finds what it has missed.
func TestAStreamThatIsOffWritesNothing(t *testing.T) {
	peopletest.EachTestDB(t, func(b *peopletest.TestDB) {
		t := b.T
		w := newTestWorld(b)
		users := b.MakeUsers("ann")
		b.MustWrite(func(tx *sql.Tx) error { return people.MarkActive(b.Ctx, tx, users) })
		s := w.newService()
		s.cfg.AlwaysOn = false
		s.SetHasReaders(false)
		w.afterBadgesRead = func() { t.Error("badges are read while the stream is off") }
		if allocated := testing.AllocsPerRun(100, func() { _ = s.Mark(b.Ctx, users) }); allocated > 0 {
			t.Errorf("a mark allocates %v times", allocated)
		}
		w.setLikes(users[0], 5, "", time.Time{})
		w.runUntilIdle(s)
		if waiting, _, err := s.Lag(b.Ctx); waiting != 0 || err != nil {
			t.Errorf("%d users are due, %v", waiting, err)
		}
		w.afterBadgesRead = nil
		s.SetHasReaders(true)
		w.runUntilIdle(s)
		if totals, _ := w.totalsAfter(s, 0); totals[users[0]] != 5 {
			t.Errorf("switched on: %v", totals)
		}
	})
}

// Forget leaves nothing of a user.
func TestForgetLeavesNothingOfAUser(t *testing.T) {
	peopletest.EachTestDB(t, func(b *peopletest.TestDB) {
		t := b.T
		w := newTestWorld(b)
		users := b.MakeUsers("ann", "bob")
		s := w.newService()
		w.setLikes(users[0], 1, "", time.Time{})
		w.setLikes(users[1], 2, "", time.Time{})
		w.nextChangeAt[users[0]] = time.Now().Add(time.Hour)
		sqltest.Equal(t, s.Mark(b.Ctx, users), nil)
		w.runUntilIdle(s)
		removed := 0
		b.MustWrite(func(tx *sql.Tx) (err error) { removed, err = Forget(b.Ctx, tx, users[0]); return err })
		totals, _ := w.totalsAfter(s, 0)
		if removed != 2 || len(totals) != 1 || totals[users[1]] != 2 {
			t.Errorf("%d rows removed, left %v", removed, totals)
		}
	})
}
