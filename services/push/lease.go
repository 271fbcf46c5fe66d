package push

import (
	"context"
	"fmt"

	"tidings/services"
)

// A user's lease in Redis begins with their first watcher on this node and ends with the last one. Enter and Leave of one user are
// never under way together, since Redis may take them in either order: Leave waits until Enter is answered, and a user who comes
// back during Leave enters after it.

// renewLease adds a user whose lease is missing, or has used up a third of its time, to the users to enter, unless Leave is under
// way. The user counts as entered from here on, before the answer: if the lease becomes doubtful while Enter is in flight, it stays
// doubtful, and the user enters once more.
func (h *Hub) renewLease(enter []*user, u *user, now moment) []*user {
	if u.leaving || u.entered && now-u.enterSentAt < h.config.Lease/3 {
		return enter
	}
	// leased is set before the answer: if the answer is lost, the lease may still exist, and must be taken back.
	u.entered, u.leased = true, true
	u.enterSentAt = now
	u.entering++
	return append(enter, u)
}

// enterAll writes the leases of users. If it fails, the users are still watched: reconciliation enters them again, and until then
// only reconciliation finds their changes.
func (h *Hub) enterAll(ctx context.Context, users []*user) error {
	if len(users) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	err := h.config.Enter(ctx, numbersOf(users), h.config.Lease)
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, u := range users {
		u.entering--
		// Until this user is entered again, only reconciliation finds the user's changes.
		if err != nil {
			u.entered = false
		}
		if len(u.watchers) == 0 {
			// Leave had to wait for this answer.
			h.release(u)
		}
	}
	if err != nil {
		return fmt.Errorf("entering %d users: %w", len(users), err)
	}
	return nil
}

// numbersOf are the IDs of users.
func numbersOf(users []*user) []services.UserID {
	numbers := make([]services.UserID, len(users))
	for i, u := range users {
		numbers[i] = u.number
	}
	return numbers
}

// release lets a user without watchers leave at once: no socket here shows their changes from now on.
func (h *Hub) release(u *user) {
	if !u.released && u.mayLeave() {
		u.released = true
		h.released = append(h.released, u)
		signal(h.leaves)
	}
}

// mayLeave reports whether Leave can be sent for a user, and has something to take back.
func (u *user) mayLeave() bool {
	return len(u.watchers) == 0 && u.leased && u.entering == 0 && !u.leaving
}

// runLeaves takes back the leases of users whose watchers leave, so that other nodes stop sending hints for these users.
func (h *Hub) runLeaves(ctx context.Context) error {
	for ctx.Err() == nil {
		if h.leaveReleased(ctx) {
			continue
		}
		select {
		case <-ctx.Done():
		case <-h.leaves:
		}
	}
	return nil
}

// leaveReleased takes back the leases of one batch of released users. Users who are released meanwhile form the next batch, so
// that thousands take a few calls. It reports whether there were any.
func (h *Hub) leaveReleased(ctx context.Context) bool {
	var users []*user
	h.mu.Lock()
	n := min(len(h.released), maxSweep)
	for i, u := range h.released[:n] {
		h.released[i] = nil
		u.released = false
		// A watcher may have come back, or the user was removed and added again.
		if u.mayLeave() && h.users[u.number] == u {
			u.leaving = true
			users = append(users, u)
		}
	}
	if h.released = h.released[n:]; len(h.released) == 0 {
		h.released = nil
	}
	h.mu.Unlock()
	if len(users) > 0 {
		h.leave(ctx, users)
	}
	return n > 0
}

// leave takes back the leases of users who are marked as leaving. Users who came back meanwhile enter again. After an error the
// lease is taken back once more when the user is removed, and otherwise expires by itself.
func (h *Hub) leave(ctx context.Context, users []*user) {
	ctx, cancel := context.WithTimeout(ctx, callTimeout)
	defer cancel()
	err := h.config.Leave(ctx, numbersOf(users))
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.now()
	for _, u := range users {
		u.leaving, u.entered, u.leased = false, false, err != nil
		// The user came back during Leave and could not enter: the next read enters the user, and finds the missed changes.
		if len(u.watchers) > 0 {
			h.markDirty(u, now)
		}
	}
}

// removeGone removes users who have had no watcher for Linger. They stay in the map until Leave is answered.
func (h *Hub) removeGone(ctx context.Context, p *portion) {
	var leaving []*user
	h.mu.Lock()
	for _, u := range p.gone {
		if u.mayLeave() {
			u.leaving = true
			leaving = append(leaving, u)
		}
	}
	h.mu.Unlock()
	if len(leaving) > 0 {
		h.leave(ctx, leaving)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, u := range p.gone {
		// A watcher may have come meanwhile, and may have left again: such a user stays.
		if len(u.watchers) == 0 && u.phase == clean && u.leftAt < p.now && u.entering == 0 && !u.leaving {
			h.remove(u)
		}
	}
}

// leaveAll takes back the lease of every user who may have one, within leaveTimeout.
func (h *Hub) leaveAll(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, leaveTimeout)
	defer cancel()
	h.mu.Lock()
	users := make([]services.UserID, 0, len(h.order))
	for _, u := range h.order {
		if u.leased {
			users = append(users, u.number)
		}
	}
	h.mu.Unlock()
	for len(users) > 0 {
		n := min(len(users), maxSweep)
		if err := h.config.Leave(ctx, users[:n]); err != nil {
			h.config.Log.Warn("the leases of open subscriptions could not be removed; they expire by themselves",
				"users", len(users), "cause", err)
			return
		}
		users = users[n:]
	}
}
