package mirror

import (
	"context"
	"math"
	"slices"
	"sync"

	"tidings/services"
)

// Version is the version of the log that memory is at: the version of every board that is read now.
func (m *Shows) Version() uint64 { return m.following.Version() }

// Loaded says whether the shows were ever read. A node that has not serves no boards.
func (m *Shows) Loaded() bool { return m.following.Loaded() }

// ActiveAt lists the shows of hosts that were live or upcoming at a version, in the order of boards: those after a place (the
// zero value: from the top), at most limit, and whether there are more. Each has the status and the times of the version;
// its texts are the present ones. Of versions older than the horizon some are missing.
func (m *Shows) ActiveAt(hosts []services.FollowedAuthor, version uint64, after services.ShowPlace, limit int) (shows []services.Show, more bool) {
	if after.Replay {
		return nil, false
	}
	return m.board(hosts, version, after, limit, false)
}

// ReplaysAt lists the replays of hosts that memory knows of, as ActiveAt does: all that ended within the horizon, whose end
// has this version or an earlier one, and besides of hosts whose replays are pulled their newest.
func (m *Shows) ReplaysAt(hosts []services.FollowedAuthor, version uint64, after services.ShowPlace, limit int) (shows []services.Show, more bool) {
	if !after.Replay {
		after = services.ShowPlace{}
	}
	return m.board(hosts, version, after, limit, true)
}

// look is what a page needs of a host at first.
type look struct {
	highest int64 // the greatest score of the spans
	spans   *[]span
}

// boardPage is what a page is made with. It is used again: a page of many hosts would be mostly that.
type boardPage struct {
	looks   []look
	highest []int64 // the greatest of the looks, one more than the page has, the least first
	best    []span
	full    bool // what is not before worst is not on the page
	worst   span
}

var boardPages = sync.Pool{New: func() any { return new(boardPage) }}

// board reads a page. First it looks how high the shows of each host reach, which the table says. Those who reach highest fill
// the page, or nearly; then the others are passed over unless they reach above its end. A heap of all hosts' first shows
// takes longer, and so does a walk through one list of all shows with a look whether their hosts are among those asked for
// (BenchmarkBoard).
func (m *Shows) board(hosts []services.FollowedAuthor, version uint64, after services.ShowPlace, limit int, replays bool) ([]services.Show, bool) {
	page := boardPages.Get().(*boardPage)
	defer boardPages.Put(page)
	m.mu.RLock()
	defer m.mu.RUnlock()
	page.look(m.state.hosts, hosts, after, limit+1, replays)
	page.fill(version, after, limit+1)
	more := len(page.best) > limit
	shows := make([]services.Show, min(len(page.best), limit))
	for i := range shows {
		shows[i] = page.best[i].frozen()
	}
	return shows, more
}

func (p *boardPage) look(table *hostTable, hosts []services.FollowedAuthor, after services.ShowPlace, count int, replays bool) {
	p.looks, p.highest = p.looks[:0], p.highest[:0]
	for _, followed := range hosts {
		known := table.one(followed.Author)
		if known.shows == nil {
			continue
		}
		one := look{known.active, &known.shows.active}
		if replays {
			one = look{known.replays, &known.shows.replays}
		}
		if one.highest == math.MinInt64 {
			continue
		}
		p.looks = append(p.looks, one)
		if after != (services.ShowPlace{}) && one.highest >= after.Score {
			continue // it may be all of former pages
		}
		at, _ := slices.BinarySearch(p.highest, one.highest)
		switch {
		case len(p.highest) < count:
			p.highest = slices.Insert(p.highest, at, one.highest)
		case at > 0:
			copy(p.highest, p.highest[1:at])
			p.highest[at-1] = one.highest
		}
	}
}

// fill finds the first spans of a page, and leaves no more than count.
func (p *boardPage) fill(version uint64, after services.ShowPlace, count int) {
	high := int64(math.MinInt64)
	if len(p.highest) == count {
		high = p.highest[0]
	}
	p.best, p.full = p.best[:0], false
	for _, first := range []bool{true, false} {
		for _, one := range p.looks {
			if (one.highest >= high) != first || p.full && one.highest < p.worst.score {
				continue
			}
			p.take(*one.spans, version, after, count)
		}
		p.prune(count)
	}
}

// take adds those of a host's spans that may be on the page.
func (p *boardPage) take(spans []span, version uint64, after services.ShowPlace, count int) {
	for _, one := range spans {
		if p.full && byPlace(one, p.worst) >= 0 {
			return
		}
		if !one.holdsAt(version) || after != (services.ShowPlace{}) && !one.below(after) {
			continue
		}
		if p.best = append(p.best, one); len(p.best) >= 2*count {
			p.prune(count)
		}
	}
}

func (p *boardPage) prune(count int) {
	slices.SortFunc(p.best, byPlace)
	if p.full = len(p.best) >= count; p.full {
		p.best, p.worst = p.best[:count], p.best[count-1]
	}
}

func (s span) below(after services.ShowPlace) bool {
	return s.score < after.Score || s.score == after.Score && s.id < after.ID
}

// frozen is the show as it stood. An end that came before the start is nowhere shown.
func (s span) frozen() services.Show {
	whole := s.show.whole()
	if s.from == whole.Version && whole.Status != services.ShowUpcoming {
		return whole
	}
	whole.Version, whole.EndedAt, whole.CancelledAt = s.from, moment(0), moment(0)
	if s.score > 0 {
		whole.Status, whole.StartedAt = services.ShowLive, moment(s.score)
		return whole
	}
	whole.Status, whole.PlannedAt, whole.StartedAt = services.ShowUpcoming, moment(-s.score), moment(0)
	whole.LiveVersion, whole.LiveStamp = 0, 0
	return whole
}

// ShowAt is a show as it stood at a version. known is false for one of which memory has nothing: there is none, no board
// has it, or it was over before the horizon. there is false when it was on no board: not yet, or cancelled.
func (m *Shows) ShowAt(id services.PostID, version uint64) (frozen services.Show, known, there bool) {
	m.mu.RLock()
	defer m.mu.RUnlock()
	one := m.state.byID[id]
	if one == nil {
		return services.Show{}, false, false
	}
	of := m.state.hosts.one(one.host).shows
	if of == nil {
		return services.Show{}, true, false
	}
	for _, list := range [][]span{of.active, of.replays} {
		for _, s := range list {
			if s.show == one && s.holdsAt(version) {
				return s.frozen(), true, true
			}
		}
	}
	return services.Show{}, true, false
}

// CountLive counts the shows of hosts that run, and went live after a viewer looked last and after he followed their host. It
// is behind while nothing was read yet, which CatchUp with any version does.
func (m *Shows) CountLive(hosts []services.FollowedAuthor, seen uint64) (count services.LiveCount) {
	return m.CountLiveSince(hosts, seen, 0)
}

// CountLiveSince is CountLive of the shows that went live after a place too.
func (m *Shows) CountLiveSince(hosts []services.FollowedAuthor, seen uint64, after services.PostID) (count services.LiveCount) {
	if count.Behind = len(hosts) > 0 && !m.Loaded(); count.Behind {
		return count
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	for _, followed := range hosts {
		known := m.state.hosts.one(followed.Author)
		count.Sequence += known.version
		if known.active > 0 { // else none runs
			followed.Since = max(followed.Since, after)
			known.shows.live(followed, seen, func(*show) { count.New++ })
		}
	}
	return count
}

// LiveSince lists what CountLive counts, in the order of boards.
func (m *Shows) LiveSince(hosts []services.FollowedAuthor, seen uint64) []services.Show {
	var shows []services.Show
	m.mu.RLock()
	defer m.mu.RUnlock()
	for _, followed := range hosts {
		if known := m.state.hosts.one(followed.Author); known.active > 0 {
			known.shows.live(followed, seen, func(one *show) { shows = append(shows, one.whole()) })
		}
	}
	slices.SortFunc(shows, func(a, b services.Show) int {
		if a.Place().Before(b.Place()) {
			return -1
		}
		return 1
	})
	return shows
}

// live finds the shows that count for a viewer.
func (h *hostShows) live(followed services.FollowedAuthor, seen uint64, found func(*show)) {
	for _, one := range h.active {
		if one.score <= 0 {
			return // here the upcoming begin
		}
		if one.from == one.show.version && one.show.liveVersion > seen && one.show.liveStamp > followed.Since {
			found(one.show)
		}
	}
}

// Shows reads whole shows as they are now: from memory, from those that were read lately, and what is missing from SQL. What
// never was is not in the map. One that no board has is read each time: the log does not tell of its changes.
func (m *Shows) Shows(ctx context.Context, ids []services.PostID) (map[services.PostID]services.Show, error) {
	found := make(map[services.PostID]services.Show, len(ids))
	var others []services.PostID
	m.mu.RLock()
	for _, id := range ids {
		if known := m.state.byID[id]; known != nil {
			found[id] = known.whole()
		} else {
			others = append(others, id)
		}
	}
	m.mu.RUnlock()
	if len(others) == 0 {
		return found, nil
	}
	read, missing := m.read.GetAll(others)
	for id, one := range read {
		found[id] = one
	}
	if len(missing) == 0 {
		return found, nil
	}
	facts, err := m.facts.Shows(ctx, missing)
	if err != nil {
		return nil, err
	}
	for id, one := range facts {
		found[id] = one
		if one.Version > 0 {
			m.read.Keep(id, one)
		}
	}
	return found, nil
}
