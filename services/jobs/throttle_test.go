package jobs_test

import (
	"testing"
	"testing/synctest"
	"time"

	"tidings/services/jobs"
)

// The first pass is due at once, later ones when the gap has passed. The passes of each key are independent.
func TestAThrottleKeepsPassesApart(t *testing.T) {
	var throttle jobs.Throttle[string]
	now := time.Unix(1000, 0)
	due := func(key string, after time.Duration) time.Time { return throttle.NextPassAt(key, now.Add(after)) }
	if at := due("a", 0); !at.IsZero() {
		t.Errorf("the first pass is due at %s", at)
	}
	throttle.BeginPass("a", now, time.Second)
	if at := due("a", time.Second-1); !at.Equal(now.Add(time.Second)) {
		t.Errorf("within the gap the next pass is due at %s", at)
	}
	if at := due("a", time.Second); !at.IsZero() {
		t.Errorf("after the gap the next pass is due at %s", at)
	}
	if at := due("b", 0); !at.IsZero() {
		t.Errorf("another thing waits until %s", at)
	}
}

// Jobs that wait for one pass wake the workers once, when it is due.
func TestAThrottleWakesTheWorkersOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var throttle jobs.Throttle[string]
		woken := make(chan time.Time, 3)
		wake := func() { woken <- time.Now() }
		job := jobs.KeyedJob("kind", "a")
		if got := throttle.DelayJob("a", time.Now(), job, wake); !got.NotBefore.IsZero() {
			t.Errorf("the first job waits until %s", got.NotBefore)
		}
		due := time.Now().Add(time.Second)
		throttle.BeginPass("a", time.Now(), time.Second)
		for range 2 {
			if got := throttle.DelayJob("a", time.Now(), job, wake); !got.NotBefore.Equal(due) || got.Key != "a" {
				t.Errorf("a job within the gap is %+v, due at %s", got, due)
			}
		}
		if at := <-woken; !at.Equal(due) {
			t.Errorf("the workers are woken at %s, want %s", at, due)
		}
		synctest.Wait()
		if len(woken) > 0 {
			t.Error("the workers are woken twice")
		}
	})
}
