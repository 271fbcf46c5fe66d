package live

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tidings/services"
)

var (
	scheduledAt  = time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC) // when the shows of these tests were scheduled
	plannedStart = scheduledAt.Add(time.Hour)                    // when they are planned to start
	testLimits   = ShowLimits{CloseUnstartedAfter: 6 * time.Hour, CloseLiveAfter: 12 * time.Hour}
)

// timeAtMinute is the time n minutes after the shows of these tests were scheduled.
func timeAtMinute(n int) time.Time { return scheduledAt.Add(time.Duration(n) * time.Minute) }

// newUpcomingShow returns a new upcoming show, planned for plannedStart.
func newUpcomingShow(t testing.TB) Show {
	t.Helper()
	show, err := scheduleShow(services.ShowID(services.SortableIDAt(scheduledAt)+5), 7, ShowDraft{Title: "Evening", PlannedAt: plannedStart}, scheduledAt)
	if err != nil {
		t.Fatal(err)
	}
	return show
}

// runTransition runs one transition, by its name in the table below: start10 starts a show at minute 10.
func runTransition(s Show, name string, now time.Time) (Show, bool, error) {
	var at int
	word := strings.TrimRight(name, "0123456789")
	if word != name {
		fmt.Sscan(name[len(word):], &at)
	}
	switch word {
	case "start":
		return s.start(timeAtMinute(at), now)
	case "end":
		return s.end(timeAtMinute(at), "", now)
	case "replay":
		return s.end(timeAtMinute(at), "https://example.com/replay", now)
	case "put":
		plan := timeAtMinute(at)
		return s.reschedule(ShowEdit{PlannedAt: &plan}, now)
	case "cancel":
		return s.cancel(now)
	}
	panic(name)
}

// TestShowTransitionsInEveryOrder applies reports in many orders. It checks the resulting show, and the code of each refused report.
func TestShowTransitionsInEveryOrder(t *testing.T) {
	for _, c := range []struct {
		// steps are transitions with the minute that they report: start60 starts the show at minute 60 (see runTransition). @50 sets the
		// clock, which begins at minute 100, to minute 50. A step ends in = if it changes nothing, ! if the error is CONFLICT, ? if it is
		// INVALID.
		steps string
		want  string // as describeShow prints the show
	}{
		{"", "UPCOMING plan 60"},
		{"@50 put90 put90= put120", "UPCOMING plan 120"},
		{"start60 start60= start70=", "LIVE from 60"},
		{"start60 end80 end80= end90= start60= start90=", "REPLAY 60 to 80"},
		{"start60 end59? end60", "REPLAY 60 to 60"},
		{"start60 cancel! put90! put60=", "LIVE from 60"},
		{"start60 end80 cancel! put90!", "REPLAY 60 to 80"},
		{"cancel cancel= start60! end60! put90!", "CANCELLED at 100"},
		{"end80 end80= end90=", "UPCOMING plan 60 over 80"},
		{"end80 cancel! put90! put60=", "UPCOMING plan 60 over 80"},
		{"end80 start60 end80= start60=", "REPLAY 60 to 80"},
		{"end80 start90", "REPLAY 80 to 80"},
		{"@50 put90 @100 end80 start60 cancel!", "REPLAY 60 to 80"},
		{"start101 end101", "REPLAY 101 to 101"},
		{"start102? end102? put99? put100? put600000? start60", "LIVE from 60"},
		{"start60 replay80 replay80= end80=", "REPLAY 60 to 80 replay"},
		{"start60 end80 replay90 replay90=", "REPLAY 60 to 80 replay"},
		{"replay80 start60", "REPLAY 60 to 80 replay"},
		{"end80 replay80 replay80= start60", "REPLAY 60 to 80 replay"},
	} {
		show, now := newUpcomingShow(t), timeAtMinute(100)
		for _, step := range strings.Fields(c.steps) {
			name := strings.TrimRight(step, "=!?")
			if at, sets := strings.CutPrefix(step, "@"); sets {
				minutes, _ := strconv.Atoi(at)
				now = timeAtMinute(minutes)
				continue
			}
			after, changed, err := runTransition(show, name, now)
			want, wantChange := services.Code(""), true
			switch step[len(name):] {
			case "=":
				wantChange = false
			case "!":
				want, wantChange = services.Conflict, false
			case "?":
				want, wantChange = services.Invalid, false
			}
			if services.CodeOf(err) != want || changed != wantChange {
				t.Errorf("%s: %s: changed %v, %v", c.steps, step, changed, err)
			}
			if !changed && after != show {
				t.Errorf("%s: %s says that nothing changed, and the show is %+v", c.steps, step, after)
			}
			if changed && !after.UpdatedAt.After(show.UpdatedAt) {
				t.Errorf("%s: %s: the last change is not later: %s", c.steps, step, after.UpdatedAt)
			}
			show = after
		}
		if got := describeShow(show); got != c.want {
			t.Errorf("%s: %s, want %s", c.steps, got, c.want)
		}
	}
}

// describeShow prints a show in words.
func describeShow(s Show) string {
	at := func(moment time.Time) int { return int(moment.Sub(scheduledAt) / time.Minute) }
	text := string(s.Status)
	switch s.Status {
	case ShowUpcoming:
		text += fmt.Sprintf(" plan %d", at(s.PlannedAt))
		if !s.EndedAt.IsZero() {
			text += fmt.Sprintf(" over %d", at(s.EndedAt))
		}
	case ShowLive:
		text += fmt.Sprintf(" from %d", at(s.StartedAt))
	case ShowReplay:
		text += fmt.Sprintf(" %d to %d", at(s.StartedAt), at(s.EndedAt))
	case ShowCancelled:
		text += fmt.Sprintf(" at %d", at(s.CancelledAt))
	}
	if s.ReplayURL != "" {
		text += " replay"
	}
	return text
}

// In whatever order and however often start and end are reported, the show ends up the same.
func TestTheOrderOfArrivalDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		start := rapid.IntRange(0, 100).Draw(t, "start")
		end := rapid.IntRange(start, 101).Draw(t, "end")
		url := rapid.SampledFrom([]string{"end", "replay"}).Draw(t, "url")
		events := []string{fmt.Sprintf("start%d", start), fmt.Sprintf("%s%d", url, end)}
		for range rapid.IntRange(0, 4).Draw(t, "duplicates") {
			events = append(events, rapid.SampledFrom(events).Draw(t, "duplicate"))
		}
		first, _ := scheduleShow(services.ShowID(services.SortableIDAt(scheduledAt)), 7, ShowDraft{Title: "Evening", PlannedAt: plannedStart}, scheduledAt)
		end2end := func(events []string) Show {
			show := first
			for _, event := range events {
				var err error
				if show, _, err = runTransition(show, event, timeAtMinute(100)); err != nil {
					t.Fatalf("%v: %s: %v", events, event, err)
				}
			}
			show.UpdatedAt = time.Time{}
			return show
		}
		want := end2end(events[:2])
		if got := end2end(rapid.Permutation(events).Draw(t, "order")); got != want {
			t.Fatalf("%v: %s, want %s", events, describeShow(got), describeShow(want))
		}
	})
}

func TestBadShowsAreRefused(t *testing.T) {
	text := func(s string) *string { return &s }
	show := newUpcomingShow(t)
	for name, try := range map[string]func() error{
		"title: 1 to 255 characters are allowed, got 0": func() error {
			_, err := scheduleShow(1, 7, ShowDraft{PlannedAt: plannedStart}, scheduledAt)
			return err
		},
		"title: 1 to 255 characters are allowed, got 256": func() error {
			_, _, err := show.reschedule(ShowEdit{Title: text(strings.Repeat("é", 256))}, scheduledAt)
			return err
		},
		`coverUrl: "ftp://x/y" is not an http or https address`: func() error {
			_, err := scheduleShow(1, 7, ShowDraft{Title: "a", CoverURL: "ftp://x/y", PlannedAt: plannedStart}, scheduledAt)
			return err
		},
		`coverUrl: "cover" is not an http or https address`: func() error {
			_, _, err := show.reschedule(ShowEdit{CoverURL: text("cover")}, scheduledAt)
			return err
		},
		`replayUrl: "javascript:alert(1)" is not an http or https address`: func() error {
			_, _, err := show.setReplay("javascript:alert(1)", scheduledAt)
			return err
		},
		`replayUrl: "http:///" is not an http or https address`: func() error {
			_, _, err := show.end(time.Time{}, "http:///", scheduledAt)
			return err
		},
		"plannedAt: 2026-03-14T12:00:00Z is in the past; it is now 2026-03-14T12:00:00Z": func() error {
			_, err := scheduleShow(1, 7, ShowDraft{Title: "a", PlannedAt: scheduledAt.Add(time.Microsecond)}, scheduledAt)
			return err
		},
		"plannedAt: 2027-03-15T12:00:00.001Z is more than 366 days ahead": func() error {
			_, err := scheduleShow(1, 7, ShowDraft{Title: "a", PlannedAt: scheduledAt.Add(maxShowAhead + time.Millisecond)}, scheduledAt)
			return err
		},
		"at: 2026-03-14T11:58:59.999Z is before " + show.GlobalID() + " was scheduled, 2026-03-14T12:00:00Z": func() error {
			_, _, err := show.start(scheduledAt.Add(-time.Minute-time.Millisecond), scheduledAt)
			return err
		},
		"at: 2026-03-14T12:01:00.001Z is in the future; it is now 2026-03-14T12:00:00Z": func() error {
			_, _, err := show.end(scheduledAt.Add(time.Minute+time.Millisecond), "", scheduledAt)
			return err
		},
	} {
		if err := try(); services.CodeOf(err) != services.Invalid || err.Error() != name {
			t.Errorf("%v, want %s", err, name)
		}
	}
}

// Texts may change in any status except cancelled; no such change moves the show.
func TestTextsOfAShow(t *testing.T) {
	title, cover := "Late evening", "https://example.com/cover"
	for _, steps := range []string{"", "start60", "start60 end80", "end80"} {
		show := newUpcomingShow(t)
		for _, step := range strings.Fields(steps) {
			show, _, _ = runTransition(show, step, timeAtMinute(100))
		}
		after, changed, err := show.reschedule(ShowEdit{Title: &title, CoverURL: &cover}, timeAtMinute(100))
		if err != nil || !changed || after.Title != title || after.CoverURL != cover || after.moved(show) {
			t.Errorf("%q: %+v, %v", steps, after, err)
		}
		after, changed, err = after.setReplay("https://example.com/r", timeAtMinute(100))
		if err != nil || !changed || after.ReplayURL != "https://example.com/r" || after.moved(show) {
			t.Errorf("%q: %+v, %v", steps, after, err)
		}
		if _, changed, err = after.setReplay("https://example.com/r", timeAtMinute(100)); changed || err != nil {
			t.Errorf("%q: again: %v, %v", steps, changed, err)
		}
		if after, changed, err = after.setReplay("", timeAtMinute(100)); !changed || err != nil || after.ReplayURL != "" {
			t.Errorf("%q: taken away: %+v, %v", steps, after, err)
		}
	}
	show, _, _ := newUpcomingShow(t).cancel(timeAtMinute(1))
	if _, _, err := show.reschedule(ShowEdit{Title: &title}, timeAtMinute(100)); services.CodeOf(err) != services.Conflict {
		t.Errorf("the title of a cancelled show: %v", err)
	}
	if _, _, err := show.setReplay("https://example.com/r", timeAtMinute(100)); services.CodeOf(err) != services.Conflict {
		t.Errorf("the replay of a cancelled show: %v", err)
	}
	// Sending the same plan again leaves the plan of a late show as it is.
	title = "Later"
	plan := plannedStart
	late, changed, err := newUpcomingShow(t).reschedule(ShowEdit{Title: &title, PlannedAt: &plan}, timeAtMinute(100))
	if err != nil || !changed || late.Title != title || !late.Late(timeAtMinute(100)) || late.Late(timeAtMinute(60)) {
		t.Errorf("%+v, %v", late, err)
	}
}

// Shows without further reports are closed by their own times, whenever Close is called.
func TestShowsAreClosedByTheirOwnTimes(t *testing.T) {
	for _, c := range []struct {
		steps string
		now   int // minutes
		want  string
	}{
		{"", 60 + 359, ""},
		{"", 60 + 360, "CANCELLED at 420"},
		{"", 5000, "CANCELLED at 420"},
		{"put90", 60 + 360, ""},
		{"put90", 90 + 360, "CANCELLED at 450"},
		{"end80", 60 + 359, ""},
		{"end80", 60 + 360, "REPLAY 60 to 80"},
		{"end50", 60 + 360, "REPLAY 50 to 50"},
		{"start60", 60 + 719, ""},
		{"start60", 60 + 720, "REPLAY 60 to 780"},
		{"start60", 5000, "REPLAY 60 to 780"},
		{"start60 end80", 5000, ""},
		{"cancel", 5000, ""},
	} {
		show := newUpcomingShow(t)
		for _, step := range strings.Fields(c.steps) {
			var err error
			if show, _, err = runTransition(show, step, timeAtMinute(80)); err != nil {
				t.Fatal(err)
			}
		}
		after, changed := testLimits.close(show, timeAtMinute(c.now))
		if changed != (c.want != "") || changed && describeShow(after) != c.want {
			t.Errorf("%q at %d: %v %s, want %q", c.steps, c.now, changed, describeShow(after), c.want)
		}
		if again, changed := testLimits.close(after, timeAtMinute(c.now+10000)); c.want != "" && changed {
			t.Errorf("%q at %d: closed twice: %s", c.steps, c.now, describeShow(again))
		}
	}
}
