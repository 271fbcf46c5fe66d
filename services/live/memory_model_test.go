package live

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tidings/services"
	"tidings/services/changelog"
)

// showHistoryModel is the model: all states that were ever committed. A board at a version is a sorted list of those states.
type showHistoryModel struct {
	t                *rapid.T
	fakeSQL          *fakeShowSQL
	showStates       []Show                                 // in the order of their versions
	versionTimes     []time.Time                            // when each version of the log was written, from version 1 on
	newestShowID     services.ShowID                        // the ID of the newest show; the next one is one more
	clientLiveCounts map[services.UserID]services.LiveCount // by host: the newest count of a client that asks all nodes
}

const lastModelHost = services.UserID(4) // the hosts have the IDs from 1 to this one

// addState adds a committed state of a show, and the time of its version, to the model.
func (h *showHistoryModel) addState(one Show) {
	if one.Version == h.fakeSQL.newestVersion {
		h.showStates = append(h.showStates, one)
	}
	h.addVersionTimes()
}

// addVersionTimes records the present time as that of the versions that have none yet.
func (h *showHistoryModel) addVersionTimes() {
	for len(h.versionTimes) < int(h.fakeSQL.newestVersion) {
		h.versionTimes = append(h.versionTimes, h.fakeSQL.now)
	}
}

// writeRandomChange commits one change of a random show, or nothing if the show does not allow the change.
func (h *showHistoryModel) writeRandomChange() {
	r, s := h.t, h.fakeSQL
	s.now = s.now.Add(time.Duration(rapid.IntRange(1, 4000).Draw(r, "ms")) * time.Millisecond)
	what := rapid.IntRange(0, 7).Draw(r, "what")
	if what < 2 || len(s.shows) == 0 {
		h.newestShowID++
		host := services.UserID(rapid.IntRange(1, int(lastModelHost)).Draw(r, "host"))
		plan := s.now.Add(time.Duration(rapid.IntRange(0, 3).Draw(r, "plan")) * time.Minute).Truncate(time.Minute)
		status := ShowUpcoming
		if what == 0 && rapid.IntRange(0, 9).Draw(r, "direct") == 0 {
			status = ShowReplay // a new host's shows come onto boards late: this one was over by then
		}
		h.addState(s.commitMove(Show{ID: h.newestShowID, Host: host, Status: status, PlannedAt: plan, EndedAt: s.now.Truncate(time.Minute), Title: "a", Pull: host == 1}))
		return
	}
	one := s.shows[services.ShowID(rapid.IntRange(1, int(h.newestShowID)).Draw(r, "show"))]
	minute := s.now.Truncate(time.Minute) // so that many events have equal times
	switch upcoming, live := one.Status == ShowUpcoming, one.Status == ShowLive; {
	case what == 2 && upcoming:
		one.PlannedAt = minute.Add(time.Duration(rapid.IntRange(0, 3).Draw(r, "plan")) * time.Minute)
	case what <= 4 && upcoming:
		one.Status, one.StartedAt = ShowLive, minute
	case what <= 6 && live, what == 5 && upcoming:
		one.Status, one.EndedAt = ShowReplay, minute
	case what == 6 && upcoming:
		one.Status, one.CancelledAt = ShowCancelled, minute
	case what == 7:
		one.Title += "b"
		s.commitTexts(one)
		h.addVersionTimes()
		return
	default:
		return
	}
	h.addState(s.commitMove(one))
}

// importRandomShows commits many shows at once, with a single log entry that names no show.
func (h *showHistoryModel) importRandomShows() {
	s := h.fakeSQL
	s.newestVersion++
	s.log = append(s.log, changelog.Entry{Kind: ChangelogKind, Version: s.newestVersion, At: s.now})
	for range rapid.IntRange(0, 3).Draw(h.t, "imported") {
		h.newestShowID++
		one := Show{
			ID: h.newestShowID, Host: services.UserID(rapid.IntRange(1, int(lastModelHost)).Draw(h.t, "host")), Version: s.newestVersion, UpdatedAt: s.now,
			Status: rapid.SampledFrom(ShowStatuses[:3]).Draw(h.t, "status"), PlannedAt: s.now.Truncate(time.Minute),
		}
		one.Pull = one.Host == 1
		if one.Status != ShowUpcoming {
			one.StartedAt = one.PlannedAt
		}
		switch one.Status {
		case ShowLive:
			one.LiveVersion, one.LiveStamp = s.newestVersion, services.SortableIDAt(s.now)
			s.liveVersions[one.Host] = s.newestVersion
		case ShowReplay:
			one.EndedAt = one.PlannedAt
			s.formerPositions = append(s.formerPositions, formerPosition{Show: one.ID, Host: one.Host, UntilVersion: s.newestVersion, UntilAt: s.now, Status: one.Status})
		}
		s.shows[one.ID] = one
		h.showStates = append(h.showStates, one)
	}
	h.addVersionTimes()
}

// reapplyLogAfter applies the changes after a version, which the cache has applied already, once more.
func (h *showHistoryModel) reapplyLogAfter(m *showCache, after uint64) {
	var entries []changelog.Entry
	for _, entry := range h.fakeSQL.log {
		if entry.Kind == ChangelogKind && entry.Version > after && entry.Version <= m.Shows.Version() {
			entries = append(entries, entry)
		}
	}
	m.Shows.apply(entries)
}

// showsAt returns every show as it was at a version.
func (h *showHistoryModel) showsAt(version uint64) map[services.ShowID]Show {
	stood := map[services.ShowID]Show{}
	for _, one := range h.showStates {
		if one.Version <= version {
			stood[one.ID] = one
		}
	}
	return stood
}

// expectedBoardSection returns one section of a board, replays or active shows, from the shows as they were at a version.
func expectedBoardSection(stood map[services.ShowID]Show, replays bool, hosts []services.FollowedAuthor) (list []boardEntry) {
	for _, one := range stood {
		if position := one.Position(); position != (ShowPosition{}) && position.Replay == replays &&
			slices.ContainsFunc(hosts, func(host services.FollowedAuthor) bool { return host.Author == one.Host }) {
			list = append(list, boardEntry{one.ID, one.Status, position})
		}
	}
	slices.SortFunc(list, func(a, b boardEntry) int {
		return cmp.Or(cmp.Compare(b.position.Score, a.position.Score), cmp.Compare(b.id, a.id))
	})
	return list
}

// checkBoards compares the cache with the model at all versions that a session can still have.
func (h *showHistoryModel) checkBoards(m *showCache) {
	r, s := h.t, h.fakeSQL
	cut := s.now.Add(-time.Hour)
	hosts := followedAuthors(rapid.SliceOfNDistinct(rapid.Custom(func(t *rapid.T) services.UserID {
		return services.UserID(rapid.IntRange(1, int(lastModelHost)).Draw(t, "of"))
	}), 1, int(lastModelHost), rapid.ID[services.UserID]).Draw(r, "hosts")...)
	for version := uint64(0); version <= m.Shows.Version(); version++ {
		if int(version) < len(h.versionTimes) && !h.versionTimes[version].After(cut) {
			continue // this version was replaced longer ago than the cache keeps former positions, so no session has it
		}
		stood := h.showsAt(version)
		shows, more := m.Shows.activeAt(hosts, version, ShowPosition{}, 1000)
		if want := expectedBoardSection(stood, false, hosts); !slices.Equal(boardEntries(shows), want) || more {
			r.Fatalf("the board of %v at %d of %d:\n%v, want\n%v", hosts, version, m.Shows.Version(), boardEntries(shows), want)
		}
		replays, _ := m.Shows.replaysAt(hosts, version, ShowPosition{}, 1000)
		h.checkReplays(version, boardEntries(replays), expectedBoardSection(stood, true, hosts), cut)
		for id, want := range stood {
			got, known, there := m.Shows.ShowAt(id, version)
			if on := want.Position() != (ShowPosition{}); known && (there != on || on && (got.Status != want.Status || got.Position() != want.Position())) {
				r.Fatalf("the show %d at %d: %+v, %t; want %+v", id, version, got, there, want)
			}
		}
	}
	h.checkLiveCounts(m)
}

// checkReplays checks that got has every pulled replay and every replay of a show that ended after cut, and that all other lines of
// got are in truth.
func (h *showHistoryModel) checkReplays(version uint64, got, truth []boardEntry, cut time.Time) {
	known := got[:0:0]
	for _, one := range truth {
		show := h.fakeSQL.shows[one.id]
		if needed := show.Pull || h.versionTimes[show.Version-1].After(cut); needed || slices.Contains(got, one) {
			known = append(known, one)
		}
	}
	if !slices.Equal(got, known) {
		h.t.Fatalf("the replays at %d: %v, want %v", version, got, known)
	}
}

// checkLiveCounts compares the badges' counts of live shows with the model, host by host. It also checks that a client that keeps the
// answer with the greatest sequence (VersionSum) has the right count.
func (h *showHistoryModel) checkLiveCounts(m *showCache) {
	stood := h.showsAt(m.Shows.Version())
	for host := services.UserID(1); host <= lastModelHost; host++ {
		since := services.SortableIDAt(noon.Add(time.Duration(host) * time.Second))
		seen := uint64(rapid.IntRange(0, int(h.fakeSQL.newestVersion)).Draw(h.t, "seen"))
		want := 0
		all := 0
		for _, one := range stood {
			if one.Host == host && one.Status == ShowLive {
				all++
				if one.LiveVersion > seen && one.LiveStamp > since {
					want++
				}
			}
		}
		viewer := []services.FollowedAuthor{{Author: host, ItemsCountAfter: since}}
		if got := m.Shows.CountLive(viewer, seen); got.NewShows != want || got.CacheNotLoaded || len(m.Shows.liveSince(viewer, seen)) != want {
			h.t.Fatalf("of %d since %d there are %+v live, want %d", host, seen, got, want)
		}
		if h.updateClientLiveCount(m, host); m.Shows.Version() == h.fakeSQL.newestVersion && h.clientLiveCounts[host].NewShows != all {
			h.t.Fatalf("of %d the client has %+v, and %d are live", host, h.clientLiveCounts[host], all)
		}
	}
}

// updateClientLiveCount lets the client of clientLiveCounts ask a node for the count of a host. It drops an answer that is not newer.
func (h *showHistoryModel) updateClientLiveCount(m *showCache, host services.UserID) {
	if now := m.Shows.CountLive(followedAuthors(host), 0); !now.CacheNotLoaded && now.VersionSum > h.clientLiveCounts[host].VersionSum {
		h.clientLiveCounts[host] = now
	}
}

// The cache has every board of every version that a session can have, after any changes of shows. The node learns of the changes from
// the log, which may be trimmed or read twice, or from a load during changes. It may start late or lag.
func TestMemoryHasEveryBoardThatASessionCanHave(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		h := &showHistoryModel{t: r, fakeSQL: newFakeShowSQL(), clientLiveCounts: map[services.UserID]services.LiveCount{}}
		s := h.fakeSQL
		nodes := []*showCache{s.newCache(), s.newCache()}
		s.beforeRead = func(read string) {
			if read == "log" {
				for _, m := range nodes {
					h.updateClientLiveCount(m, services.UserID(rapid.IntRange(1, int(lastModelHost)).Draw(r, "asked")))
				}
			}
			for rapid.IntRange(0, 3).Draw(r, "while "+read) == 0 {
				h.writeRandomChange()
			}
		}
		for range rapid.IntRange(1, 50).Draw(r, "steps") {
			m := nodes[rapid.IntRange(0, 1).Draw(r, "node")]
			switch rapid.IntRange(0, 9).Draw(r, "step") {
			case 0: // the node restarts
				i := slices.Index(nodes, m)
				nodes[i] = s.newCache()
				readLog(t, nodes[i])
				h.checkBoards(nodes[i])
			case 1: // the log is read again from a random version
				if m.Shows.Loaded() {
					h.reapplyLogAfter(m, uint64(rapid.IntRange(max(0, int(m.Shows.Version())-20), int(m.Shows.Version())).Draw(r, "again")))
				}
			case 2:
				s.log = s.log[rapid.IntRange(0, max(0, len(s.log)-1)).Draw(r, "cut"):]
			case 3:
				h.importRandomShows()
			case 4:
				s.now = s.now.Add(time.Duration(rapid.IntRange(0, 40).Draw(r, "minutes")) * time.Minute)
			case 5, 6:
				readLog(t, m)
				h.checkBoards(m)
			default:
				for range 4 {
					h.writeRandomChange()
				}
			}
		}
		for _, m := range nodes {
			readLog(t, m)
			h.checkBoards(m)
		}
		readLog(t, nodes[0])
		if a, b := nodes[0].Shows.CountLive(followedAuthors(1, 2, 3, 4), 0), nodes[1].Shows.CountLive(followedAuthors(1, 2, 3, 4), 0); nodes[0].Shows.Version() == nodes[1].Shows.Version() && a != b {
			r.Fatalf("two nodes count %+v and %+v", a, b)
		}
		s.beforeRead = func(string) {}
		s.now = s.now.Add(2 * time.Hour)
		for _, m := range nodes {
			readLog(t, m)
			h.checkOldShowsForgotten(m)
		}
	})
}

// checkOldShowsForgotten checks that the cache has only active shows and pulled replays once no session can need the past.
func (h *showHistoryModel) checkOldShowsForgotten(m *showCache) {
	want := 0
	for _, one := range h.fakeSQL.shows {
		if one.Status == ShowUpcoming || one.Status == ShowLive || one.Status == ShowReplay && one.Pull {
			want++
		}
	}
	state, positions := m.Shows.state, 0
	state.hosts.each(func(known *cachedHost) {
		if known.shows == nil {
			return
		}
		for _, list := range [][]versionedPosition{known.shows.active, known.shows.replays} {
			if !slices.IsSortedFunc(list, comparePositions) {
				h.t.Fatalf("the positions of %d are not in their order: %v", known.userID, list)
			}
		}
		if positions += len(known.shows.active) + len(known.shows.replays); len(known.shows.active)+len(known.shows.replays) == 0 {
			h.t.Fatalf("of the host %d an empty memory is kept", known.userID)
		}
	})
	if len(state.byID) != want || positions != want || len(state.recentMoves) != 0 {
		h.t.Fatalf("%d shows, %d positions and %d moves are kept of %d: %s", len(state.byID), positions, len(state.recentMoves), want, fmt.Sprint(state.byID))
	}
}
