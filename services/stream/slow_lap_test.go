package stream

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/people"
	"tidings/services/people/peopletest"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
)

// awayUsersWorld is a world of users who, except for the last one, were not seen for long. The test moves the clock of its stream,
// and only a slow lap finds their badges.
type awayUsersWorld struct {
	*testWorld
	clock         *sqltest.Clock // of the stream
	users         []services.UserID
	comparedUsers []services.UserID // the users that were compared, in order
}

var noUsers []services.UserID // the empty list

// newAwayUsersWorld makes count users who were not seen for long, and one who was.
func newAwayUsersWorld(b *peopletest.TestDB, count int) *awayUsersWorld {
	w := &awayUsersWorld{testWorld: newTestWorld(b), clock: sqltest.NewClock()}
	keys := make([]string, count+1)
	for i := range keys {
		keys[i] = fmt.Sprintf("user%d", i)
	}
	w.users = b.MakeUsers(keys...)
	b.MustWrite(func(tx *sql.Tx) error { return people.MarkActive(b.Ctx, tx, w.users[count:]) })
	for _, user := range w.users {
		w.setLikes(user, 1, "", time.Time{})
	}
	return w
}

// newService makes a stream with the clock and with laps, which records the users that it compares.
func (w *awayUsersWorld) newService() *Service {
	s := w.testWorld.newService()
	s.cfg.LapInterval, s.cfg.Clock = time.Minute, w.clock
	s.cfg.ActiveSince = func() time.Time { return w.DB.Now().Add(-time.Hour) }
	peek := s.cfg.Peek
	s.cfg.Peek = func(ctx context.Context, users []services.UserID) ([]*services.Badges, []error) {
		w.comparedUsers = append(w.comparedUsers, users...)
		return peek(ctx, users)
	}
	return s
}

// countUsersWithTotal is the number of users whose newest change has the total n.
func (w *awayUsersWorld) countUsersWithTotal(s *Service, n int) (users int) {
	w.T.Helper()
	totals, _ := w.totalsAfter(s, 0)
	for _, total := range totals {
		if total == n {
			users++
		}
	}
	return users
}

// compareNextUsers runs one step of the slow lap and returns the users that the step has compared.
func (w *awayUsersWorld) compareNextUsers(s *Service) []services.UserID {
	w.T.Helper()
	w.comparedUsers = nil
	sqltest.Equal(w.T, s.stepSlowLap(w.Ctx), nil)
	return w.comparedUsers
}

// A slow lap finds the unmarked changes of the users that laps leave out, and of nobody else.
func TestSlowLapFindsChangesOfAwayUsers(t *testing.T) {
	for _, count := range []int{slowBatchSize - 1, slowBatchSize, 2*slowBatchSize + 1} {
		t.Run(fmt.Sprint(count), func(t *testing.T) {
			peopletest.EachTestDB(t, func(b *peopletest.TestDB) {
				t := b.T
				w := newAwayUsersWorld(b, count)
				s := w.newService()
				w.runUntilIdle(s)
				for range 2 {
					w.clock.Advance(time.Minute)
					w.runUntilIdle(s)
				}
				sqltest.Equal(t, s.Stats().SlowLaps, uint64(1))
				if reported := w.countUsersWithTotal(s, 1); reported != count+1 {
					t.Errorf("%d of %d were reported", reported, count+1)
				}
				w.clock.Advance(slowLapFactor * time.Minute)
				var visited []services.UserID
				for range 3 {
					visited = append(visited, w.compareNextUsers(s)...)
					w.clock.Advance(time.Minute)
				}
				if !slices.Equal(visited, w.users[:count]) {
					t.Errorf("visited %v of %v", visited, w.users)
				}
			})
		})
	}
}

// A slow lap begins ten laps after the last one, or one lap after it if a shared change came since it began.
func TestSlowLapIsDue(t *testing.T) {
	peopletest.EachTestDB(t, func(b *peopletest.TestDB) {
		t := b.T
		w := newAwayUsersWorld(b, 3)
		s := w.newService()
		w.runUntilIdle(s)
		w.runUntilIdle(s)
		sqltest.Equal(t, w.countUsersWithTotal(s, 1), 4)
		for _, c := range []struct {
			after  time.Duration // the time since the step before
			shared uint64        // the number of changes that many users share, in that time
			visits int           // the number of users that the slow lap then compares
		}{
			{time.Minute, 0, 0}, {8 * time.Minute, 0, 0}, {time.Minute, 0, 3}, {59 * time.Second, 1, 0}, {time.Second, 0, 3},
			{time.Minute, 0, 0}, {time.Minute, 1, 3}, {time.Second, 1, 0},
		} {
			w.clock.Advance(c.after)
			w.appliedSharedChanges += c.shared
			if visited := w.compareNextUsers(s); len(visited) != c.visits {
				t.Errorf("%v later, with %d shared changes: %v", c.after, c.shared, visited)
			}
		}
	})
}

// After a batch a slow lap rests, for a multiple of the time that the batch took.
func TestSlowLapRests(t *testing.T) {
	peopletest.EachTestDB(t, func(b *peopletest.TestDB) {
		t := b.T
		w := newAwayUsersWorld(b, 2*slowBatchSize)
		s := w.newService()
		w.afterBadgesRead = func() { w.clock.Advance(time.Second) }
		w.runUntilIdle(s)
		took := s.slowLap.resumeAt.Sub(w.clock.Now())
		if took < 8*time.Second || took > slowLapRestFactor*time.Second || s.slowLap.position.lastUser != w.users[slowBatchSize-1] {
			t.Errorf("rests for %v at %d", took, s.slowLap.position.lastUser)
		}
		w.clock.Advance(took - time.Microsecond)
		sqltest.Equal(t, w.compareNextUsers(s), noUsers)
		w.clock.Advance(time.Microsecond)
		sqltest.Equal(t, w.compareNextUsers(s), w.users[slowBatchSize:2*slowBatchSize])
	})
}

// The next writer goes on where the last one was, and a writer that was deposed moves nothing.
func TestSlowLapOutlivesItsWriter(t *testing.T) {
	peopletest.EachTestDB(t, func(b *peopletest.TestDB) {
		t := b.T
		w := newAwayUsersWorld(b, 3*slowBatchSize)
		first, next := w.newService(), w.newService()
		sqltest.Must(first.RunOnce(b.Ctx))(t)
		first.resign(b.Ctx)
		sqltest.Must(next.becomeWriter(b.Ctx))(t)
		sqltest.Equal(t, w.compareNextUsers(next), w.users[slowBatchSize:2*slowBatchSize])
		w.clock.Advance(time.Hour)
		sqltest.Equal(t, w.compareNextUsers(next), w.users[2*slowBatchSize:3*slowBatchSize])
		sqltest.Equal(t, w.compareNextUsers(first), w.users[slowBatchSize:2*slowBatchSize]) // the deposed writer does not know yet
		sqltest.Equal(t, sqltest.Must(readSlowLapPosition(b.Ctx, b.DB))(t).lastUser, w.users[3*slowBatchSize-1])
		third := w.newService()
		sqltest.Equal(t, resign(b.Ctx, b.DB, next.leaseToken), nil)
		sqltest.Must(third.becomeWriter(b.Ctx))(t)
		sqltest.Equal(t, w.compareNextUsers(third), noUsers) // the end
		sqltest.Equal(t, third.Stats().SlowLaps, uint64(1))
		sqltest.Equal(t, sqltest.Must(readSlowLapPosition(b.Ctx, b.DB))(t).lastUser, services.UserID(0))
	})
}

// Users who cannot be compared are marked, and hold up nobody behind them. While nobody can be compared, the lap waits.
func TestSlowLapMarksUsersThatCannotBeCompared(t *testing.T) {
	peopletest.EachTestDB(t, func(b *peopletest.TestDB) {
		t := b.T
		w := newAwayUsersWorld(b, slowBatchSize+1)
		s := w.newService()
		sqltest.Must(s.RunOnce(b.Ctx))(t) // the first batch
		sqltest.Must(s.compareDueUsers(b.Ctx))(t)
		w.badgeReadErrors[0] = services.Errorf(services.Unavailable, "Redis does not answer")
		w.badgeReadErrors[w.users[slowBatchSize]] = w.badgeReadErrors[0]
		w.clock.Advance(time.Minute)
		if err := s.stepSlowLap(b.Ctx); err == nil {
			t.Error("a slow lap goes on while nobody can be compared")
		}
		delete(w.badgeReadErrors, 0)
		w.clock.Advance(slowLapFactor * time.Minute)
		sqltest.Equal(t, s.stepSlowLap(b.Ctx), nil)
		sqltest.Equal(t, s.Stats().SlowLaps, uint64(1))
		if waiting, _, err := s.Lag(b.Ctx); waiting != 1 || err != nil {
			t.Errorf("%d are marked, %v", waiting, err)
		}
		delete(w.badgeReadErrors, w.users[slowBatchSize])
		w.runUntilIdle(s)
		sqltest.Equal(t, w.countUsersWithTotal(s, 1), slowBatchSize+2)
	})
}

// A user whose badges cannot be read waits without holding up the writer, also when nobody else is due.
func TestUnreadableUserDelaysNobody(t *testing.T) {
	peopletest.EachTestDB(t, func(b *peopletest.TestDB) {
		t := b.T
		w := newAwayUsersWorld(b, 1)
		s := w.newService()
		sqltest.Must(s.becomeWriter(b.Ctx))(t)
		w.badgeReadErrors[w.users[0]] = services.Errorf(services.Unavailable, "not counted in time")
		sqltest.Equal(t, s.Mark(b.Ctx, w.users[:1]), nil)
		if compared, err := s.compareDueUsers(b.Ctx); compared != 1 || err != nil {
			t.Errorf("%d compared, %v", compared, err)
		}
		if compared, err := s.compareDueUsers(b.Ctx); compared != 0 || err != nil {
			t.Errorf("tried again at once: %d, %v", compared, err)
		}
		w.badgeReadErrors[0] = w.badgeReadErrors[w.users[0]]
		sqltest.Equal(t, s.Mark(b.Ctx, w.users[:1]), nil)
		if _, err := s.compareDueUsers(b.Ctx); err == nil {
			t.Error("nobody can be read, and the writer does not say so")
		}
	})
}

// The rest after a lap depends on the time that the lap worked, and not on its wait for an engine.
func TestLapsRestByTheirWork(t *testing.T) {
	peopletest.EachTestDB(t, func(b *peopletest.TestDB) {
		t := b.T
		w := newAwayUsersWorld(b, 1)
		s := w.newService()
		w.afterBadgesRead = func() { w.clock.Advance(time.Second) }
		w.badgeReadErrors[0] = services.Errorf(services.Unavailable, "Redis does not answer")
		for _, user := range w.users {
			w.badgeReadErrors[user] = w.badgeReadErrors[0]
		}
		if _, err := s.stepLap(b.Ctx); err == nil {
			t.Fatal("a lap goes on while nobody can be compared")
		}
		w.clock.Advance(time.Hour)
		clear(w.badgeReadErrors)
		for more := true; more; {
			more = sqltest.Must(s.stepLap(b.Ctx))(t)
		}
		sqltest.Equal(t, s.Stats().Laps, uint64(1))
		w.appliedSharedChanges++
		for wait, due := range map[time.Duration]bool{(lapRestFactor - 1) * time.Second: false, (lapRestFactor + 1) * time.Second: true} {
			if got := s.lapDue(s.lap.ended.Add(wait)); got != due {
				t.Errorf("due %v after the lap: %t, want %t", wait, got, due)
			}
		}
	})
}

// A writer whose clock was ahead does not keep the next one from slow laps.
func TestSlowLapsAfterAWriterWhoseClockWasAhead(t *testing.T) {
	peopletest.EachTestDB(t, func(b *peopletest.TestDB) {
		t := b.T
		w := newAwayUsersWorld(b, 3)
		ahead, next := w.newService(), w.newService()
		sqltest.Must(ahead.RunOnce(b.Ctx))(t)
		ahead.resign(b.Ctx)
		sqltest.Must(next.becomeWriter(b.Ctx))(t)
		w.clock.Advance(-time.Hour)
		sqltest.Equal(t, w.compareNextUsers(next), w.users[:3])
	})
}
