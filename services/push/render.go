package push

import (
	"context"
	"errors"

	"tidings/services"
	"tidings/services/trace"
)

// renderBatch is the work of a worker: users who are read together. A worker reuses its batch.
type renderBatch struct {
	users           []*user                    // at most maxUsersPerRender
	ids             []services.UserID          // the IDs of users
	needLease       []*user                    // those of users whose lease must be written first
	queuedForChange []bool                     // user.queuedForChange of each user, when the batch was taken
	consumersToWake []services.ChannelConsumer // the consumers to wake

	causes []trace.Cause // the spans of the changes for which the users are read

	conflictingUsers []services.UserID // users with two states of one version
	shownVersions    []uint64          // the document half of that version, for each of conflictingUsers
}

// runWorker renders batches until ctx ends. Several workers take from one list, so a slow read of one batch does not stop the
// others.
func (h *Hub) runWorker(ctx context.Context) error {
	var b renderBatch
	for ctx.Err() == nil {
		if h.render(ctx, &b) {
			continue
		}
		select {
		case <-ctx.Done():
		case <-h.renderSignal:
		}
	}
	return nil
}

// render serves one batch of queued users: it writes the leases that are due, reads, and sends. It reports whether
// there were any.
func (h *Hub) render(ctx context.Context, b *renderBatch) bool {
	h.takeQueued(b)
	if len(b.users) == 0 {
		return false
	}
	ctx, span := trace.StartFrom(ctx, b.causes, "push", "")
	span.SetCount(len(b.users))
	defer func() { span.End(nil) }()
	// The leases are written before the read, so that a change after the read sends a hint. If that fails, reconciliation reports
	// the failure.
	_ = h.writeLeases(ctx, b.needLease)
	// A batch that hangs must not hold its worker: its users fail, and reconciliation tries them again.
	limited, cancel := context.WithTimeout(ctx, renderTimeout)
	badges, errs := h.renderUsers(limited, b.ids)
	cancel()
	h.finishRender(ctx, b, badges, errs)
	return true
}

// renderUsers reads the states of users. A panic does not say whose state is at fault, so each user is then read alone: the others
// get their states, and the one at fault fails as if an engine did not answer.
func (h *Hub) renderUsers(ctx context.Context, users []services.UserID) (badges []*services.Badges, errs []error) {
	badges, errs, err := h.tryRender(ctx, users)
	if err == nil {
		return badges, errs
	}
	if len(users) == 1 {
		h.config.Log.Error("badges could not be rendered because of a panic", "error", err)
		return []*services.Badges{nil}, []error{errPanicked}
	}
	badges, errs = make([]*services.Badges, len(users)), make([]error, len(users))
	for i := range users {
		one, failed := h.renderUsers(ctx, users[i:i+1])
		badges[i], errs[i] = elementAt(one, 0), elementAt(failed, 0)
	}
	return badges, errs
}

// tryRender calls Render once. err is the error of a panic of Render.
func (h *Hub) tryRender(ctx context.Context, users []services.UserID) (badges []*services.Badges, errs []error, err error) {
	defer services.Recover(&err)
	badges, errs = h.config.Render(ctx, users)
	return badges, errs, nil
}

// takeQueued fills b with queued users and marks them as rendering.
func (h *Hub) takeQueued(b *renderBatch) {
	b.users, b.ids, b.needLease = b.users[:0], b.ids[:0], b.needLease[:0]
	b.queuedForChange, b.consumersToWake = b.queuedForChange[:0], b.consumersToWake[:0]
	b.conflictingUsers, b.shownVersions, b.causes = b.conflictingUsers[:0], b.shownVersions[:0], b.causes[:0]
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.now()
	taken := 0
	for _, u := range h.renderQueue {
		if len(b.users) == maxUsersPerRender {
			break
		}
		h.renderQueue[taken] = nil
		taken++
		// The last watcher left while the user was queued.
		if len(u.watchers) == 0 {
			u.phase = phaseClean
			continue
		}
		u.phase = phaseRendering
		for _, w := range u.watchers {
			if w.stage == stageArrived {
				// The read begins after this point, so its state is new enough to be the watcher's first.
				w.stage = stageRenderBegun
			}
		}
		b.needLease = h.appendIfLeaseDue(b.needLease, u, now)
		b.users = append(b.users, u)
		b.ids = append(b.ids, u.id)
		b.queuedForChange = append(b.queuedForChange, u.queuedForChange)
		// The batch takes over the change: a change from here on counts for the next render.
		u.queuedForChange = false
		b.causes = append(b.causes, u.cause)
		u.cause = trace.Cause{}
	}
	h.renderQueue = h.renderQueue[taken:]
}

// errPanicked is the error of a user whose render has panicked. The log has the panic in a line of its own.
var errPanicked = errors.New("push: Render panicked")

var errNoState = errors.New("push: Render gave neither a state nor an error")

// finishRender sends the rendered states. The callbacks run last, when nothing is locked.
func (h *Hub) finishRender(ctx context.Context, b *renderBatch, badges []*services.Badges, errs []error) {
	var failures int
	var cause error
	h.mu.Lock()
	now := h.now()
	for i, u := range b.users {
		state, err := elementAt(badges, i), elementAt(errs, i)
		if err == nil && state == nil {
			err = errNoState
		}
		if err != nil {
			failures++
			cause = err
			h.markFailed(u, now)
			continue
		}
		h.deliver(b, u, b.queuedForChange[i], state, now)
	}
	h.stats.RenderErrors += uint64(failures)
	h.mu.Unlock()
	// There is one line for a batch: when an engine is away, all users of the batch fail.
	if failures > 0 && ctx.Err() == nil {
		h.config.Log.Warn("badges could not be rendered for open subscriptions; reconciliation tries again",
			"users", failures, "of", len(b.users), "cause", cause)
	}
	for i, consumer := range b.consumersToWake {
		consumer.Wake()
		b.consumersToWake[i] = nil
	}
	h.raiseConflictingVersions(ctx, b)
}

// raiseConflictingVersions asks for newer versions of the documents of users with two states of one version.
func (h *Hub) raiseConflictingVersions(ctx context.Context, b *renderBatch) {
	if len(b.conflictingUsers) == 0 || h.config.RaiseVersions == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, redisCallTimeout)
	defer cancel()
	h.config.Log.Error("badges changed without a newer version and get one", "users", len(b.conflictingUsers))
	if err := h.config.RaiseVersions(ctx, b.conflictingUsers, b.shownVersions); err != nil {
		h.config.Log.Warn("badges got no newer version; reconciliation tries again", "users", len(b.conflictingUsers), "cause", err)
	}
}

// elementAt is list[i], or the zero value if the list is too short.
func elementAt[T any](list []T, i int) (value T) {
	if i < len(list) {
		value = list[i]
	}
	return value
}

// markFailed leaves a user to reconciliation. After a first failure the next reconciliation tries again, after a second failure the
// first that comes at least ReconcileInterval later, and after each further failure the first that comes at least three times
// ReconcileInterval later.
func (h *Hub) markFailed(u *user, now hubTime) {
	u.phase = phaseClean
	u.renderAgain = false
	if len(u.watchers) == 0 {
		return
	}
	u.phase = phaseFailed
	u.retryAt = now + h.config.ReconcileInterval*(1<<u.failures-1)
	u.failures = min(u.failures+1, 2)
}

// deliver puts a state into the channels that may get it now, and decides the user's next step.
func (h *Hub) deliver(b *renderBatch, u *user, changed bool, badges *services.Badges, now hubTime) {
	u.phase = phaseClean
	// The state is noted also without watchers, because the next state is compared with it.
	if u.noteRendered(badges, h.config.MarkDocumentsLost != nil) {
		h.stats.VersionConflicts++
		b.conflictingUsers, b.shownVersions = append(b.conflictingUsers, u.id), append(b.shownVersions, u.renderedVersion)
	}
	if len(u.watchers) == 0 {
		return
	}
	open := now >= u.nextSendAt
	var newcomer, behind, notified bool
	for _, w := range u.watchers {
		var sent, replaced bool
		switch {
		// The watcher came after this read began. The read may have missed a change whose hint was sent before the watcher came:
		// another render serves the watcher.
		case w.stage == stageArrived:
			newcomer = true
		case w.stage == stageRenderBegun:
			w.stage = stageHasFirstState
			sent = w.slot.putFirst(badges.Version, badges)
		case open:
			sent, replaced = w.slot.put(badges.Version, badges)
			notified = notified || sent
		// It is too soon after the last change: the watcher gets the newest state when the user is due.
		default:
			behind = behind || w.slot.isOlderThan(badges.Version)
		}
		if replaced {
			h.stats.StatesReplaced++
		}
		if sent {
			h.stats.StatesDelivered++
			if w.consumer != nil {
				b.consumersToWake = append(b.consumersToWake, w.consumer)
			}
		}
	}
	// Only a change that somebody could see delays the next one. A first state for a newcomer must not delay the next change.
	if open && (changed || notified) {
		u.nextSendAt = now + h.config.MinSendInterval
	}
	if badges.Total.Precision == services.Unknown {
		h.stats.RenderErrors++
		h.markFailed(u, now) // a watcher without a state gets UNKNOWN, but the render must be tried again
		return
	}
	u.failures = 0
	h.decidePhase(u, newcomer, behind, badges, now)
}

// noteRendered remembers the rendered state, and reports whether it differs from the last one under the same version. reports says
// that the hub reports lost documents: then, if the version fell, noteRendered keeps the higher one, so that reconciliation reports the
// document as lost, unless the higher version did not come from Redis.
func (u *user) noteRendered(badges *services.Badges, reports bool) (conflicting bool) {
	own, shared := services.DocumentHalf(badges.Version), services.SharedHalf(badges.Version)
	fromClock := badges.Total.Precision == services.Stale || badges.Total.Precision == services.Unknown
	if own < u.renderedVersion && reports && !fromClock && !u.versionFromClock {
		return false
	}
	if fromClock {
		u.renderedVersion, u.renderedSharedVersion, u.versionFromClock = own, shared, true
		return false
	}
	hash := hashVisible(badges)
	conflicting = !u.versionFromClock && own == u.renderedVersion && shared == u.renderedSharedVersion && u.renderedHash != 0 && hash != u.renderedHash
	u.renderedVersion, u.renderedSharedVersion, u.renderedSequence, u.versionFromClock = own, shared, badges.Learned, false
	if !conflicting { // until the version is raised, each further render finds the conflict again
		u.renderedHash = hash
	}
	return conflicting
}

// decidePhase decides the next phase of a user who was just rendered.
func (h *Hub) decidePhase(u *user, newcomer, behind bool, badges *services.Badges, now hubTime) {
	again := u.renderAgain
	u.renderAgain = false
	switch {
	case newcomer:
		u.queuedForChange = again
		// The user is queued at once: throttling does not delay a first state.
		h.queueRender(u)
	case again || behind:
		h.markDirty(u, now)
	case !badges.NextAt.IsZero():
		wait := badges.NextAt.Sub(h.config.Clock.Now())
		if wait <= 0 { // the moment has passed: a renderer whose clock is behind this one's must not cause a busy loop
			wait = h.config.ReconcileInterval
		}
		h.startTimer(u, now+wait)
	}
}

// versionHalfLength is the length of one half of a version, whose format services.BadgesVersion defines.
const versionHalfLength = 16

// isVersion reports whether a text has the form of a version: two halves of 16 digits.
func isVersion(text string) bool {
	if len(text) != 2*versionHalfLength+1 {
		return false
	}
	for i := range text {
		if i == versionHalfLength {
			if text[i] != '.' {
				return false
			}
		} else if text[i] < '0' || text[i] > '9' {
			return false
		}
	}
	return true
}
