package push

import (
	"context"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tidings/services"
	"tidings/services/trace"
)

// manualClock stands still until it is moved.
type manualClock struct{ at time.Time }

func (c *manualClock) Now() time.Time { return c.at }

// Users are woken in the order and at the times of a sorted list.
func TestTimersWakeUsersInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		clock := &manualClock{time.Unix(1000, 0)}
		h := New(Config{Clock: clock})
		model := map[*user]hubTime{}
		users := make([]*user, 12)
		for i := range users {
			users[i] = h.findOrAddUser(services.UserID(i + 1))
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			u := users[rapid.IntRange(0, len(users)-1).Draw(t, "user")]
			switch rapid.IntRange(0, 3).Draw(t, "what") {
			case 0, 1:
				at := h.now() + time.Duration(rapid.IntRange(1, 50).Draw(t, "in"))*time.Millisecond
				h.startTimer(u, at)
				model[u] = at
			case 2:
				h.stopTimer(u)
				delete(model, u)
			case 3:
				clock.at = clock.at.Add(time.Duration(rapid.IntRange(0, 40).Draw(t, "pass")) * time.Millisecond)
				fireTimersAndCompare(t, h, model)
			}
			for i, u := range h.timers {
				if int(u.timerIndex) != i {
					t.Fatalf("the user at %d records the index %d", i, u.timerIndex)
				}
			}
		}
	})
}

// fireTimersAndCompare fires the timers, and checks that the users of the model who are due were woken, in the order of their times.
func fireTimersAndCompare(t *rapid.T, h *Hub, model map[*user]hubTime) {
	h.renderQueue = nil
	wait, some := h.fireDueTimers()
	var due, left []hubTime
	for u, at := range model {
		if at <= h.now() {
			due = append(due, at)
			delete(model, u)
		} else {
			left = append(left, at)
		}
	}
	slices.Sort(due)
	var woken []hubTime
	for _, u := range h.renderQueue {
		woken = append(woken, u.wakeAt)
		u.phase = phaseClean
	}
	if !slices.Equal(woken, due) {
		t.Fatalf("woken %v, want %v", woken, due)
	}
	if some != (len(left) > 0) || some && wait != slices.Min(left)-h.now() {
		t.Fatalf("next in %v (%v), left are %v at %v", wait, some, left, h.now())
	}
}

func TestTimersOfUsersWhoLeave(t *testing.T) {
	clock := &manualClock{time.Unix(1000, 0)}
	h := New(Config{Clock: clock})
	u := h.findOrAddUser(1)
	h.startTimer(u, time.Second)
	h.remove(u)
	clock.at = clock.at.Add(time.Minute)
	if wait, some := h.fireDueTimers(); some || wait != 0 || len(h.renderQueue) != 0 {
		t.Errorf("a removed user was woken: next in %v (%v), ready %d", wait, some, len(h.renderQueue))
	}
}

// A user without watchers has neither a timer nor a position in the render queue.
func TestUsersWithoutWatchersCostNothing(t *testing.T) {
	clock := &manualClock{time.Unix(1000, 0)}
	h := New(Config{Clock: clock,
		WriteLeases: func(context.Context, []services.UserID, time.Duration) error { return nil },
		Render: func(context.Context, []services.UserID) ([]*services.Badges, []error) {
			return []*services.Badges{{Version: services.BadgesVersion(1, 0), NextAt: clock.at.Add(time.Hour)}}, nil
		},
	})
	w := &watcher{slot: newLatestSlot[*services.Badges]("")}
	w.user = h.findOrAddUser(7)
	h.addWatcher(w.user, w)
	var b renderBatch
	h.render(t.Context(), &b)
	if len(h.timers) != 1 {
		t.Fatalf("%d timers while they are watched, want 1 for their NextAt", len(h.timers))
	}
	h.removeWatcher(w.user, w, h.now())
	h.Hint(7, 2, trace.Cause{})
	if len(h.timers) != 0 || len(h.renderQueue) != 0 {
		t.Errorf("%d timers and %d ready, want none for a user without watchers", len(h.timers), len(h.renderQueue))
	}
}
