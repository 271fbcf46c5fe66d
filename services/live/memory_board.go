package live

import (
	"context"
	"math"
	"slices"
	"sync"

	"tidings/services"
)

// Version is the version up to which the cache has read the log of shows: a board that is read now has this version.
func (m *Memory) Version() uint64 { return m.logFollower.Version() }

// Loaded reports whether the shows were ever loaded. A node that has not loaded them serves no boards.
func (m *Memory) Loaded() bool { return m.logFollower.Loaded() }

// activeAt lists the shows of hosts that were live or upcoming at a version, in the order of boards. It begins after a position
// (the zero value is the top), lists at most limit shows, and reports whether there are more. Each show has its status and times
// at that version, and its present texts. A board is incomplete if its version is older than any session can be.
func (m *Memory) activeAt(hosts []services.FollowedAuthor, version uint64, after ShowPosition, limit int) (shows []Show, more bool) {
	if after.Replay {
		return nil, false
	}
	return m.pageAt(hosts, version, after, limit, false)
}

// replaysAt lists the hosts' cached replays in the order of boards, as they were at a version: the shows that were over by then and
// whose end was recorded less than Memory.historyHorizon ago, and the newest replays of hosts whose replays are pulled. Like activeAt, it
// begins after a position, lists at most limit shows, and reports whether there are more.
func (m *Memory) replaysAt(hosts []services.FollowedAuthor, version uint64, after ShowPosition, limit int) (shows []Show, more bool) {
	if !after.Replay {
		after = ShowPosition{}
	}
	return m.pageAt(hosts, version, after, limit, true)
}

// hostPositions has the positions of one host's active shows, or of their replays, with the greatest score among them.
type hostPositions struct {
	topScore  int64                // the greatest score of the positions
	positions *[]versionedPosition // in the order of boards
}

// boardPage holds the working space of a page. It is reused, since for a page of many hosts the allocation would be most of the
// cost.
type boardPage struct {
	candidates   []hostPositions      // of the hosts that may have shows on the page
	topScores    []int64              // the greatest scores of candidates, one more than the page has lines, least first
	topPositions []*versionedPosition // the first positions of the page found so far, in the order of boards
}

// boardPages has the working spaces that no page uses now.
var boardPages = sync.Pool{New: func() any { return new(boardPage) }}

// pageAt reads a page of active shows or of replays. First it finds the highest score among the shows of each host, which hostTable
// stores. The hosts with the greatest of these scores fill the page, or nearly; another host is skipped unless its highest score is at
// least that of the page's last show. Two alternatives are slower: a heap of all hosts' first shows, and a walk through one list of all
// shows that checks each show's host (BenchmarkBoard).
func (m *Memory) pageAt(hosts []services.FollowedAuthor, version uint64, after ShowPosition, limit int, replays bool) ([]Show, bool) {
	page := boardPages.Get().(*boardPage)
	defer page.free()
	m.mu.RLock()
	defer m.mu.RUnlock()
	// One show more than asked for tells whether there are more.
	page.findHosts(m.state.hosts, hosts, after, limit+1, replays)
	page.findTopPositions(version, after, limit+1)
	more := len(page.topPositions) > limit
	shows := make([]Show, min(len(page.topPositions), limit))
	for i := range shows {
		shows[i] = page.topPositions[i].frozen()
	}
	return shows, more
}

// free gives the working space back to boardPages, without pointers to lists that may have been replaced since.
func (p *boardPage) free() {
	clear(p.candidates)
	clear(p.topPositions)
	boardPages.Put(p)
}

// findHosts collects the hosts that have replays or, if replays is false, active shows. p.topScores gets one score of each host, that of
// its highest show: the greatest of these scores, at most count of them, the least first. If the shows with these scores stood there at
// the version of the page, count shows have at least the score p.topScores[0].
func (p *boardPage) findHosts(table *hostTable, hosts []services.FollowedAuthor, after ShowPosition, count int, replays bool) {
	p.candidates, p.topScores = p.candidates[:0], p.topScores[:0]
	for _, followed := range hosts {
		known := table.get(followed.Author)
		if known.shows == nil {
			continue
		}
		one := hostPositions{known.topActiveScore, &known.shows.active}
		if replays {
			one = hostPositions{known.topReplayScore, &known.shows.replays}
		}
		if one.topScore == math.MinInt64 {
			continue
		}
		p.candidates = append(p.candidates, one)
		if after != (ShowPosition{}) && one.topScore >= after.Score {
			continue // skip it in the estimate: all of its shows may be on earlier pages
		}
		at, _ := slices.BinarySearch(p.topScores, one.topScore)
		switch {
		case len(p.topScores) < count:
			p.topScores = slices.Insert(p.topScores, at, one.topScore)
		case at > 0:
			// The least of the scores is dropped.
			copy(p.topScores, p.topScores[1:at])
			p.topScores[at-1] = one.topScore
		}
	}
}

// findTopPositions finds the first positions of a page, and keeps at most count of them. The first pass takes the hosts whose highest score
// is at least p.topScores[0], which estimates the end of the page. The second pass takes the other hosts, which a full page skips
// by one comparison each.
func (p *boardPage) findTopPositions(version uint64, after ShowPosition, count int) {
	high := int64(math.MinInt64)
	if len(p.topScores) == count {
		high = p.topScores[0]
	}
	p.topPositions = p.topPositions[:0]
	for _, first := range []bool{true, false} {
		for _, one := range p.candidates {
			if (one.topScore >= high) != first || len(p.topPositions) == count && one.topScore < p.topPositions[count-1].score {
				continue
			}
			p.takePositions(*one.positions, version, after, count)
		}
	}
}

// takePositions adds a host's positions that are among the first count of the page. They are in the order of boards, so the walk ends
// at the first position that is behind the end of a full page.
func (p *boardPage) takePositions(positions []versionedPosition, version uint64, after ShowPosition, count int) {
	from := 0
	for i := range positions {
		one := &positions[i]
		full := len(p.topPositions) == count
		if full && !one.before(p.topPositions[count-1]) {
			return
		}
		if !one.holdsAt(version) || after != (ShowPosition{}) && !one.below(after) {
			continue
		}
		at, end := from, len(p.topPositions)
		for at < end {
			if middle := (at + end) / 2; one.before(p.topPositions[middle]) {
				end = middle
			} else {
				at = middle + 1
			}
		}
		if !full {
			p.topPositions = append(p.topPositions, nil)
		}
		// The last position of a full page is dropped.
		copy(p.topPositions[at+1:], p.topPositions[at:])
		p.topPositions[at], from = one, at+1
	}
}

// below reports whether a show's position is after another one in the order of boards. Both are of one section: pageAt reads either
// active shows or replays.
func (s *versionedPosition) below(after ShowPosition) bool {
	return s.score < after.Score || s.score == after.Score && s.id < after.ID
}

// frozen is the show as it was while it had this position. An end that was reported before the start is omitted.
func (s *versionedPosition) frozen() Show {
	whole := s.show.toShow()
	// This is the present position of a show that has begun or is over: its status and times have not changed since.
	if s.fromVersion == whole.Version && whole.Status != ShowUpcoming {
		return whole
	}
	whole.Version, whole.EndedAt, whole.CancelledAt = s.fromVersion, fromMillis(0), fromMillis(0)
	// The score holds the time of that position, so no copy of the former show is kept: texts are the present ones.
	if s.score > 0 {
		whole.Status, whole.StartedAt = ShowLive, fromMillis(s.score)
		return whole
	}
	whole.Status, whole.PlannedAt, whole.StartedAt = ShowUpcoming, fromMillis(-s.score), fromMillis(0)
	whole.LiveVersion, whole.LiveStamp = 0, 0
	return whole
}

// ShowAt is a show as it was at a version. known is false for a show that is not cached: it does not exist, is on no board,
// or has been over for longer than any session lives. there is false if no board had it at that version: not yet, or no longer because
// it was cancelled.
func (m *Memory) ShowAt(id services.ShowID, version uint64) (frozen Show, known, there bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	one := m.state.byID[id]
	if one == nil {
		return Show{}, false, false
	}
	of := m.state.hosts.get(one.host).shows
	if of == nil {
		// The host has no positions left, so the show was cancelled.
		return Show{}, true, false
	}
	for _, list := range [][]versionedPosition{of.active, of.replays} {
		for _, s := range list {
			if s.show == one && s.holdsAt(version) {
				return s.frozen(), true, true
			}
		}
	}
	return Show{}, true, false
}

// CountLive counts the running shows of hosts that went live after seen, a version of the log, and after the viewer followed the
// host. Shows of a host whose follow has CountsNothing set do not count. Until the node has loaded the shows, the result for a viewer
// with hosts is only CacheNotLoaded.
func (m *Memory) CountLive(hosts []services.FollowedAuthor, seen uint64) (count services.LiveCount) {
	return m.countLiveSince(hosts, seen, 0)
}

// countLiveSince is CountLive, restricted to the shows that went live after a moment, given as an ID. It runs whenever the badges of a
// watched user are rendered, with up to thousands of hosts. So it allocates nothing, and uses the summary in the table to skip hosts
// without a live show.
func (m *Memory) countLiveSince(hosts []services.FollowedAuthor, seen uint64, after services.SortableID) (count services.LiveCount) {
	if count.CacheNotLoaded = len(hosts) > 0 && !m.Loaded(); count.CacheNotLoaded {
		return count
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	for _, followed := range hosts {
		known := m.state.hosts.get(followed.Author)
		count.VersionSum += known.liveVersion
		if known.topActiveScore > 0 && !followed.CountsNothing { // only live shows have positive scores
			followed.ItemsCountAfter = max(followed.ItemsCountAfter, after)
			known.shows.eachLive(followed, seen, func(*cachedShow) { count.NewShows++ })
		}
	}
	return count
}

// liveSince lists the shows that CountLive counts, in the order of boards.
func (m *Memory) liveSince(hosts []services.FollowedAuthor, seen uint64) []Show {
	var shows []Show
	m.mu.RLock()
	defer m.mu.RUnlock()
	for _, followed := range hosts {
		if known := m.state.hosts.get(followed.Author); known.topActiveScore > 0 && !followed.CountsNothing {
			known.shows.eachLive(followed, seen, func(one *cachedShow) { shows = append(shows, one.toShow()) })
		}
	}
	slices.SortFunc(shows, func(a, b Show) int {
		if a.Position().Before(b.Position()) {
			return -1
		}
		return 1
	})
	return shows
}

// eachLive calls found with each show that counts for a viewer: it went live after seen, a version of the log, and after
// followed.ItemsCountAfter, an ID of the time of the follow.
func (h *hostShows) eachLive(followed services.FollowedAuthor, seen uint64, found func(*cachedShow)) {
	for _, one := range h.active {
		if one.score <= 0 {
			return // the upcoming shows begin here, and none of them counts
		}
		// The first condition leaves out former positions, which the list keeps for as long as a session may need them.
		if one.fromVersion == one.show.version && one.show.liveVersion > seen && one.show.liveStamp > followed.ItemsCountAfter {
			found(one.show)
		}
	}
}

// withShowLookup calls read with a function that looks up the present state of cached shows. read must not keep that function, and
// must not block.
func (m *Memory) withShowLookup(read func(now func(services.ShowID) (Show, bool))) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	read(func(id services.ShowID) (show Show, cached bool) {
		known := m.state.byID[id]
		if known == nil {
			return show, false
		}
		return known.toShow(), true
	})
}

// Shows reads whole shows as they are now: from the cache, from recently read ones, and the missing ones from SQL. Unknown
// ids are absent. A show that is on no board is read each time, since the log does not have its changes: a kept copy would never
// be updated.
func (m *Memory) Shows(ctx context.Context, ids []services.ShowID) (map[services.ShowID]Show, error) {
	found := make(map[services.ShowID]Show, len(ids))
	var others []services.ShowID
	m.mu.RLock()
	for _, id := range ids {
		if known := m.state.byID[id]; known != nil {
			found[id] = known.toShow()
		} else {
			others = append(others, id)
		}
	}
	m.mu.RUnlock()
	if len(others) == 0 {
		return found, nil
	}
	read, missing := m.recentShows.GetAll(others)
	for id, one := range read {
		found[id] = one
	}
	if len(missing) == 0 {
		return found, nil
	}
	facts, err := m.facts.showsByID(ctx, missing)
	if err != nil {
		return nil, err
	}
	for id, one := range facts {
		found[id] = one
		if one.Version > 0 {
			m.recentShows.Keep(id, one)
		}
	}
	return found, nil
}
