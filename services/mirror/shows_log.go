package mirror

import (
	"cmp"
	"context"
	"log/slog"
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
	ActiveShows(ctx context.Context, after services.UserID, limit int) ([]services.Show, error)
	// EndedShows lists the shows that are over or cancelled and of which ShowHistory has something.
	EndedShows(ctx context.Context, since time.Time) ([]services.Show, error)
	// ShowHistory lists where shows stood that moved since. One that came to boards when it was over stood nowhere from
	// version 0 on.
	ShowHistory(ctx context.Context, since time.Time) ([]store.ShowFormer, error)
	// PulledReplays lists hosts' newest replays that are in nobody's list, at most limit of each.
	PulledReplays(ctx context.Context, hosts []services.UserID, limit int) ([]services.Show, error)
	// HostVersions lists hosts after one, by their numbers.
	HostVersions(ctx context.Context, after services.UserID, limit int) ([]store.HostVersion, error)
}

const (
	showsBatch = 1000           // entries of the log, and hosts, in one SELECT
	showsFor   = 13 * time.Hour // a session lasts 12 at most; nodes' clocks may differ
)

// Shows is this node's memory of the shows of boards. It is safe for concurrent use.
type Shows struct {
	facts   ShowFacts
	clock   services.Clock
	log     *slog.Logger
	horizon time.Duration
	read    *changelog.Cache[services.PostID, services.Show] // shows that memory does not keep

	following *changelog.Following
	mu        sync.RWMutex
	state     *showState
	changed   changedHosts // in the present look at the log

	readers *audience[services.UserID] // whose badges show hosts' live shows
	boards  *audience[*HostWatch]
}

// changedHosts waits for the version of the changes: a board that is notified earlier reads the former version, and is not
// notified again.
type changedHosts struct {
	shows, live []services.UserID // hosts of shows that changed, and of whom others are live than before
	all         bool              // which have changed is not known
}

// NewShows makes an empty memory that follows the log. horizon is how long it remembers where shows stood before: longer than
// any session lasts; 0 means 13 h.
func NewShows(log *changelog.Follower, facts ShowFacts, horizon time.Duration) *Shows {
	const capacity = 10_000
	if horizon == 0 {
		horizon = showsFor
	}
	clock := log.Clock()
	m := &Shows{
		facts: facts, clock: clock, log: log.Logger(), horizon: horizon, state: newShowState(),
		read:    changelog.NewCache[services.PostID](capacity, func(one services.Show) time.Time { return one.UpdatedAt }),
		readers: newAudience(clock, log.NotifyMoved), boards: newAudience(clock, wakeBoards),
	}
	m.following = log.Register(changelog.Kind{Name: LogShow, Load: m.load, Apply: m.apply, Followed: m.followed})
	log.RegisterStream(changelog.Stream{Learned: m.learned, Unfollow: m.readers.leave})
	return m
}

// Follow says which hosts are in the badges of a user who is watched here, until the next Follow or until they leave. It is called
// before the shows are read, so that no move falls between.
func (m *Shows) Follow(user services.UserID, hosts []services.FollowedAuthor) {
	m.readers.show(user, hosts)
}

func (m *Shows) learned(users []services.UserID, sums []uint64) {
	if !m.Loaded() {
		return
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	m.readers.mu.Lock()
	defer m.readers.mu.Unlock()
	for i, user := range users {
		for _, host := range m.readers.shown[user] {
			sums[i] += m.state.hosts.one(host).version
		}
	}
}

// CatchUp sees to it that memory is at a version of the log or a later one. A version that the log does not have is INVALID.
func (m *Shows) CatchUp(ctx context.Context, version uint64) error {
	if m.Loaded() && m.Version() >= version {
		return nil
	}
	if err := m.Refresh(ctx); err != nil {
		return err
	}
	if known := m.Version(); known < version {
		return services.Errorf(services.Invalid, "version %d of the live board: there are %d", version, known)
	}
	return nil
}

// Refresh reads what the log has of shows: so this node sees its own change at once.
func (m *Shows) Refresh(ctx context.Context) error { return m.following.Refresh(ctx) }

// followed forgets what no session needs any more, and notifies of what has changed.
func (m *Shows) followed(err error) {
	if err == nil {
		m.forget()
	}
	changed := m.changed
	m.changed = changedHosts{}
	if changed.all {
		m.readers.movedAll()
		m.boards.movedAll()
	}
	for _, host := range changed.live {
		m.readers.moved(host)
	}
	for _, host := range changed.shows {
		m.boards.moved(host)
	}
	m.readers.tellOwed()
	m.boards.tellOwed()
}

// apply makes changes in their order. It makes none and answers false when one of them does not say what changed.
func (m *Shows) apply(entries []changelog.Entry) bool {
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
	m.mu.Lock()
	defer m.mu.Unlock()
	state := m.state
	for i, change := range changes {
		m.read.Keep(change.Show.ID, change.Show)
		// Of one that is over for long a text has changed.
		if state.byID[change.Show.ID] == nil && change.Show.Version != entries[i].Version {
			continue
		}
		if state.put(change.Show, entries[i].At) {
			m.changed.shows = append(m.changed.shows, change.Show.Host)
		}
		if change.Live && state.raise(change.Show.Host, entries[i].Version) {
			m.changed.live = append(m.changed.live, change.Show.Host)
		}
	}
	return true
}

// load reads all anew. The order is what makes it whole while others go on writing. The log's head was read first: what is
// applied afterwards may be in what was read, and changes nothing then. Versions come before the shows: a count that
// is newer than its version is told again when the log brings that. Active shows come before those that are over, which one of them may
// have become, and where they stood comes last: it is never behind the shows.
func (m *Shows) load(ctx context.Context) error {
	since := m.clock.Now().Add(-m.horizon)
	state := newShowState()
	pulls, err := m.loadHosts(ctx, state)
	if err != nil {
		return err
	}
	if err := m.loadActive(ctx, state); err != nil {
		return err
	}
	ended, err := m.facts.EndedShows(ctx, since)
	if err != nil {
		return err
	}
	for part := range slices.Chunk(pulls, pulledBatch) {
		replays, err := m.facts.PulledReplays(ctx, part, services.Retention)
		if err != nil {
			return err
		}
		ended = append(ended, replays...)
	}
	history, err := m.facts.ShowHistory(ctx, since)
	if err != nil {
		return err
	}
	state.fill(ended, history)
	m.install(state)
	return nil
}

// loadHosts reads the hosts' versions and answers those of whom some replays are pulled.
func (m *Shows) loadHosts(ctx context.Context, state *showState) (pulls []services.UserID, err error) {
	for after := services.UserID(0); ; {
		hosts, err := m.facts.HostVersions(ctx, after, showsBatch)
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

func (m *Shows) loadActive(ctx context.Context, state *showState) error {
	for after := services.UserID(0); ; {
		active, err := m.facts.ActiveShows(ctx, after, showsBatch)
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

// install changes memory for what was loaded. What has changed is not known.
func (m *Shows) install(state *showState) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state.hosts.all(func(former *host) { state.raise(former.number, former.version) }) // versions never fall
	m.state = state
	m.read.Clear()
	m.changed.all = true
}

func (m *Shows) forget() {
	until := m.clock.Now().Add(-m.horizon).UnixMilli()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state.forget(until)
}
