package live

import (
	"slices"
	"testing"
	"time"

	"tidings/services"
)

// TestShowsSortInTheDocumentedOrder sorts shows of every status, some with equal times, in the documented order of boards.
func TestShowsSortInTheDocumentedOrder(t *testing.T) {
	at := func(minutes int) time.Time {
		return time.UnixMilli(1_700_000_000_000).Add(time.Duration(minutes) * time.Minute).UTC()
	}
	want := []Show{
		{ID: 1, Status: ShowLive, PlannedAt: at(90), StartedAt: at(50)},
		{ID: 7, Status: ShowLive, PlannedAt: at(10), StartedAt: at(40)},
		{ID: 5, Status: ShowLive, PlannedAt: at(20), StartedAt: at(40)},
		{ID: 9, Status: ShowUpcoming, PlannedAt: at(-30)}, // late, and still upcoming
		{ID: 3, Status: ShowUpcoming, PlannedAt: at(60)},
		{ID: 2, Status: ShowUpcoming, PlannedAt: at(60).Add(time.Millisecond)},
		{ID: 8, Status: ShowReplay, StartedAt: at(1), EndedAt: at(30)},
		{ID: 6, Status: ShowReplay, StartedAt: at(2), EndedAt: at(30)},
		{ID: 4, Status: ShowReplay, StartedAt: at(20), EndedAt: at(25)},
	}
	byPosition := func(a, b Show) int {
		switch {
		case a.Position().Before(b.Position()):
			return -1
		case b.Position().Before(a.Position()):
			return 1
		}
		return 0
	}
	for i, a := range want {
		for k, b := range want {
			if got := a.Position().Before(b.Position()); got != (i < k) {
				t.Errorf("show %d before show %d: %v", a.ID, b.ID, got)
			}
		}
	}
	got := slices.Clone(want)
	slices.Reverse(got)
	slices.SortFunc(got, byPosition)
	if !slices.Equal(got, want) {
		t.Errorf("sorted: %v", got)
	}
	if position := (Show{ID: 1, Status: ShowCancelled, PlannedAt: at(1)}).Position(); position != (ShowPosition{}) {
		t.Errorf("a cancelled show has a position: %v", position)
	}
}

func TestShowIDs(t *testing.T) {
	show := Show{ID: 1 << 40}
	id, err := ParseShowID("showId", show.GlobalID())
	if err != nil || id != show.ID {
		t.Errorf("%s is read as %v, %v", show.GlobalID(), id, err)
	}
	for _, bad := range []string{"", "show:", "show:1", "post:" + show.ID.String(), show.ID.String()} {
		if _, err := ParseShowID("showId", bad); services.CodeOf(err) != services.Invalid {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
