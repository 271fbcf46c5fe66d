package live

import (
	"context"
	"slices"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/fanout/fanouttest"
	"tidings/services/notifications/notificationstest"
	"tidings/services/people"
	"tidings/services/projector"
	"tidings/services/sql"
)

// addReminders records that users asked for a reminder of a show.
func addReminders(w *fanouttest.World, show services.ShowID, users ...services.UserID) {
	w.TB.Helper()
	w.Write(func(ctx context.Context, tx *sql.Tx) error {
		for _, user := range users {
			if _, err := putReminder(ctx, tx, show, user); err != nil {
				return err
			}
		}
		return nil
	})
}

// showsRemindedOf returns the shows of which a user was reminded by a notification, the newest first.
func showsRemindedOf(w *fanouttest.World, user services.UserID) (shows []services.ShowID) {
	w.TB.Helper()
	for _, subject := range notificationstest.Subjects(w, user, services.CategoryReminder) {
		shows = append(shows, services.ShowID(subject))
	}
	return shows
}

// storedShow reads a show from SQL as it is now.
func storedShow(w *fanouttest.World, id services.ShowID) Show {
	w.TB.Helper()
	shows, err := readShows(w.TB.Context(), w.DB.Runner, []services.ShowID{id})
	w.Must(err)
	return shows[id]
}

// A user who asked for a reminder of a show gets one when it starts, and nobody else does; users who cannot see the show by
// then get none.
func TestUsersWithAReminderAreNotified(t *testing.T) {
	eachEnginePair(t, nil, func(t *testing.T, w *fanouttest.World) {
		users := w.MakeUsers(5)
		host, fan, other, blocker, unwanted := users[0], users[1], users[2], users[3], users[4]
		show, cancelled := planShow(w, host, time.Hour), planShow(w, host, 2*time.Hour)
		addReminders(w, show, fan, blocker, unwanted)
		addReminders(w, cancelled, fan)
		w.Write(func(ctx context.Context, tx *sql.Tx) error {
			for _, pair := range [][2]services.UserID{{blocker, host}, {host, unwanted}} {
				block := services.Restriction{Kind: services.Block, Owner: pair[0], Other: pair[1], MadeAt: w.IDs.Next()}
				if _, err := people.Restrict(ctx, tx, block); err != nil {
					return err
				}
			}
			return nil
		})
		later := func(show Show, now time.Time) (Show, bool, error) {
			plan := now.Add(3 * time.Hour)
			return show.reschedule(ShowEdit{PlannedAt: &plan}, now)
		}
		changeShows(w, []services.ShowID{show}, later)
		changeShows(w, []services.ShowID{cancelled}, Show.cancel)
		w.RunAllJobs(w.Fanout)
		for _, user := range users {
			if got := showsRemindedOf(w, user); len(got) != 0 {
				t.Errorf("before the start user %d is notified of %v", user, got)
			}
		}
		startShows(w, show)
		startShows(w, show)
		w.RunAllJobs(w.Fanout)
		endShows(w, show)
		w.RunAllJobs(w.Fanout)
		for user, want := range map[services.UserID][]services.ShowID{host: nil, fan: {show}, other: nil, blocker: nil, unwanted: nil} {
			if got := showsRemindedOf(w, user); !slices.Equal(got, want) {
				t.Errorf("user %d is notified of %v, want %v", user, got, want)
			}
		}
		counts := w.Document(fan).Notifications[slices.Index(services.Categories, services.CategoryReminder)]
		if counts.Category != services.CategoryReminder || counts.CountByDay[0] != 1 {
			t.Errorf("the fan's badge has %+v", counts)
		}
		w.CheckAgainstFacts(users...)
	})
}

// A worker may die at any step while it reminds more users than one step handles: each user is reminded exactly once.
func TestEachUserIsRemindedOnceDespiteCrashes(t *testing.T) {
	w := redisServerWorld(t, smallChunks)
	fanouttest.CheckAfterEachCrash(t, w, func() (check func()) {
		users := w.MakeUsers(9)
		show := planShow(w, users[0], time.Hour)
		addReminders(w, show, users[1:]...)
		w.RunAllJobs(w.Fanout)
		startShows(w, show)
		return func() {
			for _, user := range users[1:] {
				if got := showsRemindedOf(w, user); !slices.Equal(got, []services.ShowID{show}) {
					t.Errorf("user %d is notified of %v, want %s", user, got, show)
				}
			}
			w.CheckAgainstFacts(users...)
		}
	})
}

// Shows of which nothing more is reported are closed when they are due and not earlier, each by its own times.
func TestShowsWithoutFurtherReportsAreClosedWhenDue(t *testing.T) {
	eachEnginePair(t, nil, func(t *testing.T, w *fanouttest.World) {
		users := w.MakeUsers(2)
		host, fan := users[0], users[1]
		late, put, ended, live, over := planShow(w, host, time.Hour), planShow(w, host, time.Hour), planShow(w, host, time.Hour), planShow(w, host, time.Hour), planShow(w, host, time.Hour)
		addReminders(w, late, fan)
		w.RunAllJobs(w.Fanout)
		changeShows(w, []services.ShowID{put}, func(show Show, now time.Time) (Show, bool, error) {
			plan := now.Add(3 * time.Hour)
			return show.reschedule(ShowEdit{PlannedAt: &plan}, now)
		})
		endShows(w, ended)
		startShows(w, live, over)
		endShows(w, over)
		planned, started := storedShow(w, late).PlannedAt, storedShow(w, live).StartedAt
		was := storedShow(w, over)
		stands := func(at time.Time, want map[services.ShowID]ShowStatus) {
			t.Helper()
			w.Clock.Advance(at.Sub(w.Clock.Now()))
			w.RunDueJobs(w.Fanout)
			for id, status := range want {
				if got := storedShow(w, id); got.Status != status {
					t.Errorf("at %s show %s is %s, want %s", at, id, got.Status, status)
				}
			}
		}
		const upcoming, running, replay, cancelled = ShowUpcoming, ShowLive, ShowReplay, ShowCancelled
		stands(planned.Add(6*time.Hour-time.Millisecond), map[services.ShowID]ShowStatus{late: upcoming, put: upcoming, ended: upcoming, live: running})
		stands(planned.Add(6*time.Hour), map[services.ShowID]ShowStatus{late: cancelled, put: upcoming, ended: replay, live: running})
		stands(started.Add(12*time.Hour-time.Millisecond), map[services.ShowID]ShowStatus{put: cancelled, live: running})
		stands(started.Add(20*time.Hour), map[services.ShowID]ShowStatus{live: replay})
		if got := storedShow(w, live); !got.EndedAt.Equal(started.Add(12 * time.Hour)) {
			t.Errorf("the live one ended %s after its start", got.EndedAt.Sub(started))
		}
		if got := storedShow(w, ended); !got.StartedAt.Equal(got.EndedAt) {
			t.Errorf("the one that ended before its plan started at %s and ended at %s", got.StartedAt, got.EndedAt)
		}
		if got := storedShow(w, over); got != was {
			t.Errorf("what was over is %+v, was %+v", got, was)
		}
		if got := showsRemindedOf(w, fan); len(got) != 0 {
			t.Errorf("of one that never started somebody is notified: %v", got)
		}
		if waiting, dead := w.CountJobs(); waiting != 0 || dead != 0 {
			t.Errorf("%d jobs wait, %d are dead", waiting, dead)
		}
		// The node cache has the change, too.
		if _, known, there := showServiceOf(w).Memory.ShowAt(late, showServiceOf(w).Memory.Version()); known && there {
			t.Error("boards still have the one that nobody started")
		}
		w.CheckAgainstFacts(users...)
	})
}

// After the limits are raised, a job that was queued before checks the show again when the new limit is reached.
func TestAnOldCloseJobUsesTheRaisedLimits(t *testing.T) {
	w := newShowNode(fanouttest.New(t, fanouttest.Options{})).World
	show := planShow(w, w.MakeUsers(1)[0], time.Hour)
	w.RunAllJobs(w.Fanout)
	other := w.AnotherNode()
	newShowNodeWith(other, func(cfg *Config) {
		cfg.Limits = ShowLimits{CloseUnstartedAfter: 24 * time.Hour, CloseLiveAfter: time.Hour}
	})
	patient := other.Fanout
	planned := storedShow(w, show).PlannedAt
	for _, step := range []struct {
		after  time.Duration // since the show's plan
		status ShowStatus    // of the show by then
	}{{6 * time.Hour, ShowUpcoming}, {24*time.Hour - time.Millisecond, ShowUpcoming}, {24 * time.Hour, ShowCancelled}} {
		w.Clock.Advance(planned.Add(step.after).Sub(w.Clock.Now()))
		w.RunDueJobs(patient)
		if got := storedShow(w, show).Status; got != step.status {
			t.Errorf("%s after its plan it is %s, want %s", step.after, got, step.status)
		}
	}
}

// The history that a session may need stays for as long as the session can live, and is dropped an hour later.
func TestTheJanitorKeepsWhatSessionsNeed(t *testing.T) {
	w := newShowNode(fanouttest.New(t, fanouttest.Options{})).World
	users := w.MakeUsers(2)
	w.Follow(users[0], users[1])
	show := planShow(w, users[0], time.Hour)
	w.RunAllJobs(w.Fanout)
	startShows(w, show)
	w.Unfollow(users[0], users[1])
	w.RunDueJobs(w.Fanout)
	began := w.Clock.Now()
	needed := func() (history int, unfollowed bool) {
		list, err := database{w.DB}.showHistory(t.Context(), time.Time{})
		w.Must(err)
		unfollowed, err = unfollowedSince(t.Context(), w.DB, users[1], users[0], services.SortableIDAt(began.Add(-time.Minute)))
		w.Must(err)
		return len(list), unfollowed
	}
	janitor := projector.NewJanitor(w.Projector)
	for _, step := range []struct {
		after time.Duration // since the start of the show and the unfollow
		rows  int           // former positions that are left
	}{{0, 1}, {12*time.Hour + extraSessionRetention, 1}, {12*time.Hour + extraSessionRetention + time.Second, 0}} {
		w.Clock.Advance(began.Add(step.after).Sub(w.Clock.Now()))
		_, err := janitor.RunOnce(t.Context())
		w.Must(err)
		if history, unfollowed := needed(); history != step.rows || unfollowed != (step.rows > 0) {
			t.Errorf("%s later there are %d rows of history, the unfollow is known %v", step.after, history, unfollowed)
		}
	}
}
