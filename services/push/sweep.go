package push

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"tidings/services"
)

// portion is a part of a reconciliation: users whose versions are compared, and the users to enter and to remove.
type portion struct {
	now      moment
	users    []*user
	numbers  []services.UserID
	rendered []uint64 // the rendered version of each when the portion was taken
	enter    []*user  // users whose lease must be written
	gone     []*user  // users to remove: they have had no watcher for Linger
}

// runSweep reconciles at each tick, and at once when HintAll asks. It logs the first failure and the first success after it.
func (h *Hub) runSweep(ctx context.Context) error {
	ticker := time.NewTicker(h.config.Sweep)
	defer ticker.Stop()
	away := false
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		case <-h.sweepNow:
		}
		err := h.sweep(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil && !away {
			h.config.Log.Warn("the reconciliation of open subscriptions failed; the next one tries again", "cause", err)
		} else if err == nil && away {
			h.config.Log.Info("the reconciliation of open subscriptions works again")
		}
		away = err != nil
	}
}

// sweep does one reconciliation: it checks every watched user once. It renews leases that are a third old, queues users whose
// versions differ from their rendered ones and users who failed before, and removes users who have had no watcher for Linger. One
// failing call does not stop it, but several slow ones do. Its error is from the first portion that failed, with the code of the
// function that failed.
func (h *Hub) sweep(ctx context.Context) error {
	h.sweepMu.Lock()
	defer h.sweepMu.Unlock()
	h.mu.Lock()
	// Reconciliation walks from the end down: a removed user is replaced by a user who was checked already, and a new user is
	// read by the render of their watcher.
	end, retryFailed := len(h.order), h.retryFailed
	h.retryFailed = false
	h.mu.Unlock()

	var p portion
	var first error
	for start := h.now(); end > 0 && ctx.Err() == nil; end -= maxSweep {
		h.takePortion(&p, end, retryFailed)
		h.removeGone(ctx, &p)
		enterErr := h.enterAll(ctx, p.enter) // before the comparison: subscribe, then read
		compareErr := h.compareVersions(ctx, &p)
		// The error of the comparison says more: without a comparison no change is found.
		first = cmp.Or(first, compareErr, enterErr)
		if first != nil && h.now()-start >= h.config.Sweep {
			break // Redis does not answer, and each portion would wait for it
		}
	}
	if first == nil {
		h.sample() // after an error Redis may be away, and states rendered without it prove nothing
	}
	return cmp.Or(first, ctx.Err())
}

// sample queues some users for whom nothing else is to be done, different ones at each reconciliation. Their newly rendered states are
// compared with the states that they were sent.
func (h *Hub) sample() {
	h.mu.Lock()
	defer h.mu.Unlock()
	// sampleDebt is in units of 1/Sample of a user: with 10 users and a sample of 30, one user is due in every third reconciliation.
	h.sampleDebt += len(h.order)
	due := h.sampleDebt / h.config.Sample
	h.sampleDebt %= h.config.Sample
	for range due {
		if h.sampled++; h.sampled >= len(h.order) {
			h.sampled = 0
		}
		if u := h.order[h.sampled]; u.phase == clean && len(u.watchers) > 0 && h.now() >= u.nextSendAt {
			h.queue(u)
		}
	}
}

// takePortion fills p with the next users of Hub.order below the index end, at most maxSweep.
func (h *Hub) takePortion(p *portion, end int, retryFailed bool) {
	*p = portion{users: p.users[:0], numbers: p.numbers[:0], rendered: p.rendered[:0],
		enter: p.enter[:0], gone: p.gone[:0]}
	h.mu.Lock()
	defer h.mu.Unlock()
	p.now = h.now()
	end = min(end, len(h.order))
	for i := end - 1; i >= max(end-maxSweep, 0); i-- {
		u := h.order[i]
		if len(u.watchers) == 0 {
			// Linger has passed, and no call about them is under way.
			if u.phase == clean && p.now-u.leftAt >= h.config.Linger && u.entering == 0 && !u.leaving {
				p.gone = append(p.gone, u)
			}
			continue
		}
		if u.phase == failed && (retryFailed || p.now >= u.retryAt) {
			// The change that the failed render read is still to be sent.
			u.changed = true
			h.queue(u)
		}
		if u.phase == clean || u.phase == failed {
			// Only the leases of clean and failed users are renewed: a user who is about to be read enters with that read, and
			// must not count as entered while this Enter is in flight.
			p.enter = h.renewLease(p.enter, u, p.now)
		}
		if u.phase == clean || u.phase == rendering { // the others will be read after Versions
			p.users = append(p.users, u)
			p.numbers = append(p.numbers, u.number)
			p.rendered = append(p.rendered, u.rendered)
		}
	}
}

// compareVersions reads the versions of a portion and marks the users who differ. A panic is an error: the next reconciliation tries again.
func (h *Hub) compareVersions(ctx context.Context, p *portion) (err error) {
	defer services.Recover(&err)
	if len(p.users) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	versions, err := h.config.Versions(ctx, p.numbers)
	if err != nil {
		return fmt.Errorf("reading the versions of %d users: %w", len(p.users), err)
	}
	// An answer of another length would be taken for other users' versions.
	if len(versions) != len(p.users) {
		return fmt.Errorf("reading the versions of %d users: got %d", len(p.users), len(versions))
	}
	if err := h.reportLost(ctx, p, versions); err != nil {
		return err
	}
	learned := make([]uint64, len(p.users))
	if h.config.Learned != nil {
		copy(learned, h.config.Learned(p.numbers))
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.now()
	for i, u := range p.users {
		// missed: this node has applied a shared change since the user was rendered, and the notification was lost. A user whose
		// render is in flight is left out, because that render may bring the change.
		missed := u.phase == clean && !u.fromClock && u.rendered == p.rendered[i] && learned[i] > u.learned
		if len(u.watchers) == 0 || !missed && !differs(u, versions[i], p.rendered[i]) {
			continue
		}
		if versions[i] < u.rendered {
			u.entered = false // Redis lost data, and perhaps the lease with it
		}
		// A render in flight may already give the right state: such a user is read again, and does not count as a repair.
		if u.phase == clean {
			h.stats.Repairs++
		}
		h.markDirty(u, now)
	}
	return nil
}

// reportLost calls Lost for documents that are older than the states rendered from them. compareVersions then has them read again.
func (h *Hub) reportLost(ctx context.Context, p *portion, versions []uint64) error {
	if h.config.Lost == nil {
		return nil
	}
	var users []services.UserID
	var shown []uint64
	h.mu.Lock()
	for i, u := range p.users {
		if n := versions[i]; n > 0 && n < u.rendered && u.rendered == p.rendered[i] && !u.fromClock && len(u.watchers) > 0 {
			users, shown = append(users, u.number), append(shown, u.rendered)
		}
	}
	h.mu.Unlock()
	if len(users) == 0 {
		return nil
	}
	h.config.Log.Warn("Redis has older documents than before: they are rebuilt", "users", len(users))
	if err := h.config.Lost(ctx, users, shown); err != nil {
		return fmt.Errorf("reporting %d lost documents: %w", len(users), err)
	}
	return nil
}

// differs reports whether a user must be read again. n is the version that Redis answered with, 0 for none. before is the user's
// rendered version when Redis was asked. A user who was rendered since may correctly be ahead of n, and a render in flight restores a
// lost document by itself. A state that was rendered without Redis has a version from a clock. It may be as new as n and still lack a
// change whose hint will not come again, so the user is read again.
func differs(u *user, n, before uint64) bool {
	if n == 0 || u.fromClock && n <= u.rendered {
		return u.phase == clean && u.rendered == before
	}
	return n > u.rendered || n < u.rendered && u.rendered == before
}
