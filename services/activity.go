package services

import (
	"time"
)

// ActivityThresholds define when a user counts as idle and as dormant, by the time since their last visit.
type ActivityThresholds struct {
	IdleAfter time.Duration // from then on big authors' posts are not pushed to the user
	// from then on nothing is pushed to the user, and Redis keeps nothing of them; at least IdleAfter
	DormantAfter time.Duration

	// FormerIdleCutoff is the latest idle cutoff of all former thresholds. A user last seen before it may lack posts, and so counts as
	// idle, even if the time since their last visit is below IdleAfter: see IdleCutoff.
	FormerIdleCutoff time.Time
}

// The bounds of both thresholds.
const (
	minActivityThreshold = time.Hour
	MaxActivityThreshold = 365 * 24 * time.Hour
)

// Check reports whether the thresholds are valid.
func (t ActivityThresholds) Check() error {
	switch {
	case t.IdleAfter < minActivityThreshold || t.IdleAfter > MaxActivityThreshold:
		return Errorf(Invalid, "idleAfterHours: 1 to %d are allowed, got %d", hours(MaxActivityThreshold), hours(t.IdleAfter))
	case t.DormantAfter < t.IdleAfter || t.DormantAfter > MaxActivityThreshold:
		return Errorf(Invalid, "dormantAfterHours: idleAfterHours (%d) to %d are allowed, got %d",
			hours(t.IdleAfter), hours(MaxActivityThreshold), hours(t.DormantAfter))
	}
	return nil
}

// hours is a threshold in the unit of the API.
func hours(d time.Duration) int { return int(d / time.Hour) }

// ReplacedBy returns the thresholds next, with the FormerIdleCutoff that they need if they replace t at the time at. Users who were
// idle under t got no posts of big authors. With a longer IdleAfter they would count as active: FormerIdleCutoff keeps them idle
// until they come back and are rebuilt.
func (t ActivityThresholds) ReplacedBy(next ActivityThresholds, at time.Time) ActivityThresholds {
	next.FormerIdleCutoff = t.IdleCutoff(at)
	return next
}

// IdleCutoff is the idle cutoff at a given time: a user whose last visit was before it counts as idle.
func (t ActivityThresholds) IdleCutoff(now time.Time) time.Time {
	if since := now.Add(-t.IdleAfter); since.After(t.FormerIdleCutoff) {
		return since
	}
	return t.FormerIdleCutoff
}

// DormantCutoff is the dormant cutoff at a given time: a user whose last visit was before it counts as dormant.
func (t ActivityThresholds) DormantCutoff(now time.Time) time.Time { return now.Add(-t.DormantAfter) }
