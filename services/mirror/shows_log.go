package mirror

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"tidings/services"
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

// showMemory is the memory of shows. tail is held by who reads the log: Run, and whoever needs a version that memory does not have
// yet. It is locked before mu.
type showMemory struct {
	facts   ShowFacts
	horizon time.Duration
	read    *memory[services.PostID, services.Show] // shows that memory does not keep

	tail    sync.Mutex
	mu      sync.RWMutex
	state   *showState
	version atomic.Uint64
	ready   atomic.Bool

	readers *audience[services.UserNumber] // whose badges show hosts' live shows
	boards  *audience[*HostWatch]
}

func (s *showMemory) begin(cfg Config) {
	const capacity = 10_000
	s.facts = cfg.Facts
	if s.horizon = cfg.ShowHistory; s.horizon == 0 {
		s.horizon = showsFor
	}
	s.read = newMemory[services.PostID](capacity, func(one services.Show) time.Time { return one.UpdatedAt })
	s.state, s.readers, s.boards = newShowState(0), newAudience((*Mirror).tell), newAudience(wakeBoards)
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
func (m *Mirror) RefreshShows(ctx context.Context) error {
	_, err := m.followShows(ctx)
	return err
}

// followShows brings memory to the head of the log, loads it anew where the log does not say what changed, and forgets what
// no session needs any more.
func (m *Mirror) followShows(ctx context.Context) (changes int, err error) {
	m.shows.tail.Lock()
	defer m.shows.tail.Unlock()
	defer m.shows.boards.tellOwed(m)
	defer m.shows.readers.tellOwed(m)
	for {
		if !m.ShowsReady() {
			if err := m.loadShows(ctx); err != nil {
				return changes, err
			}
		}
		at := m.ShowsVersion()
		entries, err := m.facts.LogAfter(ctx, LogShow, at, showsBatch)
		if err != nil {
			return changes, err
		}
		if len(entries) > 0 && (entries[0].Version != at+1 || !m.applyShows(entries)) {
			if err := m.loadShows(ctx); err != nil {
				return changes, err
			}
			continue
		}
		changes += len(entries)
		if len(entries) < showsBatch {
			m.forgetShows()
			return changes, nil
		}
	}
}

// applyShows makes changes in their order. It makes none and answers false when one of them does not say what changed.
func (m *Mirror) applyShows(entries []store.LogEntry) bool {
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
		m.shows.read.keep(change.Show.ID, change.Show)
		state.version = entries[i].Version
		// Of one that is over for long a text has changed.
		if state.byID[change.Show.ID] == nil && change.Show.Version != state.version {
			continue
		}
		if state.put(change.Show, entries[i].At) {
			m.shows.boards.moved(change.Show.Host)
		}
		if change.Live && state.raise(change.Show.Host, entries[i].Version) {
			m.shows.readers.moved(change.Show.Host)
		}
	}
	m.shows.version.Store(state.version)
	return true
}

// loadShows reads all anew. The order is what makes it whole while others go on writing. The log's head comes first: what is
// applied afterwards may be in what was read, and changes nothing then. Versions come before the shows: a count that
// is newer than its version is told again when the log brings that. Active shows come before those that are over, which one of them may
// have become, and where they stood comes last: it is never behind the shows.
func (m *Mirror) loadShows(ctx context.Context) error {
	head, _, err := m.facts.LogHead(ctx, LogShow)
	if err != nil {
		return err
	}
	since := m.clock.Now().Add(-m.shows.horizon)
	state := newShowState(head)
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

// installShows changes memory for what was loaded, and tells everybody: what has changed is not known.
func (m *Mirror) installShows(state *showState) {
	m.shows.mu.Lock()
	defer m.shows.mu.Unlock()
	m.shows.state.hosts.all(func(former *host) { state.raise(former.number, former.version) }) // versions never fall
	m.shows.state = state
	m.shows.read.clear()
	m.shows.version.Store(state.version)
	m.shows.ready.Store(true)
	m.shows.readers.movedAll()
	m.shows.boards.movedAll()
}

func (m *Mirror) forgetShows() {
	until := m.clock.Now().Add(-m.shows.horizon).UnixMilli()
	m.shows.mu.Lock()
	defer m.shows.mu.Unlock()
	m.shows.state.forget(until)
}
