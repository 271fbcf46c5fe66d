package services

import (
	"time"
)

// ActivityThresholds say when a user counts as idle and as dormant, by the time since they were seen last.
type ActivityThresholds struct {
	IdleAfter    time.Duration // then big authors' posts are not pushed to them
	DormantAfter time.Duration // then nothing is pushed to them and Redis keeps nothing of them; IdleAfter at least

	// AwayBefore is the latest moment at which any former thresholds began to treat users as idle. Whoever was not seen
	// since may lack posts, although the thresholds that hold now would have served them.
	AwayBefore time.Time
}

// The bounds of both thresholds.
const (
	MinActivityThreshold = time.Hour
	MaxActivityThreshold = 365 * 24 * time.Hour
)

// Check says whether thresholds are fit.
func (t ActivityThresholds) Check() error {
	switch {
	case t.IdleAfter < MinActivityThreshold || t.IdleAfter > MaxActivityThreshold:
		return Errorf(Invalid, "idleAfterHours: 1 to %d are allowed, got %d", hours(MaxActivityThreshold), hours(t.IdleAfter))
	case t.DormantAfter < t.IdleAfter || t.DormantAfter > MaxActivityThreshold:
		return Errorf(Invalid, "dormantAfterHours: idleAfterHours (%d) to %d are allowed, got %d",
			hours(t.IdleAfter), hours(MaxActivityThreshold), hours(t.DormantAfter))
	}
	return nil
}

func hours(d time.Duration) int { return int(d / time.Hour) }

// Then is what follows these thresholds when others are set at a moment.
func (t ActivityThresholds) Then(next ActivityThresholds, at time.Time) ActivityThresholds {
	next.AwayBefore = t.IdleSince(at)
	return next
}

// IdleSince is the moment before which a user who was not seen since counts as idle at a time.
func (t ActivityThresholds) IdleSince(now time.Time) time.Time {
	if since := now.Add(-t.IdleAfter); since.After(t.AwayBefore) {
		return since
	}
	return t.AwayBefore
}

// DormantSince is the moment before which a user who was not seen since counts as dormant at a time.
func (t ActivityThresholds) DormantSince(now time.Time) time.Time { return now.Add(-t.DormantAfter) }
