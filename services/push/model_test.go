package push

import (
	"context"
	"fmt"
	"math/rand/v2"
	"time"

	"pgregory.net/rapid"

	"tidings/services"
)

// world is a hub, its surroundings, and users who act in an order that a picker chooses. It is single-threaded, so that a
// history can be repeated and shrunk. Concurrent events happen inside the calls that the hub makes, before and after each
// takes effect.
type world struct {
	picker
	limits
	hub   *Hub
	clock *manualClock

	facts  map[services.UserID]*fact
	docs   map[services.UserID]document // what Redis holds
	leased map[services.UserID]bool     // the users to whom hints go

	away      bool                     // Redis does not answer
	broken    map[services.UserID]bool // users whose documents cannot be rendered
	fromClock map[services.UserID]bool // whether a user was rendered without Redis
	hints     []hint                   // in flight
	clients   []*client
	held      map[services.UserID][]string // versions that clients left with
	content   map[string]int               // what each version showed: equal version, equal content
	late      []func()                     // effects that an injected bug delays
	depth     int                          // how many calls of meanwhile are nested
	sweeping  bool                         // a reconciliation is under way
	leaving   bool                         // a call of leaveReleased is under way
	calling   map[services.UserID]bool     // users whose Enter or Leave is under way
	reading   map[services.UserID]bool     // users being rendered
	failure   error                        // the first one that recordFailure was given
}

// limits defines which events may happen, and which bug is injected.
type limits struct {
	faults bool // hints are lost, Redis fails and loses data, renders fail; otherwise reconciliation is prevented from repairing
	bug    bug
}

// bug is a bug that a test injects, to see whether the histories find it.
type bug string

const (
	noBug        bug = ""
	noSweep      bug = "nobody sweeps"
	lateEnter    bug = "the state is read before the lease is written"
	lateLeave    bug = "a lease is taken back later than the hub believes"
	deafInRender bug = "a hint during a render is dropped"
)

// fact is the truth about a user: a number, and moments at each of which time alone adds 1,000 to it.
type fact struct {
	number  int
	moments []time.Time
}

// document is what Redis holds of a user: n is its version, and number is its copy of fact.number.
type document struct {
	n      uint64
	number int
}

// hint is a hint on its way to the hub.
type hint struct {
	user services.UserID
	n    uint64
}

// client is a consumer of one channel, and the state that it shows.
type client struct {
	user    services.UserID
	states  <-chan *services.Badges
	cancel  context.CancelFunc
	version string // the newest version that it has, by since or by the channel
	last    string // the newest version that the channel brought
}

// picker chooses what happens next, by a number from 0 to n-1.
type picker interface{ pick(what string, n int) int }

// drawn is a picker that rapid controls.
type drawn struct{ t *rapid.T }

func (d drawn) pick(what string, n int) int { return rapid.IntRange(0, n-1).Draw(d.t, what) }

// seeded is a picker with random numbers.
type seeded struct{ *rand.Rand }

func (s seeded) pick(_ string, n int) int { return s.IntN(n) }

const userCount = 4 // the number of users

func newWorld(p picker, l limits) *world {
	w := &world{picker: p, limits: l, clock: &manualClock{time.Unix(1_000_000, 0)},
		facts: map[services.UserID]*fact{}, docs: map[services.UserID]document{},
		leased: map[services.UserID]bool{}, broken: map[services.UserID]bool{}, fromClock: map[services.UserID]bool{}, reading: map[services.UserID]bool{}, calling: map[services.UserID]bool{},
		held: map[services.UserID][]string{}, content: map[string]int{}}
	for user := services.UserID(1); user <= userCount; user++ {
		w.facts[user] = &fact{}
	}
	w.hub = New(Config{Versions: w.versions, Enter: w.enter, Leave: w.leave, Render: w.render, Clock: w.clock})
	return w
}

// stamp is the time in microseconds, different at each call.
func (w *world) stamp() uint64 {
	w.clock.at = w.clock.at.Add(time.Microsecond)
	return uint64(w.clock.at.UnixMicro())
}

// recordFailure keeps the first violation.
func (w *world) recordFailure(format string, args ...any) {
	if w.failure == nil {
		w.failure = fmt.Errorf(format, args...)
	}
}

// meanwhile lets events happen while the hub waits for an answer.
func (w *world) meanwhile() {
	if w.depth >= 2 {
		return
	}
	w.depth++
	for range w.pick("meanwhile", 3) {
		w.act()
	}
	w.depth--
}

func (w *world) someone() services.UserID {
	return services.UserID(1 + w.pick("user", userCount))
}

// act performs one random event.
func (w *world) act() {
	switch w.pick("act", 18) {
	case 0, 1, 2:
		w.change(w.someone())
	case 3, 4:
		w.watch(w.someone())
	case 5:
		w.unwatch()
	case 6, 7, 8:
		w.work()
	case 9:
		w.pass(time.Duration(1+w.pick("ms", 60)) * time.Millisecond)
	case 10:
		w.pass(time.Duration(1+w.pick("s", 3)) * time.Second)
	case 11:
		w.deliverHint()
	case 12:
		w.sweep()
	case 13:
		w.consumeAll()
	case 14:
		user := w.someone()
		f := w.facts[user]
		f.moments = append(f.moments, w.clock.at.Add(time.Duration(1+w.pick("moment", 3000))*time.Millisecond))
		w.change(user)
	case 15:
		w.fault()
	case 16, 17:
		w.leaveNow()
	}
}

// change writes a fact, its job, and the hint that the job sends if the user has a lease.
func (w *world) change(user services.UserID) {
	w.facts[user].number++
	if !w.away {
		w.carry(user)
	}
}

// pass moves the clock, and fires the timers that are due.
func (w *world) pass(d time.Duration) {
	w.clock.at = w.clock.at.Add(d)
	w.hub.fire()
}

// work renders one batch, and reports whether there was one.
func (w *world) work() bool {
	var b batch
	return w.hub.render(context.Background(), &b)
}

// sweep reconciles once, unless a reconciliation is under way.
func (w *world) sweep() {
	if w.sweeping {
		return
	}
	w.sweeping = true
	_ = w.hub.sweep(context.Background())
	w.sweeping = false
}

// leaveNow takes back the leases of a batch of users without watchers, as the hub's one goroutine for it does.
func (w *world) leaveNow() (some bool) {
	if w.leaving {
		return false
	}
	w.leaving = true
	some = w.hub.leaveReleased(context.Background())
	w.leaving = false
	return some
}

// beginCall checks that neither Enter nor Leave is under way for users when a call of one begins, and returns the function that ends
// the call.
func (w *world) beginCall(call string, users []services.UserID) (end func()) {
	for _, user := range users {
		if w.calling[user] {
			w.recordFailure("%s of user %d while Enter or Leave is under way", call, user)
		}
		w.calling[user] = true
	}
	return func() {
		for _, user := range users {
			delete(w.calling, user)
		}
	}
}

// watch makes a client of a user watch. The client may hold a version from an earlier watch.
func (w *world) watch(user services.UserID) {
	if len(w.clients) > 12 {
		return
	}
	c := &client{user: user}
	if held := w.held[user]; len(held) > 0 && w.pick("since", 2) == 0 {
		c.version = held[w.pick("held", len(held))]
	}
	ctx, cancel := context.WithCancel(context.Background())
	c.cancel = cancel
	states, err := w.hub.Watch(ctx, user, c.version)
	if err != nil {
		w.recordFailure("Watch: %v", err)
	}
	c.states = states
	w.clients = append(w.clients, c)
}

// unwatch ends a client, which receives what is left in its channel.
func (w *world) unwatch() {
	if len(w.clients) == 0 {
		return
	}
	i := w.pick("client", len(w.clients))
	c := w.clients[i]
	w.clients = append(w.clients[:i:i], w.clients[i+1:]...)
	c.cancel()
	for badges := range c.states { // until it is closed
		w.receive(c, badges)
	}
	if c.version != "" {
		w.held[c.user] = append(w.held[c.user], c.version)
	}
}

// consumeAll lets each client receive the value in its channel, if there is one.
func (w *world) consumeAll() {
	for _, c := range w.clients {
		select {
		case badges := <-c.states:
			w.receive(c, badges)
		default:
		}
	}
}

// receive checks that the versions of a client rise.
func (w *world) receive(c *client, badges *services.Badges) {
	if badges.Version <= c.last {
		w.recordFailure("a client of user %d got version %s after %s", c.user, badges.Version, c.last)
	}
	c.last = badges.Version
	c.version = max(c.version, badges.Version) // clients drop versions that are not newer
}

// history lets events happen, then waits until all is idle, and returns the first violation.
func (w *world) history(steps int) error {
	for range steps {
		w.act()
	}
	w.depth = 2 // no more concurrent events
	w.endAbsence()
	clear(w.broken)
	if w.faults {
		w.hints = nil // lose the hints that are still in flight
	} else {
		for len(w.hints) > 0 {
			w.deliverHint()
		}
	}
	w.pass(4 * w.hub.config.Sweep) // past any delayed retry
	w.untilIdle()
	if w.faults && w.bug != noSweep {
		w.sweep()
		w.untilIdle()
	}
	w.check()
	w.wantNothingLeft()
	return w.failure
}

// wantNothingLeft checks that without watchers there are at once no timers and no leases, and after Linger no users.
func (w *world) wantNothingLeft() {
	for len(w.clients) > 0 {
		w.unwatch()
	}
	if n := len(w.hub.timers); n > 0 {
		w.recordFailure("%d timers are left of those who have gone", n)
	}
	for w.work() || w.leaveNow() {
	}
	if len(w.leased) > 0 {
		w.recordFailure("%d leases are left when the last watcher has gone", len(w.leased))
	}
	w.pass(w.hub.config.Linger)
	w.sweep()
	if len(w.hub.users)+len(w.hub.order)+len(w.leased) > 0 {
		w.recordFailure("%d users, %d in the order and %d leases are left of those who have gone", len(w.hub.users), len(w.hub.order), len(w.leased))
	}
}

// untilIdle runs the hub until nothing waits, and advances time as needed.
func (w *world) untilIdle() {
	for range 1000 {
		for w.leaveNow() || w.work() {
		}
		wait, some := w.hub.fire()
		if !some && len(w.hub.ready) == 0 {
			return
		}
		w.clock.at = w.clock.at.Add(wait)
	}
	w.recordFailure("the hub does not come to rest")
}

// check compares the last state of each client with the facts.
func (w *world) check() {
	w.consumeAll()
	online := map[services.UserID]bool{}
	for _, c := range w.clients {
		online[c.user] = true
		if !w.faults && !w.leased[c.user] {
			w.recordFailure("user %d is watched and has no lease", c.user)
		}
		truth := w.facts[c.user].number
		for _, moment := range w.facts[c.user].moments {
			if !moment.After(w.clock.at) {
				truth += 1000
			}
		}
		shown, ok := w.content[fmt.Sprint(c.user, " ", c.version)]
		if !ok || shown != truth {
			w.recordFailure("a client of user %d shows %d (%v) by version %q, the truth is %d", c.user, shown, ok, c.version, truth)
		}
	}
	if stats := w.hub.Stats(); stats.Watchers != len(w.clients) || stats.Online != len(online) {
		w.recordFailure("%+v, want %d watchers and %d online", stats, len(w.clients), len(online))
	}
	if stats := w.hub.Stats(); !w.faults && (stats.Repairs != 0 || stats.RenderErrors != 0) {
		w.recordFailure("%+v, want nothing repaired and nothing failed", stats)
	}
}
