package live

import (
	"fmt"
	"maps"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"tidings/services"
)

// The moves since any version equal the difference of the boards at that version and now, also on a node that starts late.
func TestMovesAreTheDifferenceOfTwoBoards(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newFakeShowSQL()
		m := s.newCache()
		snapshots := []map[services.ShowID]Show{{}}
		for step := range rapid.IntRange(1, 30).Draw(t, "steps") {
			id := services.ShowID(rapid.IntRange(1, 6).Draw(t, "show"))
			one := s.shows[id]
			switch minutes := rapid.IntRange(1, 50).Draw(t, "minutes"); {
			case one.ID == 0:
				s.schedule(id, services.UserID(id%3+1), minutes)
			case one.Status == ShowLive:
				s.end(id, minutes)
			case one.Status != ShowUpcoming:
				continue
			default:
				switch rapid.IntRange(0, 2).Draw(t, "move") {
				case 0:
					s.start(id, minutes)
				case 1:
					one.PlannedAt = minutesAfterNoon(minutes)
					s.commitMove(one)
				case 2:
					one.Status, one.CancelledAt = ShowCancelled, minutesAfterNoon(minutes)
					s.commitMove(one)
				}
			}
			snapshots = append(snapshots, maps.Clone(s.shows))
			if step%3 == 0 {
				readLogToEnd(t, m, s)
			}
		}
		if rapid.Bool().Draw(t, "a node that starts late") {
			m = s.newCache()
		}
		readLogToEnd(t, m, s)
		hosts := followedAuthors(1, 3)
		for version, then := range snapshots {
			var want []string
			for id, is := range s.shows {
				was := then[id]
				if is.Host == 2 || is.Version <= uint64(version) {
					continue
				}
				onBoard := was.ID != 0 && was.Status != ShowCancelled
				if onBoard || is.Status != ShowCancelled {
					want = append(want, fmt.Sprint(id, was.Status, was.Position(), is.Status, is.Position()))
				}
			}
			var got []string
			for _, move := range m.Shows.movesSince(hosts, uint64(version)) {
				got = append(got, fmt.Sprint(move.Now.ID, move.Before.Status, move.Before.Position(), move.Now.Status, move.Now.Position()))
			}
			slices.Sort(got)
			slices.Sort(want)
			if !slices.Equal(got, want) {
				t.Fatalf("since %d of %d moved %v, want %v", version, s.newestVersion, got, want)
			}
		}
	})
}

// readLogToEnd lets a node read the log to its end.
func readLogToEnd(t *rapid.T, m *showCache, s *fakeShowSQL) {
	if err := m.Shows.Refresh(t.Context()); err != nil || m.Shows.Version() != s.newestVersion {
		t.Fatalf("at %d of %d: %v", m.Shows.Version(), s.newestVersion, err)
	}
}
