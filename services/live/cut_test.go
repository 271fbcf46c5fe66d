package live

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tidings/services"
)

func timeAtMillis(ms int64) time.Time { return time.UnixMilli(ms).UTC() }

// drawShow draws a show from few possible times, so that many are equal.
func drawShow(t *rapid.T, id int) Show {
	show := Show{
		ID: services.ShowID(id), Host: services.UserID(rapid.IntRange(1, 3).Draw(t, "host")),
		Status:    rapid.SampledFrom([]ShowStatus{ShowUpcoming, ShowLive, ShowReplay}).Draw(t, "status"),
		PlannedAt: timeAtMillis(rapid.Int64Range(1, 4).Draw(t, "planned")),
	}
	if show.Status != ShowUpcoming {
		show.StartedAt = timeAtMillis(rapid.Int64Range(1, 4).Draw(t, "started"))
	}
	if show.Status == ShowReplay {
		show.EndedAt = timeAtMillis(rapid.Int64Range(1, 6).Draw(t, "ended"))
	}
	return show
}

// drawBoard draws the model of a board: a sorted list.
func drawBoard(t *rapid.T) []Show {
	world := make([]Show, rapid.IntRange(0, 25).Draw(t, "shows"))
	for i := range world {
		world[i] = drawShow(t, i+1)
	}
	slices.SortFunc(world, compareShowsByPosition)
	return world
}

// showsAfter returns the first limit shows of a sorted list after a position.
func showsAfter(shows []Show, position ShowPosition, limit int) (part []Show, more bool) {
	for _, show := range shows {
		if position.ID != 0 && !position.Before(show.Position()) {
			continue
		}
		if len(part) == limit {
			return part, true
		}
		part = append(part, show)
	}
	return part, false
}

func ids(shows []Show) (list []services.ShowID) {
	for _, show := range shows {
		list = append(list, show.ID)
	}
	return list
}

// Pages of any sizes together equal the sorted list: nothing twice, nothing missing, and no replay at or below the newest floor of the
// sources.
func TestPagesTogetherEqualTheSortedList(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		world := drawBoard(t)
		var active []Show
		sources := make([][]Show, 3)
		floors := make([]ShowPosition, 3)
		for _, show := range world {
			if show.Status != ShowReplay {
				active = append(active, show)
				continue
			}
			in := rapid.IntRange(1, 7).Draw(t, "sources that have it")
			for i := range sources {
				if in&(1<<i) != 0 {
					sources[i] = append(sources[i], show)
				}
			}
		}
		var floor ShowPosition
		for i, shows := range sources {
			if len(shows) > 0 && rapid.Bool().Draw(t, "has an end") {
				lost := rapid.IntRange(0, len(shows)-1).Draw(t, "lost")
				floors[i], sources[i] = shows[lost].Position(), shows[:lost]
				if floor.ID == 0 || floors[i].Before(floor) {
					floor = floors[i]
				}
			}
		}
		var want []Show
		for _, show := range world {
			if show.Status != ShowReplay || floor.ID == 0 || show.Position().Before(floor) {
				want = append(want, show)
			}
		}
		var got []Show
		for position, turns := (ShowPosition{}), 0; ; turns++ {
			if turns > len(world)+1 {
				t.Fatal("the pages do not end")
			}
			first := rapid.IntRange(1, 5).Draw(t, "first")
			p := boardPart{}
			p.Active, p.HasMoreActive = showsAfter(active, position, first+rapid.IntRange(1, 2).Draw(t, "read"))
			for i, shows := range sources {
				lines, more := showsAfter(shows, position, first+1)
				one := replayList{HasMore: more, Floor: floors[i]}
				for _, show := range lines {
					one.Lines = append(one.Lines, boardLineOf(show))
				}
				p.Replays = append(p.Replays, one)
			}
			page := p.page(first)
			for _, line := range page.Lines {
				got = append(got, line.Show)
				position = line.Position
			}
			if page.HasNext != (len(got) < len(want)) {
				t.Fatalf("after %d of %d: HasNext %t", len(got), len(want), page.HasNext)
			}
			if !page.HasNext {
				if wantEnd := map[bool]services.FeedEnd{false: services.EndOfFeed, true: services.EndOfRetention}[floor.ID != 0]; page.End != wantEnd {
					t.Fatalf("it ends with %q, want %q", page.End, wantEnd)
				}
				break
			}
			if len(page.Lines) != first || page.End != "" {
				t.Fatalf("a page of %d with %d lines, end %q", first, len(page.Lines), page.End)
			}
		}
		if !slices.Equal(ids(got), ids(want)) {
			t.Fatalf("listed %v, want %v", ids(got), ids(want))
		}
	})
}

// A source of which too little was read ends the page early, and no line is skipped.
func TestAPageEndsWhereASourceWasNotReadFurther(t *testing.T) {
	replay := func(id int, ended int64) boardLine {
		return boardLineOf(Show{ID: services.ShowID(id), Status: ShowReplay, EndedAt: timeAtMillis(ended)})
	}
	p := boardPart{Replays: []replayList{{Lines: []boardLine{replay(1, 9)}, HasMore: true}, {Lines: []boardLine{replay(2, 10), replay(3, 3)}}}}
	page := p.page(5)
	if len(page.Lines) != 2 || !page.HasNext || page.End != "" {
		t.Fatalf("%+v", page)
	}
	p.Replays[0].Lines = nil
	if page := p.page(5); len(page.Lines) != 0 || !page.HasNext {
		t.Fatalf("%+v", page)
	}
}

// newDifference puts each move into the list of its kind, and sorts each list by compareShowsByPosition.
func TestDifferencesAreSortedByKind(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var moves []Move
		want := map[string][]services.ShowID{}
		for id := range rapid.IntRange(0, 30).Draw(t, "moves") {
			was, is := drawShow(t, id+1), drawShow(t, id+1)
			if rapid.IntRange(0, 3).Draw(t, "new") == 0 {
				was = Show{}
			}
			if was.Status == ShowReplay {
				is = was // a replay no longer changes
			}
			if was.Status == ShowUpcoming && rapid.IntRange(0, 3).Draw(t, "cancelled") == 0 {
				is.Status = ShowCancelled
			}
			moves = append(moves, Move{Before: was, Now: is})
			kind := map[string]string{
				"/LIVE": "live", "UPCOMING/LIVE": "live", "/REPLAY": "ended", "UPCOMING/REPLAY": "ended", "LIVE/REPLAY": "ended",
				"/UPCOMING": "scheduled", "UPCOMING/CANCELLED": "cancelled",
			}[fmt.Sprintf("%s/%s", was.Status, is.Status)]
			if was.Status == ShowUpcoming && is.Status == ShowUpcoming && !was.PlannedAt.Equal(is.PlannedAt) {
				kind = "rescheduled"
			}
			want[kind] = append(want[kind], is.ID)
		}
		d := newDifference(moves)
		for kind, list := range map[string][]Show{"live": d.WentLive, "ended": d.Ended, "scheduled": d.Scheduled, "rescheduled": d.Rescheduled, "cancelled": d.Cancelled} {
			got := ids(list)
			if !slices.IsSortedFunc(list, compareShowsByPosition) {
				t.Fatalf("%s is in no order: %v", kind, list)
			}
			slices.Sort(got)
			if !slices.Equal(got, want[kind]) {
				t.Fatalf("%s: %v, want %v of %+v", kind, got, want[kind], moves)
			}
		}
		if d.empty() != (len(want["live"])+len(want["ended"])+len(want["scheduled"])+len(want["rescheduled"])+len(want["cancelled"]) == 0) || !d.same(newDifference(moves)) {
			t.Fatalf("%+v of %+v", d, moves)
		}
	})
}

// Each list of a Difference has at most maxChangedShows, and Truncated says that shows are missing.
func TestADifferenceIsBounded(t *testing.T) {
	var moves []Move
	for id := range maxChangedShows + 5 {
		moves = append(moves, Move{Now: Show{ID: services.ShowID(id + 1), Status: ShowLive, StartedAt: timeAtMillis(int64(id))}})
	}
	d := newDifference(moves)
	if len(d.WentLive) != maxChangedShows || !d.Truncated || d.WentLive[0].ID != maxChangedShows+5 {
		t.Fatalf("%d, more %t", len(d.WentLive), d.Truncated)
	}
	if d.same(newDifference(moves[:maxChangedShows])) {
		t.Error("others are taken for the same")
	}
}
