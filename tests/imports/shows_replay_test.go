package imports

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dustin/go-humanize"

	"tidings/services"
	"tidings/services/fanout/fanouttest"
	"tidings/services/importer"
	"tidings/services/live"
	"tidings/services/live/livetest"
)

// addShowService gives a world the service of shows.
func addShowService(w *fanouttest.World) *fanouttest.World {
	livetest.New(w, live.ShowLimits{})
	return w
}

// replayedShowsFile has four shows, and a line that moves one to another host. The first event is at 18:00, an hour before the
// first plan.
const replayedShowsFile = `{"key":"e1","host":"ann","title":"One","plannedAt":"2026-01-30T19:00:00Z","startedAt":"2026-01-30T19:01:00Z","endedAt":"2026-01-30T20:01:00Z","replayUrl":"https://a.example/r"}
{"key":"e2","host":"bob","title":"Two","plannedAt":"2026-01-30T19:30:00Z","startedAt":"2026-01-30T19:29:00Z"}
{"key":"e3","host":"ann","title":"Three","plannedAt":"2026-01-30T21:00:00Z"}
{"key":"e4","host":"bob","title":"Four","plannedAt":"2026-01-30T20:30:00Z","cancelled":true}
{"key":"e1","host":"bob","title":"moved","plannedAt":"2026-01-30T20:30:00Z"}
`

// replayWorld is a world in which a file of shows is replayed, sixty times as fast.
type replayWorld struct {
	*testImporter
	world *fanouttest.World
}

func newReplayWorld(t *testing.T, w *fanouttest.World) replayWorld {
	return replayWorld{newImporter(t, w.DB), w}
}

// replayShowsFile runs live.ReplayFile until the end of a file, or until it has waited the given number of times.
func (r replayWorld) replayShowsFile(file string, waits int) (importer.Report, error) {
	r.t.Helper()
	ctx, end := context.WithCancel(r.t.Context())
	defer end()
	return live.ReplayFile(ctx, r.db, livetest.Service(r.world), importer.Options{File: file, ReplayFactor: 60, Out: &r.out, Clock: r.world.Clock, Sleep: func(ctx context.Context, d time.Duration) error {
		if waits--; waits < 0 {
			end()
			return ctx.Err()
		}
		r.world.Clock.Advance(max(d, time.Millisecond))
		return nil
	}})
}

// A file is replayed in the order of time, sixty times as fast, with all effects of the shows on boards.
func TestReplayedShows(t *testing.T) {
	fanouttest.EachEnginePair(t, nil, func(t *testing.T, w *fanouttest.World) {
		addShowService(w)
		r := newReplayWorld(t, w)
		file := r.writeFile("evening.jsonl.gz", gzipText(t, replayedShowsFile))
		report, err := r.replayShowsFile(file, 100)
		if err != nil || report.NewItems != 4 || report.GoodRows != 4 || report.BadLines != 1 {
			t.Fatalf("%+v, %v\n%s", report, err, r.out.String())
		}
		if put := r.readFile(file + ".bad"); !strings.Contains(put, `# line 5: key: "e1" is a show of "ann": it cannot be moved to another host`) {
			t.Errorf("put aside: %s", put)
		}
		lines, shows := r.readShows("e1", "e2", "e3", "e4")
		began := fanouttest.StartTime
		near := func(what string, got time.Time, at string) {
			t.Helper()
			then, err := time.Parse(time.RFC3339, at)
			w.Must(err)
			want := began.Add(then.Sub(time.Date(2026, 1, 30, 18, 0, 0, 0, time.UTC)) / 60)
			if got.Before(want.Add(-time.Second)) || got.After(want.Add(time.Second)) {
				t.Errorf("%s is %s, want %s\n%s", what, got, want, strings.Join(lines, "\n"))
			}
		}
		near("the plan of the first", shows["e1"].PlannedAt, "2026-01-30T19:00:00Z")
		near("its start", shows["e1"].StartedAt, "2026-01-30T19:01:00Z")
		near("its end", shows["e1"].EndedAt, "2026-01-30T20:01:00Z")
		near("the start of the second", shows["e2"].StartedAt, "2026-01-30T19:29:00Z")
		near("the plan of the third", shows["e3"].PlannedAt, "2026-01-30T21:00:00Z")
		near("the end of the fourth", shows["e4"].CancelledAt, "2026-01-30T20:30:00Z")
		for key, want := range map[string]live.ShowStatus{"e1": live.ShowReplay, "e2": live.ShowLive, "e3": live.ShowUpcoming, "e4": live.ShowCancelled} {
			if shows[key].Status != want {
				t.Errorf("%s is %s, want %s", key, shows[key].Status, want)
			}
		}
		if shows["e1"].ReplayURL != "https://a.example/r" {
			t.Errorf("the replay is at %q", shows["e1"].ReplayURL)
		}
		if !strings.Contains(r.out.String(), "2026-01-30T20:00:00Z  6 of 8 events  4 shows") {
			t.Errorf("printed was\n%s", r.out.String())
		}
		reader := w.MakeUsers(1)[0]
		w.Follow(shows["e1"].Host, reader)
		w.Follow(shows["e2"].Host, reader)
		w.RunDueJobs(w.Fanout)
		if got := boardKeys(w, reader, shows); !slices.Equal(got, []string{"e2", "e3", "e1"}) {
			t.Errorf("the board is %v", got)
		}
		if again, err := r.replayShowsFile(file, 100); err != nil || again.NewItems != 0 {
			t.Errorf("once more: %+v, %v", again, err)
		}
	})
}

// A replay that is interrupted before an event resumes with it: in the end each event has happened once.
func TestAnInterruptedReplayResumes(t *testing.T) {
	for waits := range 8 {
		w := addShowService(fanouttest.New(t, fanouttest.Options{RedisURL: "embedded"}))
		r := newReplayWorld(t, w)
		file := r.writeFile("evening.jsonl", replayedShowsFile)
		first, err := r.replayShowsFile(file, waits)
		if err != nil || !strings.Contains(r.out.String(), "stopped at 2026-01-30T") {
			t.Fatalf("after %d events: %+v, %v", waits, first, err)
		}
		w.Clock.Advance(time.Hour)
		r.out.Reset()
		second, err := r.replayShowsFile(file, 100)
		if err != nil || first.NewItems+second.NewItems != 4 || waits > 0 != strings.Contains(r.out.String(), "continuing after event "+humanize.Comma(int64(waits))) {
			t.Errorf("after %d events: %+v and %+v, %v\n%s", waits, first, second, err, r.out.String())
		}
		var statuses []live.ShowStatus
		_, shows := r.readShows("e1", "e2", "e3", "e4")
		for _, key := range []string{"e1", "e2", "e3", "e4"} {
			statuses = append(statuses, shows[key].Status)
		}
		if want := []live.ShowStatus{live.ShowReplay, live.ShowLive, live.ShowUpcoming, live.ShowCancelled}; !slices.Equal(statuses, want) {
			t.Errorf("after %d events they are %v, want %v", waits, statuses, want)
		}
	}
}

// If a show is gone, its further events are reported and skipped, and the replay goes on with the other shows.
func TestAReplayGoesOnWithoutAShowThatIsGone(t *testing.T) {
	w := addShowService(fanouttest.New(t, fanouttest.Options{RedisURL: "embedded"}))
	r := newReplayWorld(t, w)
	file := r.writeFile("evening.jsonl", replayedShowsFile)
	if _, err := r.replayShowsFile(file, 2); err != nil {
		t.Fatal(err)
	}
	_, shows := r.readShows("e1")
	r.runStatements(fmt.Sprintf(`DELETE FROM shows WHERE id = %d`, shows["e1"].ID)) // the ref stays, as if the replay had read it before the deletion
	r.out.Reset()
	_, err := r.replayShowsFile(file, 100)
	if _, shows = r.readShows("e2", "e3", "e4"); err != nil || shows["e2"].Status != live.ShowLive || shows["e4"].Status != live.ShowCancelled {
		t.Errorf("%v: %+v", err, shows)
	}
	if !strings.Contains(r.out.String(), "line 1: showId: there is no show") {
		t.Errorf("printed was\n%s", r.out.String())
	}
}

// An event that is refused, because its show was changed meanwhile, is reported, and the others happen. A file that is cut off replays
// nothing.
func TestAReplaySkipsRefusedEvents(t *testing.T) {
	w := addShowService(fanouttest.New(t, fanouttest.Options{RedisURL: "embedded"}))
	r := newReplayWorld(t, w)
	file := r.writeFile("evening.jsonl", replayedShowsFile)
	if _, err := r.replayShowsFile(file, 2); err != nil {
		t.Fatal(err)
	}
	_, shows := r.readShows("e1")
	livetest.Apply(w, livetest.Service(w).Cancel(shows["e1"].Host, shows["e1"].ID))
	r.out.Reset()
	report, err := r.replayShowsFile(file, 100)
	if _, shows = r.readShows("e1", "e2"); err != nil || shows["e1"].Status != live.ShowCancelled || shows["e2"].Status != live.ShowLive {
		t.Errorf("%+v, %v: %+v", report, err, shows)
	}
	if !strings.Contains(r.out.String(), "line 1: showId: ") {
		t.Errorf("printed was\n%s", r.out.String())
	}
	half := gzipText(t, replayedShowsFile)
	if _, err := r.replayShowsFile(r.writeFile("half.gz", half[:len(half)-20]), 100); services.CodeOf(err) != services.Invalid || !strings.Contains(err.Error(), "nothing is replayed") {
		t.Errorf("of half a file: %v", err)
	}
}
