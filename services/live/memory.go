package live

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"tidings/services"
	"tidings/services/changelog"
	"tidings/services/sql"
)

// memoryFacts reads shows for a node's cache.
type memoryFacts interface {
	// showsByID reads shows in any state.
	showsByID(ctx context.Context, ids []services.ShowID) (map[services.ShowID]Show, error)
	// activeShows lists the upcoming and live shows on boards, of up to limit hosts with IDs above after, grouped by host.
	activeShows(ctx context.Context, after services.UserID, limit int) ([]Show, error)
	// endedShows lists the shows that are over or cancelled and have a row in showHistory(since).
	endedShows(ctx context.Context, since time.Time) ([]Show, error)
	// showHistory lists the former positions of shows that moved since a time. If a show was over when it was put on
	// boards, its row says that it had no position before: from version 0 until that one.
	showHistory(ctx context.Context, since time.Time) ([]formerPosition, error)
	// pulledReplays lists hosts' newest replays that are in no list, at most limit of each host.
	pulledReplays(ctx context.Context, hosts []services.UserID, limit int) ([]Show, error)
	// hostVersions lists up to limit hosts with IDs above after, in the order of their IDs.
	hostVersions(ctx context.Context, after services.UserID, limit int) ([]hostLiveVersion, error)
}

// database reads from SQL the facts that a node's cache is filled with.
type database struct{ *sql.DB }

// showsByID reads shows in any state.
func (d database) showsByID(ctx context.Context, ids []services.ShowID) (map[services.ShowID]Show, error) {
	return readShows(ctx, d.Runner, ids)
}

// pulledHostsPerRead bounds one answer: each of its hosts brings up to FeedRetention shows. hostsPerRead bounds how long one SELECT
// runs while a node starts.
const (
	pulledHostsPerRead = 200  // hosts whose pulled replays one SELECT reads
	hostsPerRead       = 1000 // hosts in one SELECT
)

// Memory is this node's cache of the shows on boards. It is safe for concurrent use.
type Memory struct {
	facts          memoryFacts // what the cache is loaded from
	clock          services.Clock
	log            *slog.Logger
	historyHorizon time.Duration                           // how long former positions are kept
	recentShows    *changelog.Cache[services.ShowID, Show] // shows that were read or changed lately, for reads of shows that state lacks

	logFollower *changelog.KindFollower // reads the log of shows
	// mu guards state and what state points to. It does not guard the version of the log: logFollower raises the version after
	// apply has returned.
	mu    sync.RWMutex
	state *showState // the shows on boards, and their former positions
	// No lock guards changed: only reads of the log use it, one at a time.
	changed changedHosts // the changes that the present read of the log has found so far

	// Lock order: mu, then the lock of readers (addLiveVersions).
	readers *hostChangeReceivers[services.UserID]  // the users whose badges show hosts' live shows
	boards  *hostChangeReceivers[*boardHostsWatch] // the open boards
}

// changedHosts holds changes back until the version of the cache includes them: a board that is notified earlier would read the
// former version, and would not be notified again.
type changedHosts struct {
	hosts, liveSetChanged []services.UserID // hosts of changed shows, and hosts whose set of live shows has changed
	allMayHaveChanged     bool              // any host may have changed
}

// newMemory makes an empty cache that follows the log. horizon is how long it keeps former positions: longer than any
// session lives.
func newMemory(log *changelog.Follower, facts memoryFacts, horizon time.Duration) *Memory {
	// recentShows caches shows for pages of replays that ended longer ago than horizon. A few thousand shows serve most of these pages.
	const capacity = 10_000
	clock := log.Clock()
	m := &Memory{
		facts: facts, clock: clock, log: log.Logger(), historyHorizon: horizon, state: newShowState(),
		recentShows: changelog.NewCache[services.ShowID](capacity, func(one Show) time.Time { return one.UpdatedAt }),
		readers:     newReceivers(clock, log.NotifyReaders), boards: newReceivers(clock, wakeBoards),
	}
	m.logFollower = log.Register(changelog.Kind{Name: ChangelogKind, Load: m.load, Apply: m.apply, AfterLogRead: m.finishLogRead})
	log.RegisterVersionPart(changelog.VersionPart{AddVersions: m.addLiveVersions, Unfollow: m.readers.remove})
	return m
}

// setReaderHosts sets the hosts in the badges of a user who is watched on this node, until the next call or until the user leaves. It
// is called before the shows are read, so that no move of a show is missed in between.
func (m *Memory) setReaderHosts(user services.UserID, hosts []services.FollowedAuthor) {
	m.readers.setHosts(user, hosts)
}

// addLiveVersions adds, for each watched user, the versions at which their hosts' sets of live shows last changed. The hub compares
// the sum with the sum of its last rendering, and so finds users whose count may have changed, also when a notification was lost.
func (m *Memory) addLiveVersions(users []services.UserID, sums []uint64) {
	if !m.Loaded() {
		return
	}
	m.mu.RLock()
	defer m.mu.RUnlock()
	m.readers.mu.Lock()
	defer m.readers.mu.Unlock()
	for i, user := range users {
		for _, host := range m.readers.hosts[user] {
			sums[i] += m.state.hosts.get(host).liveVersion
		}
	}
}

// catchUp makes sure that the cache is at a version of the log or a later one. The error is INVALID for a version that the log
// does not have.
func (m *Memory) catchUp(ctx context.Context, version uint64) error {
	if m.Loaded() && m.Version() >= version {
		return nil
	}
	// The version was made by another node, or this node has loaded nothing yet.
	if err := m.Refresh(ctx); err != nil {
		return err
	}
	if known := m.Version(); known < version {
		return services.Errorf(services.Invalid, "version %d of the live board: there are %d", version, known)
	}
	return nil
}

// Refresh reads the log of shows, so that this node sees its own change at once. It is the AfterCommit of the commands: the
// host reads their own show back from this cache.
func (m *Memory) Refresh(ctx context.Context) error { return m.logFollower.Refresh(ctx) }

// finishLogRead drops the data that no session needs any more, and notifies the watched users and the open boards of changes.
func (m *Memory) finishLogRead(err error) {
	// After an error nothing was applied, and the next read of the log forgets as well.
	if err == nil {
		m.forgetOldPositions()
	}
	changed := m.changed
	m.changed = changedHosts{}
	if changed.allMayHaveChanged {
		m.readers.recordAllChanged()
		m.boards.recordAllChanged()
	}
	for _, host := range changed.liveSetChanged {
		m.readers.recordChange(host)
	}
	for _, host := range changed.hosts {
		m.boards.recordChange(host)
	}
	// This runs after an error and without a change too: an earlier change may still wait for its notification.
	m.readers.notifyPending()
	m.boards.notifyPending()
}

// apply applies entries of the log of shows to the cache, in their order. If one of them does not say what changed, it applies none and
// returns false: then all shows are loaded.
func (m *Memory) apply(entries []changelog.Entry) bool {
	changes := make([]loggedChange, len(entries))
	for i, entry := range entries {
		// The entry is of appendReload, or of an erased show (changelog.BlankEntries).
		if entry.Key == "" {
			return false
		}
		change, err := parseLoggedChange(entry)
		if err != nil {
			// A newer release may write what this one cannot read. Loading gives the right state without understanding the
			// entry.
			m.log.Error("a change of a show cannot be read: all are loaded", "error", err)
			return false
		}
		changes[i] = change
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	state := m.state
	for i, change := range changes {
		// Put shows that are in state into recentShows too: when such a show leaves state, recentShows must not return a copy from
		// before the entry.
		m.recentShows.Keep(change.Show.ID, change.Show)
		// The show ended long ago and is no longer in state, and the entry changes only its texts.
		if state.byID[change.Show.ID] == nil && change.Show.Version != entries[i].Version {
			continue
		}
		// The time is the entry's and not this node's, so that a node that reads the log late keeps positions no longer than the
		// others.
		if state.put(change.Show, entries[i].At) {
			m.changed.hosts = append(m.changed.hosts, change.Show.Host)
		}
		if change.Live && state.raiseLiveVersion(change.Show.Host, entries[i].Version) {
			m.changed.liveSetChanged = append(m.changed.liveSetChanged, change.Show.Host)
		}
	}
	return true
}

// load fills the cache anew from the facts. The order of the reads keeps the result complete while others write. The log's last
// sequence was read first: later entries may already be in the loaded state, and then change nothing. The hosts' versions are read
// before the shows: if a show goes live in between, its host's count is newer than the version, and is notified again when the log
// brings the newer version. Active shows come before ended ones, because an active show may end in between. Former positions come last,
// so they are never older than the shows. The new state is built apart and installed in one step: readers see the former one until
// then, and a failed load changes nothing.
func (m *Memory) load(ctx context.Context) error {
	since := m.clock.Now().Add(-m.historyHorizon)
	state := newShowState()
	pulls, err := m.loadHosts(ctx, state)
	if err != nil {
		return err
	}
	if err := m.loadActive(ctx, state); err != nil {
		return err
	}
	ended, err := m.facts.endedShows(ctx, since)
	if err != nil {
		return err
	}
	for part := range slices.Chunk(pulls, pulledHostsPerRead) {
		replays, err := m.facts.pulledReplays(ctx, part, services.FeedRetention)
		if err != nil {
			return err
		}
		ended = append(ended, replays...)
	}
	history, err := m.facts.showHistory(ctx, since)
	if err != nil {
		return err
	}
	state.addEndedAndFormer(ended, history)
	m.replaceState(state)
	return nil
}

// loadHosts reads the hosts' versions and returns the hosts with pulled replays.
func (m *Memory) loadHosts(ctx context.Context, state *showState) (pulls []services.UserID, err error) {
	for after := services.UserID(0); ; {
		hosts, err := m.facts.hostVersions(ctx, after, hostsPerRead)
		if err != nil || len(hosts) == 0 {
			return pulls, err
		}
		for _, one := range hosts {
			state.raiseLiveVersion(one.Host, one.LiveVersion)
			if one.HasPulledReplays {
				pulls = append(pulls, one.Host)
			}
		}
		after = hosts[len(hosts)-1].Host
	}
}

// loadActive reads the upcoming and live shows of all hosts into state.
func (m *Memory) loadActive(ctx context.Context, state *showState) error {
	for after := services.UserID(0); ; {
		active, err := m.facts.activeShows(ctx, after, hostsPerRead)
		if err != nil || len(active) == 0 {
			return err
		}
		for _, one := range active {
			state.put(one, one.UpdatedAt)
		}
		after = active[len(active)-1].Host
	}
}

// addEndedAndFormer adds the ended shows and the former positions to the active shows. Only the history has the times of the moves,
// which decide when a former position can be forgotten.
func (s *showState) addEndedAndFormer(ended []Show, history []formerPosition) {
	for _, one := range ended {
		s.put(one, one.UpdatedAt)
	}
	s.recentMoves = nil
	// put has treated each show as if it had just moved. But its last move is older than all sessions, unless the history below has it.
	for _, one := range s.byID {
		one.movedBeforeSessions = true
	}
	for _, former := range history {
		s.addFormerPosition(former)
	}
	for _, one := range s.byID {
		if over := one.is(ShowReplay) && !one.pull || one.is(ShowCancelled); over && one.movedBeforeSessions {
			// The history has no move of this show: the time of its last change decides when it is forgotten.
			one.movedBeforeSessions = false
			s.recentMoves = append(s.recentMoves, recentMove{one.updatedMicros / 1000, one.id, one.version})
		}
	}
	slices.SortStableFunc(s.recentMoves, func(a, b recentMove) int { return cmp.Compare(a.atMillis, b.atMillis) })
}

// replaceState replaces the cache with the loaded state. It is unknown which shows have changed, so all receivers are to be notified.
func (m *Memory) replaceState(state *showState) {
	m.mu.Lock()
	defer m.mu.Unlock()
	// Versions must not fall, although an erased host has no row any more and a restored backup has older versions. A lower sum of
	// versions would make the badges of all followers of that host look older than the badges that were sent before.
	m.state.hosts.each(func(former *cachedHost) { state.raiseLiveVersion(former.userID, former.liveVersion) })
	m.state = state
	m.recentShows.Clear()
	m.changed.allMayHaveChanged = true
}

// forgetOldPositions drops the data that no session needs any more. It runs at each read of the log, and usually finds nothing.
func (m *Memory) forgetOldPositions() {
	until := m.clock.Now().Add(-m.historyHorizon).UnixMilli()
	m.mu.Lock()
	defer m.mu.Unlock()
	m.state.forgetPositions(until)
}
