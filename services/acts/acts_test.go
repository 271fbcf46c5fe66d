package acts

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/people/peopletest"
	"tidings/services/sql"
)

// insertUser is the work of these tests, a write like any other.
var insertUser = sql.NewStatement("insert a user of the test of acts", `INSERT INTO users (number, key) VALUES ($1, $2)`)

// testService is a database with the service of acts.
type testService struct {
	*peopletest.TestDB
	*Service
}

// eachEngine runs a test on both SQL engines.
func eachEngine(t *testing.T, test func(k testService)) {
	t.Helper()
	peopletest.EachTestDB(t, func(b *peopletest.TestDB) {
		ids := services.NewIDClock(b.Clock, 1)
		test(testService{b, New(Config{DB: b.DB, IDs: ids, Log: slog.New(slog.DiscardHandler)})})
	})
}

// insertUsersReturningErrors runs one function for each error: the function inserts a user and returns that error.
func (k testService) insertUsersReturningErrors(ctx context.Context, errs ...error) []error {
	var fns []func(*sql.Tx) error
	for i, end := range errs {
		fns = append(fns, func(tx *sql.Tx) error {
			if _, err := tx.Run(ctx, insertUser, 1000+i, strings.Repeat("u", i+1)); err != nil {
				return err
			}
			return end
		})
	}
	return k.WriteAll(ctx, fns)
}

// list returns every act, the newest first.
func (k testService) list() []Act {
	k.T.Helper()
	list, err := k.List(k.Ctx, services.MaxSortableID, 1000)
	if err != nil {
		k.T.Fatal(err)
	}
	return list
}

// newestAct returns the newest act, without its ID.
func (k testService) newestAct() Act {
	k.T.Helper()
	list := k.list()
	if len(list) == 0 {
		k.T.Fatal("no act was kept")
	}
	if at := list[0].ID.Time(); at.Sub(k.Clock.Now()).Abs() > time.Second {
		k.T.Errorf("the act is of %v, done at %v", at, k.Clock.Now())
	}
	list[0].ID = 0
	return list[0]
}

// wantNewest checks the newest act.
func (k testService) wantNewest(want Act) {
	k.T.Helper()
	if got := k.newestAct(); got.Actor != want.Actor || got.Action != want.Action || got.Target != want.Target || got.Details != want.Details || got.Outcome != want.Outcome {
		k.T.Errorf("kept %+v, want %+v", got, want)
	}
}

// pinAct is the act of most tests.
var pinAct = Act{Actor: "ann", Action: "pinAuthorMode", Target: "user:bob", Details: "HUGE"}

// pinActWithOutcome is pinAct as it is kept with an outcome.
func pinActWithOutcome(outcome string) Act {
	act := pinAct
	act.Outcome = outcome
	return act
}

// The outcome is written in the transaction of the work: DONE is committed together with the work, and is rolled back with it.
func TestTheOutcomeIsCommittedWithTheWork(t *testing.T) {
	eachEngine(t, func(k testService) {
		for _, c := range []struct {
			name         string
			errs         []error // the error of each write of the work
			during, then string  // the outcome after the writes of the work, and after the work has returned
		}{
			{"committed", []error{nil}, OutcomeDone, OutcomeDone},
			{"rolled back", []error{services.Errorf(services.Conflict, "no")}, OutcomeStarted, "CONFLICT"},
			{"a part committed", []error{nil, services.Errorf(services.Forbidden, "no")}, OutcomeDone, "FORBIDDEN"},
			{"an error of the program", []error{errors.New("no")}, OutcomeStarted, "INTERNAL"},
			{"no transaction", nil, OutcomeStarted, OutcomeDone},
		} {
			err := k.Do(k.Ctx, pinAct, func(ctx context.Context) error {
				k.wantNewest(pinActWithOutcome(OutcomeStarted))
				err := errors.Join(k.insertUsersReturningErrors(ctx, c.errs...)...)
				k.wantNewest(pinActWithOutcome(c.during))
				return err
			})
			if (err == nil) != (c.then == OutcomeDone) {
				t.Errorf("%s: %v", c.name, err)
			}
			k.wantNewest(pinActWithOutcome(c.then))
			k.MustWrite(func(tx *sql.Tx) error {
				_, err := tx.Run(k.Ctx, sql.AdHoc("test", "DELETE FROM users WHERE number >= 1000"))
				return err
			})
		}
	})
}

// The outcome of an act is written even if its caller has gone away.
func TestTheOutcomeIsWrittenForACallerWhoIsGone(t *testing.T) {
	eachEngine(t, func(k testService) {
		ctx, leave := context.WithCancel(k.Ctx)
		err := k.Do(ctx, pinAct, func(context.Context) error {
			leave()
			return services.Errorf(services.Unavailable, "gone")
		})
		if services.CodeOf(err) != services.Unavailable {
			t.Error(err)
		}
		k.wantNewest(pinActWithOutcome("UNAVAILABLE"))
	})
}

// An act that cannot be recorded is not done.
func TestAnActThatCannotBeRecordedIsNotDone(t *testing.T) {
	eachEngine(t, func(k testService) {
		if err := k.Close(); err != nil {
			t.Fatal(err)
		}
		err := k.Do(k.Ctx, pinAct, func(context.Context) error {
			t.Error("the work was done")
			return nil
		})
		if services.CodeOf(err) != services.Unavailable {
			t.Error(err)
		}
	})
}

// An act is recorded whatever its text is: characters that an engine refuses are replaced, and long texts are cut.
func TestActsWithAnyTextAreRecorded(t *testing.T) {
	eachEngine(t, func(k testService) {
		for text, want := range map[string]string{
			"a\x00b": "a\uFFFDb", "a\xffb": "a\uFFFDb", "日本": "日本", "'; DROP TABLE acts; --": "'; DROP TABLE acts; --",
			strings.Repeat("日", maxDetailsCharacters): strings.Repeat("日", maxDetailsCharacters), strings.Repeat("日", maxDetailsCharacters+1): strings.Repeat("日", maxDetailsCharacters-1) + "…",
		} {
			act := pinAct
			act.Details = text
			if err := k.Do(k.Ctx, act, func(context.Context) error { return nil }); err != nil {
				t.Error(err)
			}
			act.Details, act.Outcome = want, OutcomeDone
			k.wantNewest(act)
		}
		act := pinAct
		act.Target = strings.Repeat("x\x00", maxTargetCharacters)
		if err := k.Do(k.Ctx, act, func(context.Context) error { return nil }); err != nil || len([]rune(k.newestAct().Target)) != maxTargetCharacters {
			t.Errorf("%v, a target of %d characters", err, len([]rune(k.newestAct().Target)))
		}
	})
}

// The object that an act makes becomes its target, if the act is done and has no target of its own.
func TestAnObjectThatAnActMakesIsItsTarget(t *testing.T) {
	eachEngine(t, func(k testService) {
		made := "announcement:1"
		for _, c := range []struct {
			target, want string
			err          error
		}{{"", made, nil}, {"announcement:0", "announcement:0", nil}, {"", "", services.Errorf(services.Invalid, "no")}} {
			act := pinAct
			act.Target, act.MadeID = c.target, func() string { return made }
			_ = k.Do(k.Ctx, act, func(ctx context.Context) error { return errors.Join(k.insertUsersReturningErrors(ctx, c.err)...) }) // the third fails
			if got := k.newestAct().Target; got != c.want {
				t.Errorf("target %q, want %q", got, c.want)
			}
			k.MustWrite(func(tx *sql.Tx) error {
				_, err := tx.Run(k.Ctx, sql.AdHoc("test", "DELETE FROM users WHERE number >= 1000"))
				return err
			})
		}
	})
}

// The pages of the list have no gap and no overlap, the newest act first.
func TestPagesOfActsHaveNoGapOrOverlap(t *testing.T) {
	eachEngine(t, func(k testService) {
		for _, action := range []string{"a", "b", "c", "d", "e"} {
			if err := k.Do(k.Ctx, Act{Action: action}, func(context.Context) error { return nil }); err != nil {
				t.Fatal(err)
			}
		}
		got, before := "", services.MaxSortableID
		for range 3 {
			page, err := k.List(k.Ctx, before, 2)
			if err != nil {
				t.Fatal(err)
			}
			for _, act := range page {
				got, before = got+act.Action, act.ID
			}
			got += "|"
		}
		if got != "ed|cb|a|" {
			t.Errorf("the pages are %s", got)
		}
	})
}

// An act is kept for actRetention and no longer.
func TestOldActsAreDropped(t *testing.T) {
	eachEngine(t, func(k testService) {
		for _, action := range []string{"old", "young"} {
			if err := k.Do(k.Ctx, Act{Action: action}, func(context.Context) error { return nil }); err != nil {
				t.Fatal(err)
			}
			k.Clock.Advance(time.Hour)
		}
		k.Clock.Advance(actRetention - 2*time.Hour)
		if dropped, err := k.dropOldActs(k.Ctx); err != nil || dropped != 0 {
			t.Errorf("dropped %d, %v, before the time", dropped, err)
		}
		k.Clock.Advance(time.Minute)
		if dropped, err := k.dropOldActs(k.Ctx); err != nil || dropped != 1 {
			t.Errorf("dropped %d, %v", dropped, err)
		}
		if list := k.list(); len(list) != 1 || list[0].Action != "young" {
			t.Errorf("left: %+v", list)
		}
	})
}

// An act on a user who does not exist, for example after an erasure, keeps no name. An act under way whose user is erased
// meanwhile keeps no name either.
func TestActsOnMissingUsersKeepNoName(t *testing.T) {
	eachEngine(t, func(k testService) {
		missing := services.Errorf(services.NotFound, "no")
		for _, c := range []struct {
			target, want string
			err          error
		}{{"user:bob", "", missing}, {"post:1", "post:1", missing}, {"user:bob", "user:bob", services.Errorf(services.Forbidden, "no")}, {"user:bob", "user:bob", nil}} {
			act := pinAct
			act.Target = c.target
			_ = k.Do(k.Ctx, act, func(context.Context) error { return c.err })
			if got := k.newestAct(); got.Target != c.want || (got.Details == "") != (c.want == "") {
				t.Errorf("%s, %v: kept %+v", c.target, c.err, got)
			}
		}
		_ = k.Do(k.Ctx, pinAct, func(context.Context) error {
			k.MustWrite(func(tx *sql.Tx) error {
				_, err := emptyTarget(k.Ctx, tx, pinAct.Target)
				return err
			})
			return nil
		})
		if got := k.newestAct(); got.Target != "" || got.Outcome != OutcomeDone {
			t.Errorf("kept %+v of an act whose user was erased", got)
		}
	})
}

// The acts on an erased user stay, but without the name. Acts on other users keep the name.
func TestForgetTargetRemovesTheNameFromActs(t *testing.T) {
	eachEngine(t, func(k testService) {
		for _, target := range []string{"user:bob", "user:bo", "user:bob"} {
			if err := k.Do(k.Ctx, Act{Action: "recountBadges", Target: target}, func(context.Context) error { return nil }); err != nil {
				t.Fatal(err)
			}
		}
		var changed int
		k.MustWrite(func(tx *sql.Tx) (err error) {
			changed, err = emptyTarget(k.Ctx, tx, "user:bob")
			return err
		})
		targets := ""
		for _, act := range k.list() {
			targets += act.Target + "|"
		}
		if changed != 2 || targets != "|user:bo||" {
			t.Errorf("changed %d: %s", changed, targets)
		}
	})
}

// The server's log outlives the erasure of a user, so it names an act by its ID and not by its target.
func TestTheLogDoesNotNameTheTarget(t *testing.T) {
	eachEngine(t, func(k testService) {
		var said bytes.Buffer
		s := New(Config{DB: k.DB, IDs: services.NewIDClock(k.Clock, 1), Log: slog.New(slog.NewTextHandler(&said, nil))})
		err := s.Do(k.Ctx, pinAct, func(ctx context.Context) error {
			k.MustWrite(func(tx *sql.Tx) error {
				_, err := tx.Run(k.Ctx, sql.AdHoc("test", "ALTER TABLE acts RENAME TO acts_away"))
				return err
			})
			return nil
		})
		k.MustWrite(func(tx *sql.Tx) error {
			_, err := tx.Run(k.Ctx, sql.AdHoc("test", "ALTER TABLE acts_away RENAME TO acts"))
			return err
		})
		id := k.list()[0].ID.String()
		if text := said.String(); err != nil || !strings.Contains(text, "act="+id) || strings.Contains(text, "bob") {
			t.Errorf("act %s, %v, the log says %s", id, err, text)
		}
	})
}
