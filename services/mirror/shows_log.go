package mirror

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	"tidings/services"
	"tidings/services/changelog"
	"tidings/services/store"
)

// ShowFacts is what SQL knows of shows.
type ShowFacts interface {
	// Shows reads shows in whatever state.
	Shows(ctx context.Context, ids []services.PostID) (map[services.PostID]services.Show, error)
	// ActiveShows lists the upcoming and live shows that boards have, of as many hosts as limit says, after a host and by hosts.
	ActiveShows(ctx context.Context, after services.UserNumber, limit int) ([]services.Show, error)
	// EndedShows lists the shows that are over or cancelled and of which ShowHistory has something.
	EndedShows(ctx context.Context, since time.Time) ([]services.Show, error)
	// ShowHistory lists where shows stood that moved since. One that came to boards when it was over stood nowhere from
	// version 0 on.
	ShowHistory(ctx context.Context, since time.Time) ([]store.ShowFormer, error)
	// PulledReplays lists hosts' newest replays that are in nobody's list, at most limit of each.
	PulledReplays(ctx context.Context, hosts []services.UserNumber, limit int) ([]services.Show, error)
	// HostVersions lists hosts after one, by their numbers.
	HostVersions(ctx context.Context, after services.UserNumber, limit int) ([]store.HostVersion, error)
}

const (
	showsBatch = 1000           // entries of the log, and hosts, in one SELECT
	showsFor   = 13 * time.Hour // a session lasts 12 at most; nodes' clocks may differ
)

// showMemory is the memory of shows.
type showMemory struct {
	facts   ShowFacts
	horizon time.Duration
	read    *changelog.Cache[services.PostID, services.Show] // shows that memory does not keep

	following *changelog.Following
	mu        sync.RWMutex
	state     *showState
	changed   changedHosts // in the present look at the log

	readers *audience[services.UserNumber] // whose badges show hosts' live shows
	boards  *audience[*HostWatch]
}

// changedHosts are kept until the version is there with which a board shows their changes: a board that hears earlier reads
// the former version and hears no more.
type changedHosts struct {
	shows, live []services.UserNumber // hosts of shows that changed, and of whom others are live than before
	all         bool                  // which have changed is not known
}

func (s *showMemory) begin(cfg Config, f *changelog.Follower) {
	const capacity = 10_000
	s.facts = cfg.Facts
	if s.horizon = cfg.ShowHistory; s.horizon == 0 {
		s.horizon = showsFor
	}
	s.read = changelog.NewCache[services.PostID](capacity, func(one services.Show) time.Time { return one.UpdatedAt })
	s.state, s.readers, s.boards = newShowState(), newAudience(f.Clock(), f.NotifyMoved), newAudience(f.Clock(), wakeBoards)
}

// CatchUpShows sees to it that memory is at a version of the log or a later one. A version that the log does not have is INVALID.
func (m *Mirror) CatchUpShows(ctx context.Context, version uint64) error {
	if m.ShowsReady() && m.ShowsVersion() >= version {
		return nil
	}
	if err := m.RefreshShows(ctx); err != nil {
		return err
	}
	if known := m.ShowsVersion(); known < version {
		return services.Errorf(services.Invalid, "version %d of the live board: there are %d", version, known)
	}
	return nil
}

// RefreshShows reads what the log has of shows: so this node sees its own change at once.
func (m *Mirror) RefreshShows(ctx context.Context) error { return m.shows.following.Refresh(ctx) }

// showsFollowed forgets what no session needs any more, and tells of what has changed.
func (m *Mirror) showsFollowed(err error) {
	if err == nil {
		m.forgetShows()
	}
	changed := m.shows.changed
	m.shows.changed = changedHosts{}
	if changed.all {
		m.shows.readers.movedAll()
		m.shows.boards.movedAll()
	}
	for _, host := range changed.live {
		m.shows.readers.moved(host)
	}
	for _, host := range changed.shows {
		m.shows.boards.moved(host)
	}
	m.shows.readers.tellOwed()
	m.shows.boards.tellOwed()
}

// applyShows makes changes in their order. It makes none and answers false when one of them does not say what changed.
func (m *Mirror) applyShows(entries []changelog.Entry) bool {
	changes := make([]ShowChange, len(entries))
	for i, entry := range entries {
		if entry.Key == "" {
			return false
		}
		change, err := ParseShowChange(entry)
		if err != nil {
			m.log.Error("a change of a show cannot be read: all are loaded", "error", err)
			return false
		}
		changes[i] = change
	}
	m.shows.mu.Lock()
	defer m.shows.mu.Unlock()
	state := m.shows.state
	for i, change := range changes {
		m.shows.read.Keep(change.Show.ID, change.Show)
		// Of one that is over for long a text has changed.
		if state.byID[change.Show.ID] == nil && change.Show.Version != entries[i].Version {
			continue
		}
		if state.put(change.Show, entries[i].At) {
			m.shows.changed.shows = append(m.shows.changed.shows, change.Show.Host)
		}
		if change.Live && state.raise(change.Show.Host, entries[i].Version) {
			m.shows.changed.live = append(m.shows.changed.live, change.Show.Host)
		}
	}
	return true
}

// loadShows reads all anew. The order is what makes it whole while others go on writing. The log's head was read first: what is
// applied afterwards may be in what was read, and changes nothing then. Versions come before the shows: a count that
// is newer than its version is told again when the log brings that. Active shows come before those that are over, which one of them may
// have become, and where they stood comes last: it is never behind the shows.
func (m *Mirror) loadShows(ctx context.Context) error {
	since := m.clock.Now().Add(-m.shows.horizon)
	state := newShowState()
	pulls, err := m.loadHosts(ctx, state)
	if err != nil {
		return err
	}
	if err := m.loadActive(ctx, state); err != nil {
		return err
	}
	ended, err := m.shows.facts.EndedShows(ctx, since)
	if err != nil {
		return err
	}
	for part := range slices.Chunk(pulls, pulledBatch) {
		replays, err := m.shows.facts.PulledReplays(ctx, part, services.Retention)
		if err != nil {
			return err
		}
		ended = append(ended, replays...)
	}
	history, err := m.shows.facts.ShowHistory(ctx, since)
	if err != nil {
		return err
	}
	state.fill(ended, history)
	m.installShows(state)
	return nil
}

// loadHosts reads the hosts' versions and answers those of whom some replays are pulled.
func (m *Mirror) loadHosts(ctx context.Context, state *showState) (pulls []services.UserNumber, err error) {
	for after := services.UserNumber(0); ; {
		hosts, err := m.shows.facts.HostVersions(ctx, after, showsBatch)
		if err != nil || len(hosts) == 0 {
			return pulls, err
		}
		for _, one := range hosts {
			state.raise(one.Host, one.Version)
			if one.Pulls {
				pulls = append(pulls, one.Host)
			}
		}
		after = hosts[len(hosts)-1].Host
	}
}

func (m *Mirror) loadActive(ctx context.Context, state *showState) error {
	for after := services.UserNumber(0); ; {
		active, err := m.shows.facts.ActiveShows(ctx, after, showsBatch)
		if err != nil || len(active) == 0 {
			return err
		}
		for _, one := range active {
			state.put(one, one.UpdatedAt)
		}
		after = active[len(active)-1].Host
	}
}

// fill adds to the active shows what was and where they stood. What moves are to be forgotten when says history alone.
func (s *showState) fill(ended []services.Show, history []store.ShowFormer) {
	for _, one := range ended {
		s.put(one, one.UpdatedAt)
	}
	s.passing = nil
	for _, one := range s.byID {
		one.settled = true
	}
	for _, former := range history {
		s.stood(former)
	}
	for _, one := range s.byID {
		if over := one.is(services.ShowReplay) && !one.pull || one.is(services.ShowCancelled); over && one.settled {
			// It came to boards as what it is.
			one.settled = false
			s.passing = append(s.passing, passing{one.updated / 1000, one.id, one.version})
		}
	}
	slices.SortStableFunc(s.passing, func(a, b passing) int { return cmp.Compare(a.at, b.at) })
}

// installShows changes memory for what was loaded. What has changed is not known.
func (m *Mirror) installShows(state *showState) {
	m.shows.mu.Lock()
	defer m.shows.mu.Unlock()
	m.shows.state.hosts.all(func(former *host) { state.raise(former.number, former.version) }) // versions never fall
	m.shows.state = state
	m.shows.read.Clear()
	m.shows.changed.all = true
}

func (m *Mirror) forgetShows() {
	until := m.clock.Now().Add(-m.shows.horizon).UnixMilli()
	m.shows.mu.Lock()
	defer m.shows.mu.Unlock()
	m.shows.state.forget(until)
}
