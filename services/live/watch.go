package live

import (
	"context"
	"slices"
	"time"

	"tidings/services"
	"tidings/services/push"
)

// BoardChange is the difference between a watcher's session and the present board, with the watcher's badges.
type BoardChange struct {
	Session         Session
	SessionReplaced bool // the session that was requested or sent before is over: Session is a new one, of the board as it is now
	Difference
	// NewAboveCount is how many shows are now above the session's first show: a new session begins with them.
	NewAboveCount int
	Badges        *services.Badges
}

// Unchanged reports whether the board is still as the session froze it.
func (c BoardChange) Unchanged() bool { return !c.SessionReplaced && c.NewAboveCount == 0 && c.empty() }

// same reports whether a watcher would see no difference: then the change is not sent. Of the badges only the count of the board
// matters here; the other badges have their own subscription.
func (c BoardChange) same(other BoardChange) bool {
	return c.Session == other.Session && c.NewAboveCount == other.NewAboveCount && c.Difference.same(other.Difference) &&
		c.Badges.LiveBoard == other.Badges.LiveBoard
}

// maxRenewEvery is the longest time between two renewals of an open subscription's session. After Redis has lost the lease, it
// takes at most this long until a request for a page finds the session alive again.
const maxRenewEvery = time.Minute

// Watch opens a channel of the differences between a viewer's board and a session; a nil session means a new one. The channel
// gets the present difference, and then each change; a slow consumer gets only the latest. badges are the viewer's badges from
// the hub; Watch waits for the first of them. While the channel is open the session is renewed, within its longest life; when the
// session ends, a new one replaces it. The channel is closed when ctx ends and when badges is closed.
func (s *Service) Watch(ctx context.Context, viewer services.UserID, session *string, device string, badges <-chan *services.Badges) (<-chan BoardChange, error) {
	// Errors of the argument are returned before the subscription opens. After a later error, push.SendDerivedStates tries again.
	start, err := BoardRequest{Session: session}.parse(viewer)
	if err != nil {
		return nil, err
	}
	if err := s.catchUpToSession(ctx, start.sessionArgName, start.session); err != nil {
		return nil, err
	}
	w := &boardWatcher{service: s, viewer: viewer, deviceHash: deviceHash(device), session: start.session, hostWatch: s.Memory.watchHosts()}
	// The channel is unbuffered: while nobody reads, push.SendDerivedStates replaces the change that waits by the latest.
	changes := make(chan BoardChange)
	go func() {
		defer close(changes)
		defer w.hostWatch.close()
		push.SendDerivedStates(ctx, changes, badges, w.startWakes(ctx), w.readChange, BoardChange.same)
	}()
	return changes, nil
}

// boardWatcher is one open board. Only its own goroutine uses it.
type boardWatcher struct {
	service    *Service
	viewer     services.UserID
	deviceHash uint64           // hash of the name of the viewer's device; 0 if the client gave none
	session    Session          // with CreationID 0: none yet
	hostWatch  *boardHostsWatch // notifies of changes of the hosts' shows

	badges *services.Badges // the viewer's badges at the time when session, reader and topPosition were read
	reader readerData       // the followed hosts
	// topPosition is the position of the session's first line: shows above it are new. It is zero if the session's board is empty.
	topPosition       ShowPosition
	sessionReplaced   bool      // a session that was sent or requested has ended
	slotTaken         bool      // another session has the slot: this one is not renewed, and a request for its pages gets a new one
	renewedAt         time.Time // when the session was renewed last
	badgesBehindSince time.Time // since when the badges are older than the live shows in this node's cache; zero if they are not
}

// startWakes returns a channel that gets a value when there may be something to send: a show has changed, or the session must be
// renewed. The goroutine turns two causes into the one channel that push.SendDerivedStates takes, and ends with ctx.
func (w *boardWatcher) startWakes(ctx context.Context) <-chan struct{} {
	wakes := make(chan struct{}, 1)
	go func() {
		timer := time.NewTicker(w.renewEvery())
		defer timer.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-w.hostWatch.changed:
			case <-timer.C:
			}
			services.Signal(wakes)
		}
	}()
	return wakes
}

// renewEvery is the time between two renewals of the session. Each idle time has at least three renewals, so that one may fail.
func (w *boardWatcher) renewEvery() time.Duration {
	return min(maxRenewEvery, w.service.sessionIdleTime/3)
}

// readChange reads the present difference of the board. It reads the followed hosts again when the viewer's badges change, since a
// follow changes the badges too.
func (w *boardWatcher) readChange(ctx context.Context, badges *services.Badges) (change BoardChange, err error) {
	s := w.service
	// over reports that the session is past its longest life. No lease tells that, so it is checked at each turn.
	over := w.session.CreationID != 0 && s.clock.Now().After(w.session.CreationID.Time().Add(s.maxSessionLife))
	// Badges are compared by their pointer: the hub sends a new one for each change.
	if over || w.badges != badges {
		if err := w.readHosts(ctx, badges, over); err != nil {
			return change, err
		}
	}
	// A change of a show wakes the watcher too, so most turns renew nothing.
	if now := s.clock.Now(); !w.slotTaken && now.Sub(w.renewedAt) >= w.renewEvery()/2 {
		// The lease that was read last is not passed: another session may have taken the slot since.
		if !s.renew(ctx, w.session, slotLease{}) {
			if err := w.readHosts(ctx, badges, true); err != nil {
				return change, err
			}
		}
		w.renewedAt = now
	}
	change = BoardChange{Session: w.session, SessionReplaced: w.sessionReplaced, Badges: badges}
	// Without this check the client would draw a show as live under a badge that does not count it, for one round trip of the hub.
	if w.awaitsBadges(badges) {
		return change, push.ErrBadgesBehind
	}
	// These are all moves since the session began, and not only since the last change: a client that missed a change needs only the
	// latest.
	moves := s.Memory.movesSince(w.reader.boardHosts, w.session.Version)
	others, older := w.movesOfNewHosts()
	moves = append(moves, others...)
	change.Difference = newDifference(moves)
	change.NewAboveCount = countNewAbove(w.topPosition, moves) + older
	return change, nil
}

// maxBadgesWait is how long a change waits for the badges that count it. The hub renders them as soon as it is notified, but
// not more often than its interval, and its engines may not answer.
const maxBadgesWait = 500 * time.Millisecond

// awaitsBadges reports whether the change waits for newer badges: these do not count the live shows in this node's cache yet. It
// waits for maxBadgesWait at most. New badges will come soon, and then both are sent together.
func (w *boardWatcher) awaitsBadges(badges *services.Badges) bool {
	now := w.service.clock.Now()
	// Sequences are sums of versions over the same hosts, and only rise, so they can be compared.
	if w.service.Memory.CountLive(w.reader.hosts, 0).VersionSum <= badges.LiveSequence {
		w.badgesBehindSince = time.Time{}
		return false
	}
	if w.badgesBehindSince.IsZero() {
		w.badgesBehindSince = now
	}
	waited := now.Sub(w.badgesBehindSince)
	return waited >= 0 && waited < maxBadgesWait // the clock may have been set back
}

// readHosts reads the followed hosts and the first line of the session's board. It makes a new session if there is none or the
// session is over.
func (w *boardWatcher) readHosts(ctx context.Context, badges *services.Badges, over bool) error {
	s := w.service
	session := w.session
	if session.CreationID == 0 {
		session = Session{Viewer: w.viewer, DeviceHash: w.deviceHash}
	}
	read, err := s.readerData(ctx, session, ShowPosition{}, s.replayLimit(session, 1))
	if err != nil {
		return err
	}
	// The hosts are set before the shows are read, so that the watch reports a change in between.
	w.hostWatch.setHosts(read.hosts)
	// Another subscription or page may have taken the slot: then this session is over too. If the slot was taken from this watcher
	// before, its present session has no slot, and stays.
	given, taken := session.CreationID != 0, read.lease.Holder != "" && read.lease.Holder != session.name()
	if !given || over || !(w.slotTaken && taken) && !session.lives(s.clock.Now(), read.lease, s.sessionIdleTime, s.maxSessionLife) {
		w.slotTaken = given && taken
		session, read.boardHosts = s.newSession(session, read.hosts), read.hosts
		w.sessionReplaced, w.renewedAt = w.sessionReplaced || given, time.Time{}
	}
	page, _, err := s.cutPage(ctx, session, read, ShowPosition{}, 1)
	if err != nil {
		return err
	}
	// The fields are set only after everything was read: after an error the next turn begins with the former state, and badges still
	// differ.
	w.badges, w.reader, w.session, w.topPosition = badges, read, session, ShowPosition{}
	if len(page.Lines) > 0 {
		w.topPosition = page.Lines[0].Position
	}
	return nil
}

// movesOfNewHosts returns moves for the shows of hosts that came after the session was made, none of which are in the session: shows
// that are live or upcoming, and shows that have become replays since. older is how many of their other replays are above the
// session's first show.
func (w *boardWatcher) movesOfNewHosts() (moves []Move, older int) {
	since := w.reader.hostsNotOnBoard()
	if len(since) == 0 {
		return nil, 0
	}
	m := w.service.Memory
	active, _ := m.activeAt(since, m.Version(), ShowPosition{}, services.FeedRetention)
	replays, _ := m.replaysAt(since, m.Version(), ShowPosition{}, services.FeedRetention)
	for _, show := range slices.Concat(active, replays) {
		switch {
		case show.Status != ShowReplay || show.Version > w.session.Version:
			moves = append(moves, Move{Now: show})
		case w.topPosition.ID == 0 || show.Position().Before(w.topPosition):
			older++
		}
	}
	return moves, older
}
