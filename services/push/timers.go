package push

import "tidings/services"

// noTimer marks a user without a timer.
const noTimer = -1

// timers is a heap of users by wakeAt: one timer per user. Each user knows their index in it.
type timers []*user

// startTimer sets the time at which a user is woken. It replaces the user's former timer, if there is one.
func (h *Hub) startTimer(u *user, at hubTime) {
	u.wakeAt = at
	if u.timerIndex == noTimer {
		u.timerIndex = int32(len(h.timers))
		h.timers = append(h.timers, u)
	}
	h.timers.fix(int(u.timerIndex))
	// This user is the first one now: the timer that runs is set for a later time.
	if h.timers[0] == u {
		services.Signal(h.firstTimerChanged)
	}
}

// stopTimer removes a user's timer, if set.
func (h *Hub) stopTimer(u *user) {
	if u.timerIndex == noTimer {
		return
	}
	i, last := int(u.timerIndex), len(h.timers)-1
	h.timers.swap(i, last)
	h.timers[last] = nil
	h.timers = h.timers[:last]
	u.timerIndex = noTimer
	if i < last {
		h.timers.fix(i)
	}
}

// fireDueTimers wakes every user whose time has come, and returns the time until the next one; some is false if there is none.
func (h *Hub) fireDueTimers() (wait hubTime, some bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	now := h.now()
	for len(h.timers) > 0 {
		u := h.timers[0]
		// This is the earliest timer: no other timer is due.
		if u.wakeAt > now {
			return u.wakeAt - now, true
		}
		h.stopTimer(u)
		// The user waited until the next state may be sent (u.nextSendAt), or until time alone changes their badges. markDirty expects
		// the phase clean. If u.nextSendAt has not come yet, markDirty waits for it.
		u.phase = phaseClean
		h.markDirty(u, now)
	}
	return 0, false
}

// fix moves the user at index i up or down to their position in the heap.
func (t timers) fix(i int) {
	for i > 0 {
		parent := (i - 1) / 2
		if t[parent].wakeAt <= t[i].wakeAt {
			break
		}
		t.swap(i, parent)
		i = parent
	}
	for {
		least := 2*i + 1
		if least >= len(t) {
			return
		}
		if right := least + 1; right < len(t) && t[right].wakeAt < t[least].wakeAt {
			least = right
		}
		if t[i].wakeAt <= t[least].wakeAt {
			return
		}
		t.swap(i, least)
		i = least
	}
}

// swap exchanges two users, and tells them their new indexes.
func (t timers) swap(i, j int) {
	t[i], t[j] = t[j], t[i]
	t[i].timerIndex, t[j].timerIndex = int32(i), int32(j)
}
