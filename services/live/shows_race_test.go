package live

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/fanout/fanouttest"
	"tidings/services/jobs"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
)

// Many callers report on one show concurrently: each change is logged once, one of the entries has the show's version, and no
// report is refused.
func TestConcurrentReportsOfOneShow(t *testing.T) {
	w := fanouttest.New(t, fanouttest.Options{SQLURL: sqltest.Postgres(t)})
	s := newShowNode(w)
	host := w.MakeUsers(1)[0]
	for range 10 {
		id, logged := s.schedule(host), len(s.changesInLog())
		at := w.Clock.Now()
		title := "Late evening"
		retitled, err := s.Reschedule(host, id, ShowEdit{Title: &title})
		w.Must(err)
		cmds := []*jobs.Command{
			s.Service.Start(host, id, at), s.Service.End(host, id, at, ""), s.Service.Start(host, id, at), s.Service.End(host, id, at, ""),
			s.SetReplay(host, id, "https://example.com/r"), retitled,
		}
		var group sync.WaitGroup
		errs := make([]error, len(cmds))
		for i, cmd := range cmds {
			group.Go(func() { errs[i] = w.Fanout.Commit(t.Context(), cmd)[0] })
		}
		group.Wait()
		for i, err := range errs {
			if err != nil {
				t.Errorf("%s: %v", cmds[i].Name, err)
			}
		}
		show := s.readShow(id)
		if show.Status != ShowReplay || show.ReplayURL == "" || show.Title != title {
			t.Fatalf("%+v", show)
		}
		versions := map[uint64]bool{}
		for _, change := range s.changesInLog()[logged:] {
			versions[change.Show.Version] = true
		}
		if changes := len(s.changesInLog()) - logged; changes != 4 || !versions[show.Version] {
			t.Errorf("the log has %d changes, of the versions %v; the show's is %d", changes, versions, show.Version)
		}
	}
}

// Users set reminders while the show starts: those whose command was accepted are notified, and the others are refused.
func TestRemindersSetWhileTheShowStarts(t *testing.T) {
	w := fanouttest.New(t, fanouttest.Options{SQLURL: sqltest.Postgres(t)})
	s := newShowNode(w)
	users := w.MakeUsers(9)
	host, fans := users[0], users[1:]
	for range 8 {
		id := s.schedule(host)
		errs := make([]error, len(fans))
		var group sync.WaitGroup
		for i, fan := range fans {
			group.Go(func() { errs[i] = w.Fanout.Commit(t.Context(), s.Remind(fan, id, true))[0] })
			if i == len(fans)/2 {
				group.Go(func() {
					if err := w.Fanout.Commit(t.Context(), s.Service.Start(host, id, time.Time{}))[0]; err != nil {
						t.Error(err)
					}
					// The job that notifies starts at once.
					w.RunDueJobs(w.Fanout)
				})
			}
		}
		group.Wait()
		w.RunAllJobs(w.Fanout)
		for i, fan := range fans {
			if code := services.CodeOf(errs[i]); code != "" && code != services.Conflict {
				t.Errorf("user %d is refused: %v", fan, errs[i])
			}
			notified := slices.Contains(showsRemindedOf(w, fan), id)
			if notified != (errs[i] == nil) {
				t.Errorf("user %d is notified: %v, was answered %v", fan, notified, errs[i])
			}
		}
	}
}

// A user can have at most maxReminders reminders of upcoming shows; a show that starts makes room.
func TestTooManyReminders(t *testing.T) {
	w := fanouttest.New(t, fanouttest.Options{})
	s := newShowNode(w)
	users := w.MakeUsers(2)
	host, fan := users[0], users[1]
	first, more := s.schedule(host), s.schedule(host)
	w.Must(s.commit(s.Remind(fan, first, true)))
	addRemindersOfOtherHost(w, fan, host, maxReminders-1)
	if err := s.commit(s.Remind(fan, more, true)); services.CodeOf(err) != services.Conflict {
		t.Errorf("one more: %v", err)
	}
	w.Must(s.commit(s.Remind(fan, first, true))) // this reminder exists already
	w.Must(s.commit(s.Service.Start(host, first, time.Time{})))
	w.Must(s.commit(s.Remind(fan, more, true)))
}

// Two reminders that are set at once do not pass the limit: one of them is refused.
func TestConcurrentRemindersKeepTheLimit(t *testing.T) {
	w := fanouttest.New(t, fanouttest.Options{SQLURL: sqltest.Postgres(t)})
	s := newShowNode(w)
	users := w.MakeUsers(2)
	host, fan := users[0], users[1]
	last, more := s.Remind(fan, s.schedule(host), true), s.Remind(fan, s.schedule(host), true)
	addRemindersOfOtherHost(w, fan, host, maxReminders-1)
	first, second := sqltest.RunDuringTransaction(t, w.DB,
		func(tx *sql.Tx) error { _, err := last.Apply(t.Context(), tx); return err },
		func() error { return w.Fanout.Commit(t.Context(), more)[0] })
	sqltest.WantOneErrorWithCode(t, services.Conflict, first, second)
}

// addRemindersOfOtherHost sets reminders of a number of upcoming shows of a host other than the given one.
func addRemindersOfOtherHost(w *fanouttest.World, fan, host services.UserID, count int) {
	w.TB.Helper()
	w.Write(func(ctx context.Context, tx *sql.Tx) error {
		for range count {
			show := Show{ID: services.ShowID(w.IDs.Next()), Host: host + 100, Title: "a", Status: ShowUpcoming, PlannedAt: w.Clock.Now().Add(time.Hour), UpdatedAt: tx.Now}
			if err := putShow(ctx, tx, show); err != nil {
				return err
			}
			if _, err := putReminder(ctx, tx, show.ID, fan); err != nil {
				return err
			}
		}
		return nil
	})
}
