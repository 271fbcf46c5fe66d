package push

import (
	"slices"
	"time"

	"tidings/services"
	"tidings/services/trace"
)

// moment is the time since the hub was made. It is monotonic: setting the machine's clock does not change it, unlike a
// comparison of dates.
type moment = time.Duration

// phase is the step of a user on the way from a hint to a state in the channels.
type phase uint8

const (
	clean     phase = iota // nothing is to be done; a timer may be set for NextAt
	waiting                // dirty, and too soon after the last change: their timer is set to nextSendAt
	queued                 // in Hub.ready
	rendering              // with a worker
	failed                 // the render failed: reconciliation queues the user again
)

// user is a user with watchers on this node, or one whose watchers left just now. Hub.mu guards it. A node may have hundreds
// of thousands of them: fields are small, and indexes are 32 bits.
type user struct {
	watchers []*watcher
	number   services.UserID
	place    int32 // index in Hub.order
	timer    int32 // index in Hub.timers, or noTimer
	// phase says where the user is: in no list, in the heap, in Hub.ready, with a worker, or with reconciliation. A user is
	// in one place only, so they are never read twice at the same time.
	phase          phase
	failures       uint8       // renders that failed in a row
	renderAgain    bool        // while rendering: the state in flight may already be stale
	changed        bool        // queued for a change, not only for the first state of a watcher
	entered        bool        // Enter was sent, and nothing since suggests that it failed or that Redis forgot the lease
	leased         bool        // Enter was sent, and Leave not answered since
	entering       int8        // Enter calls under way
	leaving        bool        // Leave is under way
	released       bool        // in Hub.released
	rendered       uint64      // the user's half of the last rendered version, even if it was too old to be sent
	learned        uint64      // this node's sequence of shared changes at that render
	renderedShared uint64      // shared half of the last rendered version
	renderedHash   uint64      // of the last rendered state, see hashVisible
	fromClock      bool        // the last rendered version came from a clock; the version in Redis may be lower and still correct
	wakeAt         moment      // the time of their timer
	nextSendAt     moment      // no change is sent before it
	enterSentAt    moment      // when Enter was last sent
	retryAt        moment      // if failed: when reconciliation tries again
	leftAt         moment      // without watchers: when the last one left
	cause          trace.Cause // the last span whose change is not rendered yet
}

// stage is the progress of serving a watcher.
type stage uint8

const (
	arrived stage = iota // no render has begun since the watcher arrived; a render in flight may have read too early
	asked                // a render has begun and will bring the watcher's first state
	served               // has their first state
)

// watcher is one open channel. Hub.mu guards stage.
type watcher struct {
	hub      *Hub
	slot     slot[*services.Badges]
	user     *user
	consumer services.Consumer // may be nil
	stage    stage
}

// close closes the channel, and wakes the consumer once for it. The hub's lock is not held.
func (w *watcher) close() {
	if w.slot.close() && w.consumer != nil {
		w.consumer.Wake()
	}
}

// now is the present moment.
func (h *Hub) now() moment { return h.config.Clock.Now().Sub(h.born) }

// findOrAddUser finds or adds a user. The caller holds mu and adds a watcher to the user.
func (h *Hub) findOrAddUser(number services.UserID) *user {
	if u := h.users[number]; u != nil {
		return u
	}
	u := &user{number: number, place: int32(len(h.order)), timer: noTimer}
	h.users[number] = u
	h.order = append(h.order, u)
	return u
}

// remove forgets a user. The last user of the order takes their index. Reconciliation walks down, so it misses nobody.
func (h *Hub) remove(u *user) {
	last := len(h.order) - 1
	h.order[u.place] = h.order[last]
	h.order[u.place].place = u.place
	// Without the pointer the garbage collector can free the user.
	h.order[last] = nil
	h.order = h.order[:last]
	delete(h.users, u.number)
	h.stopTimer(u)
}

// addWatcher adds a watcher. Its first state is read at once: throttling, which delays the user's other watchers, does not delay it.
func (h *Hub) addWatcher(u *user, w *watcher) {
	if len(u.watchers) == 0 {
		h.stats.Online++
	}
	h.stats.Watchers++
	u.watchers = append(u.watchers, w)
	// In any other phase a render is coming. If it has begun already, another one after it serves the watcher: see arrived.
	if u.phase == clean || u.phase == waiting {
		h.queue(u)
	}
}

// removeWatcher removes a watcher, if it is still there. A user without watchers waits for their removal: see removeGone.
func (h *Hub) removeWatcher(u *user, w *watcher, now moment) {
	i := slices.Index(u.watchers, w)
	if i < 0 {
		return
	}
	u.watchers = slices.Delete(u.watchers, i, i+1)
	h.stats.Watchers--
	if len(u.watchers) == 0 {
		u.watchers = nil
		h.stats.Online--
		h.cancelWork(u, now)
		// The user's map entry stays for Linger: a client that reconnects finds the same throttle and version.
		h.release(u)
	}
}

// cancelWork cancels all pending work for a user without watchers: the next watcher causes a new read anyway.
func (h *Hub) cancelWork(u *user, now moment) {
	u.leftAt = now
	u.renderAgain, u.changed = false, false
	u.failures = 0
	h.stopTimer(u)
	if u.phase == waiting || u.phase == failed {
		u.phase = clean
	}
}

// markDirty makes sure that a user is read again after now: at once, or when they are due.
func (h *Hub) markDirty(u *user, now moment) {
	switch u.phase {
	case clean:
		u.changed = true
		// A first change after a rest goes at once.
		if now >= u.nextSendAt {
			h.queue(u)
			return
		}
		u.phase = waiting
		h.startTimer(u, u.nextSendAt)
	// The worker may have read before this change: decidePhase then makes the user dirty again.
	case rendering:
		u.renderAgain = true
	case waiting, queued, failed: // they will be read anyway
	}
}

// queue hands a user to the workers.
func (h *Hub) queue(u *user) {
	h.stopTimer(u)
	u.phase = queued
	h.ready = append(h.ready, u)
	signal(h.work)
}

// signal leaves a token, unless the channel is full.
func signal(tokens chan<- struct{}) {
	select {
	case tokens <- struct{}{}:
	default:
	}
}
