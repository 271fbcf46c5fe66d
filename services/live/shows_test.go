package live

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"tidings/services"
	"tidings/services/changelog"
	"tidings/services/fanout/fanouttest"
	"tidings/services/jobs"
	"tidings/services/notifications/notificationstest"
	"tidings/services/people"
	"tidings/services/sql"
	"tidings/tests/histories"
)

// showNode is a node that serves shows on real engines.
type showNode struct {
	*fanouttest.World
	*Service
}

func newShowNode(w *fanouttest.World) showNode { return newShowNodeWith(w, nil) }

// newShowNodeWith makes the service of shows of a world's node; change, if not nil, changes its configuration.
func newShowNodeWith(w *fanouttest.World, change func(*Config)) showNode {
	cfg := configOf(w, w.Fanout)
	if change != nil {
		change(&cfg)
	}
	notificationstest.New(w)
	s := New(cfg)
	w.ShowService = s
	return showNode{w, s}
}

// commit commits a command a little later than the one before.
func (s showNode) commit(cmd *jobs.Command) error {
	s.TB.Helper()
	s.Clock.Advance(time.Millisecond)
	return s.Fanout.Commit(s.TB.Context(), cmd)[0]
}

// schedule schedules a show of a host for an hour from now, and runs the jobs that bring it onto boards.
func (s showNode) schedule(host services.UserID) services.ShowID {
	s.TB.Helper()
	cmd := s.Service.Schedule(host, ShowDraft{Title: "Evening", PlannedAt: s.Clock.Now().Add(time.Hour)})
	s.Must(s.commit(cmd))
	s.RunDueJobs(s.Fanout)
	id, err := ParseShowID("id", cmd.IDs()[0])
	s.Must(err)
	return id
}

func (s showNode) readShow(id services.ShowID) Show {
	s.TB.Helper()
	shows, err := readShows(s.TB.Context(), s.DB.Runner, []services.ShowID{id})
	s.Must(err)
	return shows[id]
}

// changesInLog returns the changes of shows in the log.
func (s showNode) changesInLog() (changes []loggedChange) {
	s.TB.Helper()
	entries, err := changelog.LogAfter(s.TB.Context(), s.DB, ChangelogKind, 0, 1000)
	s.Must(err)
	for _, entry := range entries {
		change, err := parseLoggedChange(entry)
		s.Must(err)
		changes = append(changes, change)
	}
	return changes
}

// factsText prints all of SQL's data on shows, except jobs and idempotency keys.
func (s showNode) factsText(shows ...services.ShowID) string {
	s.TB.Helper()
	history, err := database{s.DB}.showHistory(s.TB.Context(), time.Time{})
	s.Must(err)
	text := fmt.Sprintf("%+v %+v", s.changesInLog(), history)
	for _, id := range shows {
		reminders, err := readReminders(s.TB.Context(), s.DB, id, 0, 100)
		s.Must(err)
		text += fmt.Sprintf(" %+v %v", s.readShow(id), reminders)
	}
	return text
}

// Every change in a show's life has a version of the log, and its former position is recorded.
func TestTheLifeOfAShow(t *testing.T) {
	fanouttest.EachEnginePair(t, nil, func(t *testing.T, w *fanouttest.World) {
		s := newShowNode(w)
		host := w.MakeUsers(1)[0]
		id := s.schedule(host)
		planned := s.readShow(id)
		if planned.Status != ShowUpcoming || planned.Version != 1 || planned.Host != host {
			t.Fatalf("scheduled: %+v", planned)
		}
		later, title := planned.PlannedAt.Add(time.Hour), "Late evening"
		for _, step := range []struct {
			op      func() *jobs.Command
			status  ShowStatus
			version uint64 // 0: it changes nothing
			moved   bool
		}{
			{func() *jobs.Command {
				cmd, _ := s.Reschedule(host, id, ShowEdit{PlannedAt: &later})
				return cmd
			}, ShowUpcoming, 2, true},
			{func() *jobs.Command {
				cmd, _ := s.Reschedule(host, id, ShowEdit{PlannedAt: &later})
				return cmd
			}, ShowUpcoming, 0, false},
			{func() *jobs.Command { cmd, _ := s.Reschedule(host, id, ShowEdit{Title: &title}); return cmd }, ShowUpcoming, 3, false},
			{func() *jobs.Command { return s.Service.Start(host, id, time.Time{}) }, ShowLive, 4, true},
			{func() *jobs.Command { return s.Service.Start(host, id, time.Time{}) }, ShowLive, 0, false},
			{func() *jobs.Command { return s.Service.End(host, id, time.Time{}, "") }, ShowReplay, 5, true},
			{func() *jobs.Command { return s.Service.End(host, id, time.Time{}, "") }, ShowReplay, 0, false},
			{func() *jobs.Command { return s.SetReplay(host, id, "https://example.com/r") }, ShowReplay, 6, false},
		} {
			before, logged := s.readShow(id), len(s.changesInLog())
			cmd := step.op()
			s.Must(s.commit(cmd))
			after := s.readShow(id)
			if !slices.Equal(cmd.IDs(), []string{after.GlobalID()}) || after.Status != step.status {
				t.Fatalf("%s: %v, %+v", cmd.Name, cmd.IDs(), after)
			}
			if step.version == 0 {
				if after != before || len(s.changesInLog()) != logged {
					t.Errorf("%s again changed %+v to %+v", cmd.Name, before, after)
				}
				continue
			}
			change := s.changesInLog()[logged]
			if diff := cmp.Diff(after, change.Show); diff != "" || len(s.changesInLog()) != logged+1 {
				t.Errorf("%s: the log has (-facts +log):\n%s", cmd.Name, diff)
			}
			want := before.Version
			if step.moved {
				want = step.version
			}
			if after.Version != want {
				t.Errorf("%s: the version is %d, want %d", cmd.Name, after.Version, want)
			}
			if version := showServiceOf(w).Memory.Version(); version != step.version {
				t.Errorf("%s: memory is at %d, want %d", cmd.Name, version, step.version)
			}
		}
		s.wantShowHistory(id, planned, later, title)
	})
}

// wantShowHistory checks what the commands have recorded of a show: the show itself at its end, its former positions, and the
// host's version, which moved only at the start and at the end.
func (s showNode) wantShowHistory(id services.ShowID, planned Show, later time.Time, title string) {
	t, host := s.TB, planned.Host
	t.Helper()
	over := s.readShow(id)
	if over.LiveVersion != 4 || over.LiveStamp.Time().Before(over.StartedAt) || over.ReplayURL == "" || over.Title != title || over.Pull {
		t.Errorf("over: %+v", over)
	}
	history, err := database{s.DB}.showHistory(t.Context(), time.Time{})
	s.Must(err)
	for i := range history {
		history[i].UntilAt = time.Time{}
	}
	want := []formerPosition{
		{Show: id, Host: host, FromVersion: 1, UntilVersion: 2, Status: ShowUpcoming, Score: -planned.PlannedAt.UnixMilli()},
		{Show: id, Host: host, FromVersion: 2, UntilVersion: 4, Status: ShowUpcoming, Score: -later.UnixMilli()},
		{Show: id, Host: host, FromVersion: 4, UntilVersion: 5, Status: ShowLive, Score: over.StartedAt.UnixMilli()},
	}
	if diff := cmp.Diff(want, history); diff != "" {
		t.Errorf("history (-want +got):\n%s", diff)
	}
	// The host's version changes with the set of live shows, and with nothing else.
	var moved []ShowStatus
	for _, change := range s.changesInLog() {
		if change.Live {
			moved = append(moved, change.Show.Status)
		}
	}
	versions, err := database{s.DB}.hostVersions(t.Context(), host-1, 1)
	if !slices.Equal(moved, []ShowStatus{ShowLive, ShowReplay}) || err != nil || versions[0].LiveVersion != 5 {
		t.Errorf("it moved with %v to %v, %v", moved, versions, err)
	}
}

// The shows of a new host are only in SQL until all documents name the host. Then boards have them, in the order of their
// IDs.
func TestShowsOfANewHostWaitUntilDocumentsListTheHost(t *testing.T) {
	fanouttest.EachEnginePair(t, nil, func(t *testing.T, w *fanouttest.World) {
		s := newShowNode(w)
		host := w.MakeUsers(1)[0]
		var ids []services.ShowID
		for range 4 {
			cmd := s.Service.Schedule(host, ShowDraft{Title: "Evening", PlannedAt: w.Clock.Now().Add(time.Hour)})
			w.Must(s.commit(cmd))
			id, _ := ParseShowID("id", cmd.IDs()[0])
			ids = append(ids, id)
		}
		w.Must(s.commit(s.Service.Start(host, ids[0], time.Time{})))
		w.Must(s.commit(s.Service.Start(host, ids[1], time.Time{})))
		w.Must(s.commit(s.Service.End(host, ids[1], time.Time{}, "")))
		w.Must(s.commit(s.Cancel(host, ids[2])))
		if len(s.changesInLog()) != 0 {
			t.Fatalf("boards have %+v", s.changesInLog())
		}
		history, _ := database{w.DB}.showHistory(t.Context(), time.Time{})
		if len(history) != 0 {
			t.Fatalf("history %+v", history)
		}
		w.RunDueJobs(w.Fanout)
		var reported []services.ShowID
		for i, change := range s.changesInLog() {
			reported = append(reported, change.Show.ID)
			if change.Show != s.readShow(change.Show.ID) || change.Show.Version != uint64(i+1) {
				t.Errorf("the log has %+v, the facts %+v", change.Show, s.readShow(change.Show.ID))
			}
		}
		if want := []services.ShowID{ids[0], ids[1], ids[3]}; !slices.Equal(reported, want) {
			t.Errorf("the log has %v, want %v", reported, want)
		}
		if live := s.readShow(ids[0]); live.LiveVersion != 1 || live.LiveStamp == 0 {
			t.Errorf("live: %+v", live)
		}
		history, _ = database{w.DB}.showHistory(t.Context(), time.Time{})
		if len(history) != 1 || history[0].Show != ids[1] || history[0].UntilVersion != 2 || history[0].Status != ShowCancelled {
			t.Errorf("what was over came from nowhere: %+v", history)
		}
		w.Must(showServiceOf(w).Memory.Refresh(t.Context()))
		if _, known, there := showServiceOf(w).Memory.ShowAt(ids[1], 1); !known || there {
			t.Errorf("at version 1 the replay is known %v, there %v", known, there)
		}
	})
}

// In whatever order and however often a batch reports start and end, the show is the same and the log has each move once.
func TestStartAndEndInAnyOrderGiveTheSameShow(t *testing.T) {
	w := fanouttest.New(t, fanouttest.Options{})
	s := newShowNode(w)
	host := w.MakeUsers(1)[0]
	histories.ReduceRapidChecks(t, 5)
	rapid.Check(t, func(rt *rapid.T) {
		id := s.schedule(host)
		w.Clock.Advance(time.Minute)
		start := w.Clock.Now().Add(-30 * time.Second).Truncate(time.Millisecond)
		end := start.Add(10 * time.Second)
		events := []func() *jobs.Command{
			func() *jobs.Command { return s.Service.Start(host, id, start) },
			func() *jobs.Command { return s.Service.End(host, id, end, "https://example.com/r") },
		}
		for range rapid.IntRange(0, 3).Draw(rt, "duplicates") {
			events = append(events, events[rapid.IntRange(0, 1).Draw(rt, "which")])
		}
		var cmds []*jobs.Command
		logged := len(s.changesInLog())
		for _, i := range rapid.Permutation(indices(len(events))).Draw(rt, "order") {
			cmds = append(cmds, events[i]())
		}
		for i, err := range w.Fanout.Commit(t.Context(), cmds...) {
			if err != nil {
				rt.Fatalf("%s: %v", cmds[i].Name, err)
			}
		}
		show := s.readShow(id)
		if show.Status != ShowReplay || !show.StartedAt.Equal(start) || !show.EndedAt.Equal(end) || show.ReplayURL == "" {
			rt.Fatalf("%+v", show)
		}
		if changes := len(s.changesInLog()) - logged; changes != 2 {
			rt.Fatalf("the log has %d changes", changes)
		}
	})
}

// indices returns the numbers from 0 to n-1.
func indices(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	return list
}

// A refused command returns its code, names the argument, and changes nothing.
func TestARefusedCommandChangesNothing(t *testing.T) {
	fanouttest.EachEnginePair(t, nil, func(t *testing.T, w *fanouttest.World) {
		s := newShowNode(w)
		users := w.MakeUsers(4)
		host, other, blocked, fan := users[0], users[1], users[2], users[3]
		upcoming, live, ended, cancelled := s.schedule(host), s.schedule(host), s.schedule(host), s.schedule(host)
		w.Must(s.commit(s.Service.Start(host, live, time.Time{})))
		w.Must(s.commit(s.Service.End(host, ended, time.Time{}, "")))
		w.Must(s.commit(s.Cancel(host, cancelled)))
		w.Write(func(ctx context.Context, tx *sql.Tx) error {
			_, err := people.Restrict(ctx, tx, services.Restriction{Kind: services.Block, Owner: host, Other: blocked, MadeAt: w.IDs.Next()})
			return err
		})
		now := w.Clock.Now()
		past, future, empty, title := now.Add(-time.Second), now.Add(time.Hour), "", "Title"
		edit := func(id services.ShowID, edit ShowEdit) *jobs.Command {
			cmd, err := s.Reschedule(host, id, edit)
			w.Must(err)
			return cmd
		}
		const unknown = services.ShowID(99)
		all := []services.ShowID{upcoming, live, ended, cancelled, unknown}
		for _, c := range []struct {
			what string
			op   *jobs.Command
			code services.Code
			says string
		}{
			{"no title", s.Service.Schedule(host, ShowDraft{PlannedAt: future}), services.Invalid, "title: "},
			{"a plan in the past", s.Service.Schedule(host, ShowDraft{Title: "a", PlannedAt: past}), services.Invalid, "plannedAt: "},
			{"no plan", s.Service.Schedule(host, ShowDraft{Title: "a"}), services.Invalid, "plannedAt: "},
			{"a bad cover", s.Service.Schedule(host, ShowDraft{Title: "a", CoverURL: "c", PlannedAt: future}), services.Invalid, "coverUrl: "},
			{"put into the past", edit(upcoming, ShowEdit{PlannedAt: &past}), services.Invalid, "plannedAt: "},
			{"an empty title", edit(upcoming, ShowEdit{Title: &empty}), services.Invalid, "title: "},
			{"a live one put off", edit(live, ShowEdit{PlannedAt: &future}), services.Conflict, "plannedAt: "},
			{"an ended one put off", edit(ended, ShowEdit{PlannedAt: &future}), services.Conflict, "plannedAt: "},
			{"a cancelled one put off", edit(cancelled, ShowEdit{PlannedAt: &future}), services.Conflict, "showId: "},
			{"a cancelled one's title", edit(cancelled, ShowEdit{Title: &title}), services.Conflict, "showId: "},
			{"started before it was scheduled", s.Service.Start(host, upcoming, now.Add(-time.Hour)), services.Invalid, "at: "},
			{"started in the future", s.Service.Start(host, upcoming, future), services.Invalid, "at: "},
			{"a cancelled one started", s.Service.Start(host, cancelled, time.Time{}), services.Conflict, "showId: "},
			{"a cancelled one ended", s.Service.End(host, cancelled, time.Time{}, ""), services.Conflict, "showId: "},
			{"ended before it started", s.Service.End(host, live, now.Add(-10*time.Second), ""), services.Invalid, "at: "},
			{"ended in the future", s.Service.End(host, live, future, ""), services.Invalid, "at: "},
			{"a bad replay", s.Service.End(host, live, time.Time{}, "r"), services.Invalid, "replayUrl: "},
			{"a live one cancelled", s.Cancel(host, live), services.Conflict, "showId: "},
			{"an ended one cancelled", s.Cancel(host, ended), services.Conflict, "showId: "},
			{"a cancelled one's replay", s.SetReplay(host, cancelled, "https://example.com"), services.Conflict, "showId: "},
			{"another's started", s.Service.Start(other, upcoming, time.Time{}), services.Forbidden, "showId: "},
			{"another's ended", s.Service.End(other, live, time.Time{}, ""), services.Forbidden, "showId: "},
			{"another's cancelled", s.Cancel(other, upcoming), services.Forbidden, "showId: "},
			{"another's replay", s.SetReplay(other, ended, "https://example.com"), services.Forbidden, "showId: "},
			{"none started", s.Service.Start(host, unknown, time.Time{}), services.NotFound, "showId: "},
			{"none cancelled", s.Cancel(host, unknown), services.NotFound, "showId: "},
			{"reminded of none", s.Remind(fan, unknown, true), services.NotFound, "showId: "},
			{"not reminded of none", s.Remind(fan, unknown, false), services.NotFound, "showId: "},
			{"reminded of a live one", s.Remind(fan, live, true), services.Conflict, "showId: "},
			{"reminded of a cancelled one", s.Remind(fan, cancelled, true), services.Conflict, "showId: "},
			{"reminded of one's own", s.Remind(host, upcoming, true), services.Invalid, "showId: "},
			{"reminded by who blocks one", s.Remind(blocked, upcoming, true), services.NotFound, "showId: "},
		} {
			before := s.factsText(all...)
			jobs, _ := w.CountJobs()
			err := s.commit(c.op)
			if services.CodeOf(err) != c.code || !strings.HasPrefix(err.Error(), c.says) {
				t.Errorf("%s: %v, want %s", c.what, err, c.code)
			}
			if after := s.factsText(all...); after != before {
				t.Errorf("%s changed\n%s\nto\n%s", c.what, before, after)
			}
			if after, _ := w.CountJobs(); after != jobs {
				t.Errorf("%s left %d jobs", c.what, after-jobs)
			}
		}
		if _, err := s.Reschedule(host, upcoming, ShowEdit{}); services.CodeOf(err) != services.Invalid {
			t.Errorf("nothing to change: %v", err)
		}
	})
}
