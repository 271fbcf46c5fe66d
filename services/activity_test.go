package services

import (
	"testing"
	"time"

	"pgregory.net/rapid"
)

const aDay = 24 * time.Hour

func TestActivityThresholdsAreChecked(t *testing.T) {
	for _, test := range []struct {
		idle, dormant time.Duration
		fit           bool // the thresholds are valid
	}{
		{7 * aDay, 30 * aDay, true}, {time.Hour, time.Hour, true}, {365 * aDay, 365 * aDay, true},
		{0, aDay, false}, {time.Hour - 1, aDay, false}, {2 * aDay, aDay, false}, {aDay, 366 * aDay, false}, {-aDay, aDay, false},
	} {
		err := ActivityThresholds{IdleAfter: test.idle, DormantAfter: test.dormant}.Check()
		if (err == nil) != test.fit || err != nil && CodeOf(err) != Invalid {
			t.Errorf("idle after %s, dormant after %s: %v: want fit %v", test.idle, test.dormant, err, test.fit)
		}
	}
}

// A user who got no pushed posts at some moment since the last visit stays idle until the next visit, however the
// thresholds change.
func TestChangedThresholdsKeepIdleUsersIdle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
		held := ActivityThresholds{IdleAfter: 7 * aDay, DormantAfter: 30 * aDay}
		seen := now.Add(-time.Duration(rapid.IntRange(0, 60*24).Draw(t, "seen")) * time.Hour)
		leftOut := seen.Before(now.Add(-held.IdleAfter))
		for range rapid.IntRange(1, 20).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "set") {
				idle := time.Duration(rapid.IntRange(1, 40*24).Draw(t, "idle")) * time.Hour
				held = held.ReplacedBy(ActivityThresholds{IdleAfter: idle, DormantAfter: max(idle, 30*aDay)}, now)
			} else {
				now = now.Add(time.Duration(rapid.IntRange(0, 15*24).Draw(t, "pass")) * time.Hour)
			}
			leftOut = leftOut || seen.Before(now.Add(-held.IdleAfter))
			if idle := seen.Before(held.IdleCutoff(now)); leftOut && !idle {
				t.Fatalf("seen %s, left out since, and not idle at %s: %+v", seen, now, held)
			} else if idle && !leftOut {
				t.Fatalf("seen %s, never left out, and idle at %s: %+v", seen, now, held)
			}
		}
	})
}
