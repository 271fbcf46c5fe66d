package push

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"tidings/services"
)

// reconcileBatch is a part of a reconciliation: users whose versions are compared, and the users whose leases are to be written or
// who are to be removed.
type reconcileBatch struct {
	now              hubTime           // when the batch was taken
	users            []*user           // whose versions are compared
	ids              []services.UserID // the IDs of users
	renderedVersions []uint64          // the rendered version of each of users when the batch was taken
	needLease        []*user           // users whose lease must be written
	unwatched        []*user           // users to remove: they have had no watcher for KeepUnwatchedFor
}

// runReconciliations reconciles at each tick, and at once when ReconcileAll asks. It logs the first failure and the first success
// after it.
func (h *Hub) runReconciliations(ctx context.Context) error {
	ticker := time.NewTicker(h.config.ReconcileInterval)
	defer ticker.Stop()
	away := false
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		case <-h.reconcileSignal:
		}
		err := h.reconcile(ctx)
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

// reconcile does one reconciliation: it checks every watched user once. It renews leases that have used up a third of their time,
// queues users whose versions differ from their rendered ones and users whose render failed before, and removes users who have had no
// watcher for KeepUnwatchedFor. One failing call does not stop it, but several slow ones do. Its error is from the first batch that
// failed, with the code of the function that failed.
func (h *Hub) reconcile(ctx context.Context) error {
	h.reconcileMu.Lock()
	defer h.reconcileMu.Unlock()
	h.mu.Lock()
	// Reconciliation walks from the end down: a removed user is replaced by a user who was checked already, and a new user is
	// read by the render of their watcher.
	end, retryFailed := len(h.reconcileOrder), h.retryFailedUsers
	h.retryFailedUsers = false
	h.mu.Unlock()

	var p reconcileBatch
	var first error
	for start := h.now(); end > 0 && ctx.Err() == nil; end -= maxUsersPerCall {
		h.takeReconcileBatch(&p, end, retryFailed)
		h.removeUnwatched(ctx, &p)
		enterErr := h.writeLeases(ctx, p.needLease) // before the comparison, so that a later change sends a hint
		compareErr := h.compareVersions(ctx, &p)
		// The error of the comparison says more: without a comparison no change is found.
		first = cmp.Or(first, compareErr, enterErr)
		if first != nil && h.now()-start >= h.config.ReconcileInterval {
			break // Redis does not answer, and each batch would wait for it
		}
	}
	if first == nil {
		h.queueSampledUsers() // after an error Redis may be away, and states rendered without it prove nothing
	}
	return cmp.Or(first, ctx.Err())
}

// queueSampledUsers queues some users with nothing else to do, different ones at each reconciliation. Their newly rendered
// states are compared with the states that they were sent.
func (h *Hub) queueSampledUsers() {
	h.mu.Lock()
	defer h.mu.Unlock()
	// sampleRemainder is in units of 1/CompareOneUserIn of a user: with 10 users and a CompareOneUserIn of 30, one user is due in every
	// third reconciliation.
	h.sampleRemainder += len(h.reconcileOrder)
	due := h.sampleRemainder / h.config.CompareOneUserIn
	h.sampleRemainder %= h.config.CompareOneUserIn
	for range due {
		if h.sampleIndex++; h.sampleIndex >= len(h.reconcileOrder) {
			h.sampleIndex = 0
		}
		if u := h.reconcileOrder[h.sampleIndex]; u.phase == phaseClean && len(u.watchers) > 0 && h.now() >= u.nextSendAt {
			h.queueRender(u)
		}
	}
}

// takeReconcileBatch fills p with the next users of Hub.reconcileOrder below the index end, at most maxUsersPerCall.
func (h *Hub) takeReconcileBatch(p *reconcileBatch, end int, retryFailed bool) {
	*p = reconcileBatch{users: p.users[:0], ids: p.ids[:0], renderedVersions: p.renderedVersions[:0],
		needLease: p.needLease[:0], unwatched: p.unwatched[:0]}
	h.mu.Lock()
	defer h.mu.Unlock()
	p.now = h.now()
	end = min(end, len(h.reconcileOrder))
	for i := end - 1; i >= max(end-maxUsersPerCall, 0); i-- {
		u := h.reconcileOrder[i]
		if len(u.watchers) == 0 {
			// KeepUnwatchedFor has passed, and no call about them is under way.
			if u.phase == phaseClean && p.now-u.lastWatcherLeftAt >= h.config.KeepUnwatchedFor && u.leaseWritesInFlight == 0 && !u.leaseRemovalInFlight {
				p.unwatched = append(p.unwatched, u)
			}
			continue
		}
		if u.phase == phaseFailed && (retryFailed || p.now >= u.retryAt) {
			// The change that the failed render read is still to be sent.
			u.queuedForChange = true
			h.queueRender(u)
		}
		if u.phase == phaseClean || u.phase == phaseFailed {
			// Only the leases of clean and failed users are renewed: the lease of a user who is about to be read is written with
			// that read, and must not count as written while this WriteLeases is in flight.
			p.needLease = h.appendIfLeaseDue(p.needLease, u, p.now)
		}
		if u.phase == phaseClean || u.phase == phaseRendering { // the others will be read after DocumentVersions
			p.users = append(p.users, u)
			p.ids = append(p.ids, u.id)
			p.renderedVersions = append(p.renderedVersions, u.renderedVersion)
		}
	}
}

// compareVersions reads the versions of a batch and marks the users who differ. A panic is an error: the next reconciliation tries
// again.
func (h *Hub) compareVersions(ctx context.Context, p *reconcileBatch) (err error) {
	defer services.Recover(&err)
	if len(p.users) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, redisCallTimeout)
	defer cancel()
	versions, err := h.config.DocumentVersions(ctx, p.ids)
	if err != nil {
		return fmt.Errorf("reading the versions of %d users: %w", len(p.users), err)
	}
	// An answer of another length would be taken for other users' versions.
	if len(versions) != len(p.users) {
		return fmt.Errorf("reading the versions of %d users: got %d", len(p.users), len(versions))
	}
	if err := h.reportLostDocuments(ctx, p, versions); err != nil {
		return err
	}
	learned := make([]uint64, len(p.users))
	if h.config.SharedChangeSequences != nil {
		copy(learned, h.config.SharedChangeSequences(p.ids))
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.now()
	for i, u := range p.users {
		// missed: this node has applied a shared change since the user was rendered, and the notification was lost. A user whose
		// render is in flight is left out, because that render may bring the change.
		missed := u.phase == phaseClean && !u.versionFromClock && u.renderedVersion == p.renderedVersions[i] && learned[i] > u.renderedSequence
		if len(u.watchers) == 0 || !missed && !mustReadAgain(u, versions[i], p.renderedVersions[i]) {
			continue
		}
		if versions[i] < u.renderedVersion {
			u.leaseWritten = false // Redis lost data, and perhaps the lease with it
		}
		// A render in flight may already give the right state: such a user is read again, and does not count as a repair.
		if u.phase == phaseClean {
			h.stats.UsersRepaired++
		}
		h.markDirty(u, now)
	}
	return nil
}

// reportLostDocuments calls MarkDocumentsLost for documents that are older than the states rendered from them. compareVersions then
// has them read again.
func (h *Hub) reportLostDocuments(ctx context.Context, p *reconcileBatch, versions []uint64) error {
	if h.config.MarkDocumentsLost == nil {
		return nil
	}
	var users []services.UserID
	var shown []uint64
	h.mu.Lock()
	for i, u := range p.users {
		if n := versions[i]; n > 0 && n < u.renderedVersion && u.renderedVersion == p.renderedVersions[i] && !u.versionFromClock && len(u.watchers) > 0 {
			users, shown = append(users, u.id), append(shown, u.renderedVersion)
		}
	}
	h.mu.Unlock()
	if len(users) == 0 {
		return nil
	}
	h.config.Log.Warn("Redis has older documents than before: they are rebuilt", "users", len(users))
	if err := h.config.MarkDocumentsLost(ctx, users, shown); err != nil {
		return fmt.Errorf("reporting %d lost documents: %w", len(users), err)
	}
	return nil
}

// mustReadAgain reports whether a user must be read again. n is the version that Redis answered with, 0 for none. before is the user's
// rendered version when Redis was asked. A user who was rendered since may correctly be ahead of n, and a render in flight restores a
// lost document by itself. A state that was rendered without Redis has a version from a clock. It may be as new as n and still lack a
// change whose hint will not come again, so the user is read again.
func mustReadAgain(u *user, n, before uint64) bool {
	if n == 0 || u.versionFromClock && n <= u.renderedVersion {
		return u.phase == phaseClean && u.renderedVersion == before
	}
	return n > u.renderedVersion || n < u.renderedVersion && u.renderedVersion == before
}
