package push

import (
	"context"
	"fmt"

	"tidings/services"
)

// A user's lease in Redis begins with their first watcher on this node and ends with the last one. WriteLeases and RemoveLeases of
// one user are never under way together, since Redis may take them in either order: RemoveLeases waits until WriteLeases is
// answered, and the lease of a user who comes back during RemoveLeases is written after it.

// appendIfLeaseDue adds a user whose lease is missing, or has used up a third of its time, to the users whose leases are to be
// written, unless RemoveLeases is under way. The lease counts as written from here on, before the answer: if it becomes doubtful
// while WriteLeases is in flight, it stays doubtful, and is written once more.
func (h *Hub) appendIfLeaseDue(enter []*user, u *user, now hubTime) []*user {
	if u.leaseRemovalInFlight || u.leaseWritten && now-u.leaseSentAt < h.config.Lease/3 {
		return enter
	}
	// mayHaveLease is set before the answer: if the answer is lost, the lease may still exist, and must be taken back.
	u.leaseWritten, u.mayHaveLease = true, true
	u.leaseSentAt = now
	u.leaseWritesInFlight++
	return append(enter, u)
}

// writeLeases writes the leases of users. If it fails, the users are still watched: reconciliation writes the leases again, and
// until then only reconciliation finds their changes.
func (h *Hub) writeLeases(ctx context.Context, users []*user) error {
	if len(users) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, redisCallTimeout)
	defer cancel()
	err := h.config.WriteLeases(ctx, idsOf(users), h.config.Lease)
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, u := range users {
		u.leaseWritesInFlight--
		// Until this user's lease is written again, only reconciliation finds the user's changes.
		if err != nil {
			u.leaseWritten = false
		}
		if len(u.watchers) == 0 {
			// The removal of the lease had to wait for this answer.
			h.queueLeaseRemoval(u)
		}
	}
	if err != nil {
		return fmt.Errorf("entering %d users: %w", len(users), err)
	}
	return nil
}

// idsOf are the IDs of users.
func idsOf(users []*user) []services.UserID {
	return services.Map(users, func(u *user) services.UserID { return u.id })
}

// queueLeaseRemoval queues the removal of the lease of a user without watchers, at once: nobody on this node needs hints about the
// user from now on.
func (h *Hub) queueLeaseRemoval(u *user) {
	if !u.inLeaseRemovalQueue && u.canRemoveLease() {
		u.inLeaseRemovalQueue = true
		h.leaseRemovalQueue = append(h.leaseRemovalQueue, u)
		services.Signal(h.leaseRemovalSignal)
	}
}

// canRemoveLease reports whether RemoveLeases can be called for a user, and has something to take back.
func (u *user) canRemoveLease() bool {
	return len(u.watchers) == 0 && u.mayHaveLease && u.leaseWritesInFlight == 0 && !u.leaseRemovalInFlight
}

// runLeaseRemovals takes back the leases of users whose watchers leave, so that other nodes stop sending hints for these users.
func (h *Hub) runLeaseRemovals(ctx context.Context) error {
	for ctx.Err() == nil {
		if h.removeQueuedLeases(ctx) {
			continue
		}
		select {
		case <-ctx.Done():
		case <-h.leaseRemovalSignal:
		}
	}
	return nil
}

// removeQueuedLeases takes back the leases of one batch of queued users. Users who are queued meanwhile form the next batch, so
// that thousands take a few calls. It reports whether there were any.
func (h *Hub) removeQueuedLeases(ctx context.Context) bool {
	var users []*user
	h.mu.Lock()
	n := min(len(h.leaseRemovalQueue), maxUsersPerCall)
	for i, u := range h.leaseRemovalQueue[:n] {
		h.leaseRemovalQueue[i] = nil
		u.inLeaseRemovalQueue = false
		// A watcher may have come back, or the user was removed and added again.
		if u.canRemoveLease() && h.users[u.id] == u {
			u.leaseRemovalInFlight = true
			users = append(users, u)
		}
	}
	if h.leaseRemovalQueue = h.leaseRemovalQueue[n:]; len(h.leaseRemovalQueue) == 0 {
		h.leaseRemovalQueue = nil
	}
	h.mu.Unlock()
	if len(users) > 0 {
		h.removeLeases(ctx, users)
	}
	return n > 0
}

// removeLeases takes back the leases of users whose leaseRemovalInFlight is set. The leases of users who came back meanwhile are
// written again. After an error the lease is taken back once more when the user is removed, and otherwise expires by itself.
func (h *Hub) removeLeases(ctx context.Context, users []*user) {
	ctx, cancel := context.WithTimeout(ctx, redisCallTimeout)
	defer cancel()
	err := h.config.RemoveLeases(ctx, idsOf(users))
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.now()
	for _, u := range users {
		u.leaseRemovalInFlight, u.leaseWritten, u.mayHaveLease = false, false, err != nil
		// The user came back during RemoveLeases, so no lease could be written: the next read writes it, and finds the missed changes.
		if len(u.watchers) > 0 {
			h.markDirty(u, now)
		}
	}
}

// removeUnwatched removes users who have had no watcher for KeepUnwatchedFor. They stay in the map until RemoveLeases is answered.
func (h *Hub) removeUnwatched(ctx context.Context, p *reconcileBatch) {
	var leaving []*user
	h.mu.Lock()
	for _, u := range p.unwatched {
		if u.canRemoveLease() {
			u.leaseRemovalInFlight = true
			leaving = append(leaving, u)
		}
	}
	h.mu.Unlock()
	if len(leaving) > 0 {
		h.removeLeases(ctx, leaving)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, u := range p.unwatched {
		// A watcher may have come meanwhile, and may have left again: such a user stays.
		if len(u.watchers) == 0 && u.phase == phaseClean && u.lastWatcherLeftAt < p.now && u.leaseWritesInFlight == 0 && !u.leaseRemovalInFlight {
			h.remove(u)
		}
	}
}

// removeAllLeases takes back the lease of every user who may have one, within removeAllLeasesTimeout.
func (h *Hub) removeAllLeases(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, removeAllLeasesTimeout)
	defer cancel()
	h.mu.Lock()
	users := make([]services.UserID, 0, len(h.reconcileOrder))
	for _, u := range h.reconcileOrder {
		if u.mayHaveLease {
			users = append(users, u.id)
		}
	}
	h.mu.Unlock()
	for len(users) > 0 {
		n := min(len(users), maxUsersPerCall)
		if err := h.config.RemoveLeases(ctx, users[:n]); err != nil {
			h.config.Log.Warn("the leases of open subscriptions could not be removed; they expire by themselves",
				"users", len(users), "cause", err)
			return
		}
		users = users[n:]
	}
}
