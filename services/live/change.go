package live

import (
	"cmp"
	"slices"
	"time"
)

// maxChangedShows bounds each list of a Difference, and with it the size of the event that a client gets. A client that gets Truncated
// reads the board anew.
const maxChangedShows = 100

// Difference is the difference between a session's frozen board and the present one. The shows are as they are now, each
// list in the order of the present board. Cancelled shows have no position there: among them the greatest ID comes first.
type Difference struct {
	WentLive, Ended, Scheduled, Rescheduled, Cancelled []Show

	Truncated bool // shows are omitted: no list has more than maxChangedShows
}

// newDifference sorts the moves since a session began into the lists of a Difference.
func newDifference(moves []Move) (d Difference) {
	for _, move := range moves {
		// was stays "" if no board had the show at the session's version. A show that went live and ended since then is only
		// among the ended: each show is in at most one list, by its state then and now.
		was, is := ShowStatus(""), move.Now.Status
		if move.Before.ID != 0 {
			was = move.Before.Status
		}
		switch {
		case is == ShowLive && was != ShowLive:
			d.WentLive = append(d.WentLive, move.Now)
		case is == ShowReplay && was != ShowReplay:
			d.Ended = append(d.Ended, move.Now)
		case is == ShowUpcoming && was == "":
			d.Scheduled = append(d.Scheduled, withoutReportedEnd(move.Now))
		case is == ShowUpcoming && was == ShowUpcoming && !move.Now.PlannedAt.Equal(move.Before.PlannedAt):
			d.Rescheduled = append(d.Rescheduled, withoutReportedEnd(move.Now))
		// A show that was scheduled and cancelled since the session began was on no page of it, and is left out.
		case is == ShowCancelled && was == ShowUpcoming:
			d.Cancelled = append(d.Cancelled, move.Now)
		}
	}
	for _, list := range []*[]Show{&d.WentLive, &d.Ended, &d.Scheduled, &d.Rescheduled, &d.Cancelled} {
		slices.SortFunc(*list, compareShowsByPosition)
		if len(*list) > maxChangedShows {
			*list, d.Truncated = (*list)[:maxChangedShows], true
		}
	}
	return d
}

// withoutReportedEnd is an upcoming show as boards show it: an end that was reported before the start is left out.
func withoutReportedEnd(show Show) Show {
	show.EndedAt = time.Time{}
	return show
}

// compareShowsByPosition compares shows for the order of a list of a Difference.
func compareShowsByPosition(a, b Show) int {
	switch from, to := a.Position(), b.Position(); {
	case a.Status == ShowCancelled:
		return cmp.Compare(b.ID, a.ID)
	case from.Before(to):
		return -1
	case to.Before(from):
		return 1
	}
	return 0
}

// same reports whether two differences look the same to a client.
func (d Difference) same(other Difference) bool {
	equal := func(a, b []Show) bool {
		return slices.EqualFunc(a, b, func(a, b Show) bool {
			a.UpdatedAt = b.UpdatedAt // UpdatedAt also changes with fields that boards do not show
			return a == b
		})
	}
	return d.Truncated == other.Truncated && equal(d.WentLive, other.WentLive) && equal(d.Ended, other.Ended) &&
		equal(d.Scheduled, other.Scheduled) && equal(d.Rescheduled, other.Rescheduled) && equal(d.Cancelled, other.Cancelled)
}

// empty reports whether the board is still as the session froze it.
func (d Difference) empty() bool {
	return len(d.WentLive)+len(d.Ended)+len(d.Scheduled)+len(d.Rescheduled)+len(d.Cancelled) == 0
}

// countNewAbove counts the moved shows that are now above a position. With the zero position it counts all that are on the board.
func countNewAbove(top ShowPosition, moves []Move) (count int) {
	for _, move := range moves {
		if position := move.Now.Position(); position.ID != 0 && (top.ID == 0 || position.Before(top)) {
			count++
		}
	}
	return count
}
