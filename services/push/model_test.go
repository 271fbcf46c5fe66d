package push

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"pgregory.net/rapid"

	"tidings/services"
)

// hubWorld is a hub, models of the engines, and users who act in an order that a picker chooses. It is single-threaded, so that a
// history can be repeated and shrunk. Concurrent events happen inside the calls that the hub makes, before and after each
// takes effect.
type hubWorld struct {
	picker
	historyOptions
	hub   *Hub
	clock *manualClock

	facts       map[services.UserID]*fact    // the truth about each user
	docs        map[services.UserID]document // what Redis holds
	leasedUsers map[services.UserID]bool     // the users that get hints

	redisUnavailable      bool                         // Redis does not answer
	unrenderableUsers     map[services.UserID]bool     // users whose documents cannot be rendered
	renderedWithoutRedis  map[services.UserID]bool     // whether a user was rendered without Redis
	hintsInFlight         []hint                       // on their way to the hub
	clients               []*client                    // those who watch now
	versionsOfPastClients map[services.UserID][]string // the versions that clients showed when they stopped watching
	contentOfVersion      map[string]int               // what each version showed: equal version, equal content
	delayedEffects        []func()                     // effects that an injected bug delays
	concurrentEventDepth  int                          // how many calls of runConcurrentEvents are nested
	reconciling           bool                         // a reconciliation is under way
	removingLeases        bool                         // a call of removeQueuedLeases is under way
	usersInLeaseCall      map[services.UserID]bool     // users in a call of WriteLeases or RemoveLeases
	usersInRender         map[services.UserID]bool     // users being rendered
	firstFailure          error                        // the first failure given to recordFailure
}

// historyOptions defines which events may happen, and which bug is injected.
type historyOptions struct {
	withFaults bool // hints are lost, Redis fails and loses data, renders fail; otherwise reconciliation is prevented from repairing
	bug        bug  // the injected bug, or noBug
}

// bug is a bug that a test injects, to see whether the histories find it.
type bug string

const (
	noBug            bug = ""
	noReconciliation bug = "no reconciliation" // a history with lost hints ends without a reconciliation
	lateLeaseWrite   bug = "the state is read before the lease is written"
	lateLeaseRemoval bug = "a lease is taken back later than the hub believes"
	hintLostInRender bug = "a hint during a render is dropped"
)

// fact is the truth about a user: a number, and moments at each of which time alone adds 1,000 to it.
type fact struct {
	number        int // rises with each change
	increaseTimes []time.Time
}

// document is what Redis holds of a user.
type document struct {
	version uint64 // the document half of the version
	number  int    // fact.number, when it was last projected
}

// hint is a hint on its way to the hub.
type hint struct {
	user    services.UserID
	version uint64 // of the document that changed
}

// client is a consumer of one channel, and the state that it shows.
type client struct {
	user                services.UserID         // whose badges it watches
	states              <-chan *services.Badges // what Watch returned
	cancel              context.CancelFunc      // ends the watch
	shownVersion        string                  // the newest version that it has, by since or by the channel
	lastReceivedVersion string                  // the newest version that the channel brought
}

// picker chooses what happens next, by a number from 0 to n-1.
type picker interface{ pick(what string, n int) int }

// rapidPicker is a picker that rapid controls.
type rapidPicker struct{ t *rapid.T }

func (d rapidPicker) pick(what string, n int) int { return rapid.IntRange(0, n-1).Draw(d.t, what) }

// randomPicker is a picker with random numbers.
type randomPicker struct{ *rand.Rand }

func (s randomPicker) pick(_ string, n int) int { return s.IntN(n) }

const userCount = 4 // the number of users

func newHubWorld(p picker, l historyOptions) *hubWorld {
	w := &hubWorld{picker: p, historyOptions: l, clock: &manualClock{time.Unix(1_000_000, 0)},
		facts: map[services.UserID]*fact{}, docs: map[services.UserID]document{},
		leasedUsers: map[services.UserID]bool{}, unrenderableUsers: map[services.UserID]bool{}, renderedWithoutRedis: map[services.UserID]bool{}, usersInRender: map[services.UserID]bool{}, usersInLeaseCall: map[services.UserID]bool{},
		versionsOfPastClients: map[services.UserID][]string{}, contentOfVersion: map[string]int{}}
	for user := services.UserID(1); user <= userCount; user++ {
		w.facts[user] = &fact{}
	}
	w.hub = New(Config{DocumentVersions: w.versions, WriteLeases: w.writeLeases, RemoveLeases: w.removeLeasesOf, Render: w.render, Clock: w.clock})
	return w
}

// nextStamp is the time in microseconds, different at each call.
func (w *hubWorld) nextStamp() uint64 {
	w.clock.at = w.clock.at.Add(time.Microsecond)
	return uint64(w.clock.at.UnixMicro())
}

// recordFailure records a violation of what the hub guarantees. Only the first is kept.
func (w *hubWorld) recordFailure(format string, args ...any) {
	if w.firstFailure == nil {
		w.firstFailure = fmt.Errorf(format, args...)
	}
}

// runConcurrentEvents lets events happen while the hub waits for an answer.
func (w *hubWorld) runConcurrentEvents() {
	if w.concurrentEventDepth >= 2 {
		return
	}
	w.concurrentEventDepth++
	for range w.pick("meanwhile", 3) {
		w.runRandomEvent()
	}
	w.concurrentEventDepth--
}

func (w *hubWorld) pickUser() services.UserID {
	return services.UserID(1 + w.pick("user", userCount))
}

// runRandomEvent performs one random event.
func (w *hubWorld) runRandomEvent() {
	switch w.pick("act", 18) {
	case 0, 1, 2:
		w.changeFact(w.pickUser())
	case 3, 4:
		w.watch(w.pickUser())
	case 5:
		w.unwatch()
	case 6, 7, 8:
		w.renderBatch()
	case 9:
		w.advanceClock(time.Duration(1+w.pick("ms", 60)) * time.Millisecond)
	case 10:
		w.advanceClock(time.Duration(1+w.pick("s", 3)) * time.Second)
	case 11:
		w.deliverHint()
	case 12:
		w.reconcileOnce()
	case 13:
		w.receivePendingStates()
	case 14:
		user := w.pickUser()
		f := w.facts[user]
		f.increaseTimes = append(f.increaseTimes, w.clock.at.Add(time.Duration(1+w.pick("moment", 3000))*time.Millisecond))
		w.changeFact(user)
	case 15:
		w.injectFault()
	case 16, 17:
		w.removeQueuedLeases()
	}
}

// changeFact changes a user's fact and, unless Redis is away, projects it into their document, as a job does: see projectFact.
func (w *hubWorld) changeFact(user services.UserID) {
	w.facts[user].number++
	if !w.redisUnavailable {
		w.projectFact(user)
	}
}

// advanceClock moves the clock, and fires the timers that are due.
func (w *hubWorld) advanceClock(d time.Duration) {
	w.clock.at = w.clock.at.Add(d)
	w.hub.fireDueTimers()
}

// renderBatch renders one batch, and reports whether there was one.
func (w *hubWorld) renderBatch() bool {
	var b renderBatch
	return w.hub.render(context.Background(), &b)
}

// reconcileOnce reconciles once, unless a reconciliation is under way.
func (w *hubWorld) reconcileOnce() {
	if w.reconciling {
		return
	}
	w.reconciling = true
	_ = w.hub.reconcile(context.Background())
	w.reconciling = false
}

// removeQueuedLeases takes back the leases of a batch of users without watchers, as the hub's one goroutine for it does.
func (w *hubWorld) removeQueuedLeases() (some bool) {
	if w.removingLeases {
		return false
	}
	w.removingLeases = true
	some = w.hub.removeQueuedLeases(context.Background())
	w.removingLeases = false
	return some
}

// beginLeaseCall checks that neither WriteLeases nor RemoveLeases is under way for users when a call of one begins, and returns the
// function that ends the call.
func (w *hubWorld) beginLeaseCall(call string, users []services.UserID) (end func()) {
	for _, user := range users {
		if w.usersInLeaseCall[user] {
			w.recordFailure("%s of user %d while WriteLeases or RemoveLeases is under way", call, user)
		}
		w.usersInLeaseCall[user] = true
	}
	return func() {
		for _, user := range users {
			delete(w.usersInLeaseCall, user)
		}
	}
}

// watch makes a client of a user watch. The client may hold a version from an earlier watch.
func (w *hubWorld) watch(user services.UserID) {
	if len(w.clients) > 12 {
		return
	}
	c := &client{user: user}
	if held := w.versionsOfPastClients[user]; len(held) > 0 && w.pick("since", 2) == 0 {
		c.shownVersion = held[w.pick("held", len(held))]
	}
	ctx, cancel := context.WithCancel(context.Background())
	c.cancel = cancel
	states, err := w.hub.Watch(ctx, user, c.shownVersion)
	if err != nil {
		w.recordFailure("Watch: %v", err)
	}
	c.states = states
	w.clients = append(w.clients, c)
}

// unwatch ends a client, which receives what is left in its channel.
func (w *hubWorld) unwatch() {
	if len(w.clients) == 0 {
		return
	}
	i := w.pick("client", len(w.clients))
	c := w.clients[i]
	w.clients = append(w.clients[:i:i], w.clients[i+1:]...)
	c.cancel()
	for badges := range c.states { // until it is closed
		w.receiveState(c, badges)
	}
	if c.shownVersion != "" {
		w.versionsOfPastClients[c.user] = append(w.versionsOfPastClients[c.user], c.shownVersion)
	}
}

// receivePendingStates lets each client receive the value in its channel, if there is one.
func (w *hubWorld) receivePendingStates() {
	for _, c := range w.clients {
		select {
		case badges := <-c.states:
			w.receiveState(c, badges)
		default:
		}
	}
}

// receiveState checks that the versions of a client rise.
func (w *hubWorld) receiveState(c *client, badges *services.Badges) {
	if badges.Version <= c.lastReceivedVersion {
		w.recordFailure("a client of user %d got version %s after %s", c.user, badges.Version, c.lastReceivedVersion)
	}
	c.lastReceivedVersion = badges.Version
	c.shownVersion = max(c.shownVersion, badges.Version) // clients drop versions that are not newer
}

// runHistory lets events happen, then waits until all is idle, and returns the first violation.
func (w *hubWorld) runHistory(steps int) error {
	for range steps {
		w.runRandomEvent()
	}
	w.concurrentEventDepth = 2 // no more concurrent events
	w.endRedisOutage()
	clear(w.unrenderableUsers)
	if w.withFaults {
		w.hintsInFlight = nil // lose the hints that are still in flight
	} else {
		for len(w.hintsInFlight) > 0 {
			w.deliverHint()
		}
	}
	w.advanceClock(4 * w.hub.config.ReconcileInterval) // past any delayed retry
	w.runUntilIdle()
	if w.withFaults && w.bug != noReconciliation {
		w.reconcileOnce()
		w.runUntilIdle()
	}
	w.checkClients()
	w.wantEmptyHub()
	return w.firstFailure
}

// wantEmptyHub checks that without watchers there are at once no timers and no leases, and after KeepUnwatchedFor no users.
func (w *hubWorld) wantEmptyHub() {
	for len(w.clients) > 0 {
		w.unwatch()
	}
	if n := len(w.hub.timers); n > 0 {
		w.recordFailure("%d timers are left of those who have gone", n)
	}
	for w.renderBatch() || w.removeQueuedLeases() {
	}
	if len(w.leasedUsers) > 0 {
		w.recordFailure("%d leases are left when the last watcher has gone", len(w.leasedUsers))
	}
	w.advanceClock(w.hub.config.KeepUnwatchedFor)
	w.reconcileOnce()
	if len(w.hub.users)+len(w.hub.reconcileOrder)+len(w.leasedUsers) > 0 {
		w.recordFailure("%d users, %d in the order and %d leases are left of those who have gone", len(w.hub.users), len(w.hub.reconcileOrder), len(w.leasedUsers))
	}
}

// runUntilIdle runs the hub until nothing waits, and advances time as needed.
func (w *hubWorld) runUntilIdle() {
	for range 1000 {
		for w.removeQueuedLeases() || w.renderBatch() {
		}
		wait, some := w.hub.fireDueTimers()
		if !some && len(w.hub.renderQueue) == 0 {
			return
		}
		w.clock.at = w.clock.at.Add(wait)
	}
	w.recordFailure("the hub does not come to rest")
}

// checkClients compares the last state of each client with the facts.
func (w *hubWorld) checkClients() {
	w.receivePendingStates()
	online := map[services.UserID]bool{}
	for _, c := range w.clients {
		online[c.user] = true
		if !w.withFaults && !w.leasedUsers[c.user] {
			w.recordFailure("user %d is watched and has no lease", c.user)
		}
		truth := w.facts[c.user].number
		for _, moment := range w.facts[c.user].increaseTimes {
			if !moment.After(w.clock.at) {
				truth += 1000
			}
		}
		shown, ok := w.contentOfVersion[fmt.Sprint(c.user, " ", c.shownVersion)]
		if !ok || shown != truth {
			w.recordFailure("a client of user %d shows %d (%v) by version %q, the truth is %d", c.user, shown, ok, c.shownVersion, truth)
		}
	}
	if stats := w.hub.Stats(); stats.Watchers != len(w.clients) || stats.OnlineUsers != len(online) {
		w.recordFailure("%+v, want %d watchers and %d online", stats, len(w.clients), len(online))
	}
	if stats := w.hub.Stats(); !w.withFaults && (stats.UsersRepaired != 0 || stats.RenderErrors != 0) {
		w.recordFailure("%+v, want nothing repaired and nothing failed", stats)
	}
}
