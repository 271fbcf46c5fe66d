package stream

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/people/peopletest"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
)

// panicOnBadgesOf makes each read of badges panic if it includes the user *broken.
func (w *testWorld) panicOnBadgesOf(s *Service, broken *services.UserID) {
	s.cfg.Peek = func(ctx context.Context, users []services.UserID) ([]*services.Badges, []error) {
		if slices.Contains(users, *broken) {
			panic("while they are rendered")
		}
		return w.peekBadges(ctx, users)
	}
}

// A user whose badges panic is tried again later, as after an error. The changes of everybody else go out.
func TestAPanicOfOneUsersBadgesDelaysThatUserAlone(t *testing.T) {
	peopletest.EachTestDB(t, func(b *peopletest.TestDB) {
		t := b.T
		w := newTestWorld(b)
		users := b.MakeUsers("ann", "bob", "cat", "dan", "eve")
		s := w.newService()
		w.runUntilIdle(s)
		broken := users[3]
		w.panicOnBadgesOf(s, &broken)
		var log strings.Builder
		s.cfg.Log = slog.New(slog.NewTextHandler(&log, nil))
		for i, user := range users {
			w.setLikes(user, i+1, "", time.Time{})
		}
		sqltest.Equal(t, s.Mark(b.Ctx, users), nil)
		w.runUntilIdle(s)
		totals, end := w.totalsAfter(s, 0)
		sqltest.Equal(t, totals, map[services.UserID]int{users[0]: 1, users[1]: 2, users[2]: 3, users[4]: 5})
		if waiting, _, err := s.Lag(b.Ctx); waiting != 0 || err != nil {
			t.Errorf("%d users are due, and not later, %v", waiting, err)
		}
		if text := log.String(); strings.Count(text, "level=ERROR") != 1 || !strings.Contains(text, "while they are rendered") {
			t.Errorf("the log is %s", text)
		}
		broken = 0
		b.MustWrite(func(tx *sql.Tx) error { _, err := tx.Run(b.Ctx, makeAllUsersDue, tx.Now); return err })
		w.runUntilIdle(s)
		if totals, _ = w.totalsAfter(s, end); totals[users[3]] != 4 {
			t.Errorf("after the fault was mended there are %v", totals)
		}
	})
}

// The stream goes on if nobody's badges can be rendered because of a panic. No engine is away, so each user is tried again later, and
// not the same batch for ever.
func TestAPanicOfAllBadgesDelaysThem(t *testing.T) {
	peopletest.EachTestDB(t, func(b *peopletest.TestDB) {
		t := b.T
		w := newTestWorld(b)
		users := b.MakeUsers("ann", "bob")
		s := w.newService()
		w.runUntilIdle(s)
		s.cfg.Peek = func(context.Context, []services.UserID) ([]*services.Badges, []error) {
			panic("while they are rendered")
		}
		sqltest.Equal(t, s.Mark(b.Ctx, users), nil)
		if more, err := s.RunOnce(b.Ctx); !more || err != nil {
			t.Errorf("the step ended with %t, %v", more, err)
		}
		if more, err := s.RunOnce(b.Ctx); more || err != nil {
			t.Errorf("they are tried again at once: %t, %v", more, err)
		}
	})
}

// A lap passes a user whose badges panic, and finds the unmarked changes of the others.
func TestALapContinuesAfterAPanic(t *testing.T) {
	peopletest.EachTestDB(t, func(b *peopletest.TestDB) {
		t := b.T
		w := newTestWorld(b)
		users := b.MakeUsers("ann", "bob", "cat")
		for i, user := range users {
			w.setLikes(user, i+1, "", time.Time{})
		}
		s := w.newService()
		w.panicOnBadgesOf(s, &users[1])
		w.runUntilIdle(s)
		totals, _ := w.totalsAfter(s, 0)
		sqltest.Equal(t, totals, map[services.UserID]int{users[0]: 1, users[2]: 3})
	})
}
