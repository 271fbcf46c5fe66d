package push

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"tidings/services"
	"tidings/services/trace"
)

// Hub keeps the watchers of this node. All methods are safe for concurrent use.
//
// mu guards all fields of Hub below mu, and every user and watcher. It is never held during a call of Config's functions, a send
// that may wait, or a callback, so no engine and no consumer can stop the hub.
type Hub struct {
	config Config
	born   time.Time // when the hub was made: the zero of hubTime

	renderSignal       chan struct{} // a token means that renderQueue is not empty
	firstTimerChanged  chan struct{} // a token means that the first timer has changed
	reconcileSignal    chan struct{} // a token means that a reconciliation is due now
	leaseRemovalSignal chan struct{} // a token means that leaseRemovalQueue is not empty

	reconcileMu sync.Mutex // one reconciliation at a time

	mu sync.Mutex // guards the fields below, and every user and watcher
	// users has the users with watchers, and the users whose last watcher left within KeepUnwatchedFor.
	users             map[services.UserID]*user
	reconcileOrder    []*user // the same users, in the order in which reconciliation walks
	renderQueue       []*user // to be rendered, in the order of arrival
	leaseRemovalQueue []*user // to lose their leases, in the order in which their last watchers left
	timers            timers  // the users to wake at a later time, the earliest first
	retryFailedUsers  bool    // the next reconciliation tries failed users even before their turn
	sampleIndex       int     // the index in reconcileOrder of the user that queueSampledUsers looked at last
	sampleRemainder   int     // the part of a user that is due for queueSampledUsers, in units of 1/Config.CompareOneUserIn
	draining          bool    // Drain was called: there are no new watchers
	stats             Stats
}

// New makes a hub. Nothing is sent until Run runs.
func New(config Config) *Hub {
	config = config.withDefaults()
	return &Hub{
		config:             config,
		born:               config.Clock.Now(),
		renderSignal:       make(chan struct{}, renderWorkers),
		firstTimerChanged:  make(chan struct{}, 1),
		reconcileSignal:    make(chan struct{}, 1),
		leaseRemovalSignal: make(chan struct{}, 1),
		users:              make(map[services.UserID]*user),
	}
}

// Run serves the watchers until ctx ends. It then closes all channels and takes back the leases of all users, which takes 2 s at
// most. It runs once, and its error is always nil.
func (h *Hub) Run(ctx context.Context) error {
	group, ctx := errgroup.WithContext(ctx)
	for range renderWorkers {
		group.Go(func() error { return h.runWorker(ctx) })
	}
	group.Go(func() error { return h.runTimers(ctx) })
	group.Go(func() error { return h.runReconciliations(ctx) })
	group.Go(func() error { return h.runLeaseRemovals(ctx) })
	// Drain and removeAllLeases come after the end of all goroutines: then no worker puts a state into a channel that Drain closes,
	// and removeAllLeases misses no running WriteLeases.
	err := group.Wait()
	h.Drain()
	h.removeAllLeases(context.WithoutCancel(ctx))
	return err
}

// runTimers wakes users at their times. One time.Timer serves all: it is set to the earliest time in Hub.timers.
func (h *Hub) runTimers(ctx context.Context) error {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		var alarm <-chan time.Time
		if wait, some := h.fireDueTimers(); some {
			timer.Reset(wait)
			alarm = timer.C
		}
		select {
		case <-ctx.Done():
			return nil
		case <-alarm:
		case <-h.firstTimerChanged:
		}
	}
}

// Watch opens a channel with the state of a user: first the full state, unless since is as new, then each newer version; a
// slow consumer gets only the newest. since is the version that the client holds, or "". States in the channel are shared
// and must not be changed. The channel is closed when ctx ends (with WithConsumer, when the consumer ends it) or the hub drains.
// Watch never waits for an engine: a state that cannot be read now arrives when it can.
//
// ctx should descend from the context package's own kinds: another implementation costs a goroutine.
//
// The error is INVALID if since is not a version, UNAVAILABLE if the hub drains.
func (h *Hub) Watch(ctx context.Context, id services.UserID, since string) (<-chan *services.Badges, error) {
	if err := h.checkSince(id, since); err != nil {
		return nil, err
	}
	w := &watcher{hub: h, slot: newLatestSlot[*services.Badges](since), consumer: consumerFrom(ctx)}
	h.mu.Lock()
	if h.draining {
		h.mu.Unlock()
		return nil, &services.Error{Code: services.Unavailable, RetryAfter: time.Second,
			Message: "this server is closing: subscribe again, and another one answers"}
	}
	// The user is in the map before the state is read: a hint from here on finds the user.
	w.user = h.findOrAddUser(id)
	h.addWatcher(w.user, w)
	h.mu.Unlock()
	// If ctx or the consumer has ended already, the watcher ends at once.
	if w.consumer == nil {
		context.AfterFunc(ctx, w.End)
	} else {
		w.consumer.OnEnd(w)
	}
	return w.slot.values, nil
}

// WatchWithFirstState opens a channel with the state of a user, as Watch does, but sends the first state even if the client holds it:
// since is only checked, and reported to Config.NoteClientVersion.
func (h *Hub) WatchWithFirstState(ctx context.Context, id services.UserID, since string) (<-chan *services.Badges, error) {
	if err := h.checkSince(id, since); err != nil {
		return nil, err
	}
	return h.Watch(ctx, id, "")
}

// checkSince checks the version that a client holds, and reports it to NoteClientVersion.
func (h *Hub) checkSince(id services.UserID, since string) error {
	if since != "" && !isVersion(since) {
		return services.Errorf(services.Invalid,
			"since: %s is not a version: expected the version of badges, 16 digits, '.' and 16 digits", services.Quote(since))
	}
	if since != "" && h.config.NoteClientVersion != nil {
		h.config.NoteClientVersion(id, since)
	}
	return nil
}

// End ends a watcher whose context or consumer has ended. Drain may have ended it before.
func (w *watcher) End() {
	w.hub.mu.Lock()
	w.hub.removeWatcher(w.user, w, w.hub.now())
	w.hub.mu.Unlock()
	w.close()
}

// Hint says that a user's document is now at n. It never blocks. A hint is not a state: a lost, late or doubled hint does no
// harm, and a hint about a user who is not watched here has no effect. The span of the push belongs to the trace of the cause.
func (h *Hub) Hint(id services.UserID, n uint64, cause trace.Cause) {
	h.mu.Lock()
	defer h.mu.Unlock()
	// A state that was rendered already needs no hint: the hint was slow, and the last render has read its change.
	if u := h.users[id]; u != nil && len(u.watchers) > 0 && n > u.renderedVersion {
		u.cause = cause
		h.markDirty(u, h.now())
	}
}

// HintSharedContent reports that content shared by all badges changed: every watched user is read again, and is sent changes no
// more often than usual. It never waits for an engine.
func (h *Hub) HintSharedContent() {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.now()
	// This includes users who wait for their turn: they are marked, and read once.
	for _, u := range h.reconcileOrder {
		if len(u.watchers) > 0 {
			h.markDirtyForSharedChange(u, now)
		}
	}
}

// markDirtyForSharedChange makes sure that a user is read again after a change of shared content. A user whose render failed may have
// failed for lack of this change, so the next reconciliation tries them.
func (h *Hub) markDirtyForSharedChange(u *user, now hubTime) {
	if u.phase == phaseFailed {
		u.retryAt = min(u.retryAt, now)
	}
	h.markDirty(u, now)
}

// HintSharedContentOf reports that content that these users share changed: those of them who are watched here are read again.
func (h *Hub) HintSharedContentOf(users []services.UserID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.now()
	for _, id := range users {
		if u := h.users[id]; u != nil && len(u.watchers) > 0 {
			h.markDirtyForSharedChange(u, now)
		}
	}
}

// ReconcileAll reports that hints may have been lost. It starts a reconciliation, which checks every user.
func (h *Hub) ReconcileAll() {
	h.mu.Lock()
	h.retryFailedUsers = true
	h.mu.Unlock()
	services.Signal(h.reconcileSignal)
}

// Drain refuses new watchers and closes all channels. Values in the channels can still be received. The leases stay until Run ends.
func (h *Hub) Drain() {
	h.mu.Lock()
	h.draining = true
	now := h.now()
	// removeWatcher changes the lists of watchers, so the watchers are copied first.
	open := make([]*watcher, 0, h.stats.Watchers)
	for _, u := range h.reconcileOrder {
		open = append(open, u.watchers...)
	}
	for _, w := range open {
		h.removeWatcher(w.user, w, now)
	}
	h.mu.Unlock()
	for _, w := range open {
		w.close()
	}
}

// Stats reads the hub's counters.
func (h *Hub) Stats() Stats {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.stats
}
