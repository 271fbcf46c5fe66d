package push

import (
	"context"
	"errors"

	"tidings/services"
	"tidings/services/trace"
)

// batch is the work of a worker: users who are read together. A worker reuses its batch.
type batch struct {
	users   []*user
	numbers []services.UserID   // the IDs of users
	enter   []*user             // those of users who must enter first
	changed []bool              // user.changed of each user, when the batch was taken
	wakes   []services.Consumer // the consumers to wake

	causes []trace.Cause // of the users' changes

	conflicting []services.UserID // users with two states of one version
	shown       []uint64          // the user's half of that version
}

// runWorker renders batches until ctx ends. Several workers take from one list, so a slow read of one batch does not stop the
// others.
func (h *Hub) runWorker(ctx context.Context) error {
	var b batch
	for ctx.Err() == nil {
		if h.render(ctx, &b) {
			continue
		}
		select {
		case <-ctx.Done():
		case <-h.work:
		}
	}
	return nil
}

// render serves one batch of queued users: it enters those who are not entered yet, reads, and sends. It reports whether
// there were any.
func (h *Hub) render(ctx context.Context, b *batch) bool {
	h.take(b)
	if len(b.users) == 0 {
		return false
	}
	ctx, span := trace.StartFrom(ctx, b.causes, "push", "")
	span.SetCount(len(b.users))
	defer func() { span.End(nil) }()
	// The users enter before the read, so that a change after the read sends a hint. If Enter fails, reconciliation reports the
	// failure.
	_ = h.enterAll(ctx, b.enter)
	// A batch that hangs must not hold its worker: its users fail, and reconciliation tries them again.
	limited, cancel := context.WithTimeout(ctx, renderTimeout)
	badges, errs := h.read(limited, b.numbers)
	cancel()
	h.finish(ctx, b, badges, errs)
	return true
}

// read reads the states of users. A panic does not say whose state is at fault, so each user is then read alone: the others get their
// states, and the one at fault fails as if an engine did not answer.
func (h *Hub) read(ctx context.Context, users []services.UserID) (badges []*services.Badges, errs []error) {
	badges, errs, err := h.tryRead(ctx, users)
	if err == nil {
		return badges, errs
	}
	if len(users) == 1 {
		h.config.Log.Error("badges could not be rendered because of a panic", "error", err)
		return []*services.Badges{nil}, []error{errPanicked}
	}
	badges, errs = make([]*services.Badges, len(users)), make([]error, len(users))
	for i := range users {
		one, failed := h.read(ctx, users[i:i+1])
		badges[i], errs[i] = at(one, 0), at(failed, 0)
	}
	return badges, errs
}

// tryRead calls Render once. err is the error of a panic of Render.
func (h *Hub) tryRead(ctx context.Context, users []services.UserID) (badges []*services.Badges, errs []error, err error) {
	defer services.Recover(&err)
	badges, errs = h.config.Render(ctx, users)
	return badges, errs, nil
}

// take fills b with queued users and marks them as rendering.
func (h *Hub) take(b *batch) {
	b.users, b.numbers, b.enter = b.users[:0], b.numbers[:0], b.enter[:0]
	b.changed, b.wakes = b.changed[:0], b.wakes[:0]
	b.conflicting, b.shown, b.causes = b.conflicting[:0], b.shown[:0], b.causes[:0]
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.now()
	taken := 0
	for _, u := range h.ready {
		if len(b.users) == maxBatch {
			break
		}
		h.ready[taken] = nil
		taken++
		// The last watcher left while the user was queued.
		if len(u.watchers) == 0 {
			u.phase = clean
			continue
		}
		u.phase = rendering
		for _, w := range u.watchers {
			if w.stage == arrived {
				// The read begins after this point, so its state is new enough to be the watcher's first.
				w.stage = asked
			}
		}
		b.enter = h.renewLease(b.enter, u, now)
		b.users = append(b.users, u)
		b.numbers = append(b.numbers, u.number)
		b.changed = append(b.changed, u.changed)
		// The batch takes over the change: a change from here on counts for the next render.
		u.changed = false
		b.causes = append(b.causes, u.cause)
		u.cause = trace.Cause{}
	}
	h.ready = h.ready[taken:]
}

// errPanicked is the error of a user whose render has panicked. The log has the panic in a line of its own.
var errPanicked = errors.New("push: Render panicked")

var errNoState = errors.New("push: Render gave neither a state nor an error")

// finish sends the rendered states. The callbacks run last, when nothing is locked.
func (h *Hub) finish(ctx context.Context, b *batch, badges []*services.Badges, errs []error) {
	var failures int
	var cause error
	h.mu.Lock()
	now := h.now()
	for i, u := range b.users {
		state, err := at(badges, i), at(errs, i)
		if err == nil && state == nil {
			err = errNoState
		}
		if err != nil {
			failures++
			cause = err
			h.fail(u, now)
			continue
		}
		h.deliver(b, u, b.changed[i], state, now)
	}
	h.stats.RenderErrors += uint64(failures)
	h.mu.Unlock()
	// There is one line for a batch: when an engine is away, all users of the batch fail.
	if failures > 0 && ctx.Err() == nil {
		h.config.Log.Warn("badges could not be rendered for open subscriptions; reconciliation tries again",
			"users", failures, "of", len(b.users), "cause", cause)
	}
	for i, consumer := range b.wakes {
		consumer.Wake()
		b.wakes[i] = nil
	}
	h.raise(ctx, b)
}

// raise asks for newer versions of the documents of users with two states of one version.
func (h *Hub) raise(ctx context.Context, b *batch) {
	if len(b.conflicting) == 0 || h.config.Raise == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	h.config.Log.Error("badges changed without a newer version and get one", "users", len(b.conflicting))
	if err := h.config.Raise(ctx, b.conflicting, b.shown); err != nil {
		h.config.Log.Warn("badges got no newer version; reconciliation tries again", "users", len(b.conflicting), "cause", err)
	}
}

// at is list[i], or the zero value if the list is too short.
func at[T any](list []T, i int) (value T) {
	if i < len(list) {
		value = list[i]
	}
	return value
}

// fail leaves a user to reconciliation. After a first failure the next reconciliation tries again, after a second failure the first
// that comes at least Sweep later, and after each further failure the first that comes at least three times Sweep later.
func (h *Hub) fail(u *user, now moment) {
	u.phase = clean
	u.renderAgain = false
	if len(u.watchers) == 0 {
		return
	}
	u.phase = failed
	u.retryAt = now + h.config.Sweep*(1<<u.failures-1)
	u.failures = min(u.failures+1, 2)
}

// deliver puts a state into the channels that may get it now, and decides the user's next step.
func (h *Hub) deliver(b *batch, u *user, changed bool, badges *services.Badges, now moment) {
	u.phase = clean
	// The state is noted also without watchers, because the next state is compared with it.
	if u.note(badges, h.config.Lost != nil) {
		h.stats.Conflicts++
		b.conflicting, b.shown = append(b.conflicting, u.number), append(b.shown, u.rendered)
	}
	if len(u.watchers) == 0 {
		return
	}
	open := now >= u.nextSendAt
	var newcomer, behind, told bool
	for _, w := range u.watchers {
		var sent, replaced bool
		switch {
		// The watcher came after this read began. The read may have missed a change whose hint was sent before the watcher came:
		// another render serves the watcher.
		case w.stage == arrived:
			newcomer = true
		case w.stage == asked:
			w.stage = served
			sent = w.slot.putFirst(badges.Version, badges)
		case open:
			sent, replaced = w.slot.put(badges.Version, badges)
			told = told || sent
		// It is too soon after the last change: the watcher gets the newest state when the user is due.
		default:
			behind = behind || w.slot.behind(badges.Version)
		}
		if replaced {
			h.stats.Conflated++
		}
		if sent {
			h.stats.Delivered++
			if w.consumer != nil {
				b.wakes = append(b.wakes, w.consumer)
			}
		}
	}
	// Only a change that somebody could see begins a gap. A first state for a newcomer must not delay the next change.
	if open && (changed || told) {
		u.nextSendAt = now + h.config.MinInterval
	}
	if badges.Total.Precision == services.Unknown {
		h.stats.RenderErrors++
		h.fail(u, now) // a watcher without a state gets UNKNOWN, but the render must be tried again
		return
	}
	u.failures = 0
	h.decidePhase(u, newcomer, behind, badges, now)
}

// note remembers the rendered state, and reports whether it differs from the last one under the same version. If the version
// fell, note keeps the higher one, so that reconciliation reports the document as lost, unless the higher version did not
// come from Redis.
func (u *user) note(badges *services.Badges, reports bool) (conflicting bool) {
	own, shared := services.OwnHalf(badges.Version), services.SharedHalf(badges.Version)
	fromClock := badges.Total.Precision == services.Stale || badges.Total.Precision == services.Unknown
	if own < u.rendered && reports && !fromClock && !u.fromClock {
		return false
	}
	if fromClock {
		u.rendered, u.renderedShared, u.fromClock = own, shared, true
		return false
	}
	hash := hashVisible(badges)
	conflicting = !u.fromClock && own == u.rendered && shared == u.renderedShared && u.renderedHash != 0 && hash != u.renderedHash
	u.rendered, u.renderedShared, u.learned, u.fromClock = own, shared, badges.Learned, false
	if !conflicting { // until the version is raised, each further render finds the conflict again
		u.renderedHash = hash
	}
	return conflicting
}

// decidePhase decides the next phase of a user who was just rendered.
func (h *Hub) decidePhase(u *user, newcomer, behind bool, badges *services.Badges, now moment) {
	again := u.renderAgain
	u.renderAgain = false
	switch {
	case newcomer:
		u.changed = again
		// The user is queued at once: throttling does not delay a first state.
		h.queue(u)
	case again || behind:
		h.markDirty(u, now)
	case !badges.NextAt.IsZero():
		wait := badges.NextAt.Sub(h.config.Clock.Now())
		if wait <= 0 { // the moment has passed: a renderer whose clock is behind this one's must not cause a busy loop
			wait = h.config.Sweep
		}
		h.startTimer(u, now+wait)
	}
}

// versionHalfLength is the length of one half of a version, whose format services.Version defines.
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
