package push

import (
	"slices"
	"time"

	"tidings/services"
	"tidings/services/trace"
)

// hubTime is the time since the hub was made. It is monotonic: setting the machine's clock does not change it, unlike a
// comparison of dates.
type hubTime = time.Duration

// phase is the step of a user on the way from a hint to a state in the channels.
type phase uint8

const (
	phaseClean     phase = iota // nothing is to be done; a timer may be set for NextAt
	phaseWaiting                // dirty, and too soon after the last change: their timer is set to nextSendAt
	phaseQueued                 // in Hub.renderQueue
	phaseRendering              // with a worker
	phaseFailed                 // the render failed: reconciliation queues the user again
)

// user is a user with watchers on this node, or one whose watchers left just now. Hub.mu guards it. A node may have hundreds
// of thousands of them: fields are small, and indexes are 32 bits.
type user struct {
	watchers   []*watcher
	id         services.UserID
	orderIndex int32 // index in Hub.reconcileOrder
	timerIndex int32 // index in Hub.timers, or noTimer
	// phase says where the user is: in no list, in the heap, in Hub.renderQueue, with a worker, or with reconciliation. A user is
	// in one place only, so they are never read twice at the same time.
	phase                 phase
	failures              uint8       // renders that failed in a row
	renderAgain           bool        // while rendering: the state in flight may already be stale
	queuedForChange       bool        // queued for a change, not only for the first state of a watcher
	leaseWritten          bool        // WriteLeases was called, and nothing since suggests that the lease is missing
	mayHaveLease          bool        // WriteLeases was called, and RemoveLeases not answered since
	leaseWritesInFlight   int8        // calls of WriteLeases under way
	leaseRemovalInFlight  bool        // RemoveLeases is under way
	inLeaseRemovalQueue   bool        // in Hub.leaseRemovalQueue
	renderedVersion       uint64      // document half of the last rendered version, even if it was too old to be sent
	renderedSequence      uint64      // this node's sequence of shared changes at that render
	renderedSharedVersion uint64      // shared half of the last rendered version
	renderedHash          uint64      // of the last rendered state, see hashVisible
	versionFromClock      bool        // the last rendered version came from a clock; Redis may correctly have a lower one
	wakeAt                hubTime     // the time of their timer
	nextSendAt            hubTime     // no change is sent before it
	leaseSentAt           hubTime     // when WriteLeases was last called
	retryAt               hubTime     // if failed: when reconciliation tries again
	lastWatcherLeftAt     hubTime     // without watchers: when the last one left
	cause                 trace.Cause // the span of the last hint whose change is not rendered yet
}

// stage is the progress of serving a watcher.
type stage uint8

const (
	stageArrived       stage = iota // no render has begun since the watcher arrived; a render in flight may have read too early
	stageRenderBegun                // a render has begun and will bring the watcher's first state
	stageHasFirstState              // has their first state
)

// watcher is one open channel. Hub.mu guards stage.
type watcher struct {
	hub      *Hub
	slot     latestSlot[*services.Badges] // the channel
	user     *user                        // whose badges are watched
	consumer services.ChannelConsumer     // may be nil
	stage    stage                        // how far the watcher's first state is
}

// close closes the channel, and wakes the consumer once for it. The hub's lock is not held.
func (w *watcher) close() {
	if w.slot.close() && w.consumer != nil {
		w.consumer.Wake()
	}
}

// now is the present moment.
func (h *Hub) now() hubTime { return h.config.Clock.Now().Sub(h.born) }

// findOrAddUser finds or adds a user. The caller holds mu and adds a watcher to the user.
func (h *Hub) findOrAddUser(id services.UserID) *user {
	if u := h.users[id]; u != nil {
		return u
	}
	u := &user{id: id, orderIndex: int32(len(h.reconcileOrder)), timerIndex: noTimer}
	h.users[id] = u
	h.reconcileOrder = append(h.reconcileOrder, u)
	return u
}

// remove forgets a user. The last user of the order takes their index. Reconciliation walks down, so it misses nobody.
func (h *Hub) remove(u *user) {
	last := len(h.reconcileOrder) - 1
	h.reconcileOrder[u.orderIndex] = h.reconcileOrder[last]
	h.reconcileOrder[u.orderIndex].orderIndex = u.orderIndex
	// Without the pointer the garbage collector can free the user.
	h.reconcileOrder[last] = nil
	h.reconcileOrder = h.reconcileOrder[:last]
	delete(h.users, u.id)
	h.stopTimer(u)
}

// addWatcher adds a watcher. Its first state is read at once: throttling, which delays the user's other watchers, does not delay it.
func (h *Hub) addWatcher(u *user, w *watcher) {
	if len(u.watchers) == 0 {
		h.stats.OnlineUsers++
	}
	h.stats.Watchers++
	u.watchers = append(u.watchers, w)
	// In any other phase a render is coming. If it has begun already, another one after it serves the watcher: see stageArrived.
	if u.phase == phaseClean || u.phase == phaseWaiting {
		h.queueRender(u)
	}
}

// removeWatcher removes a watcher, if it is still there. A user without watchers loses their lease at once, and is removed after
// KeepUnwatchedFor: see removeUnwatched.
func (h *Hub) removeWatcher(u *user, w *watcher, now hubTime) {
	i := slices.Index(u.watchers, w)
	if i < 0 {
		return
	}
	u.watchers = slices.Delete(u.watchers, i, i+1)
	h.stats.Watchers--
	if len(u.watchers) == 0 {
		u.watchers = nil
		h.stats.OnlineUsers--
		h.cancelWork(u, now)
		// The user's map entry stays for KeepUnwatchedFor: a client that reconnects finds the same throttle and version.
		h.queueLeaseRemoval(u)
	}
}

// cancelWork cancels all pending work for a user without watchers: the next watcher causes a new read anyway.
func (h *Hub) cancelWork(u *user, now hubTime) {
	u.lastWatcherLeftAt = now
	u.renderAgain, u.queuedForChange = false, false
	u.failures = 0
	h.stopTimer(u)
	if u.phase == phaseWaiting || u.phase == phaseFailed {
		u.phase = phaseClean
	}
}

// markDirty makes sure that a user is read again after now: at once, or when they are due.
func (h *Hub) markDirty(u *user, now hubTime) {
	switch u.phase {
	case phaseClean:
		u.queuedForChange = true
		// A first change after a rest goes at once.
		if now >= u.nextSendAt {
			h.queueRender(u)
			return
		}
		u.phase = phaseWaiting
		h.startTimer(u, u.nextSendAt)
	// The worker may have read before this change: decidePhase then makes the user dirty again.
	case phaseRendering:
		u.renderAgain = true
	case phaseWaiting, phaseQueued, phaseFailed: // they will be read anyway
	}
}

// queueRender hands a user to the workers.
func (h *Hub) queueRender(u *user) {
	h.stopTimer(u)
	u.phase = phaseQueued
	h.renderQueue = append(h.renderQueue, u)
	services.Signal(h.renderSignal)
}
