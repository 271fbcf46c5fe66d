package fanouttest

import (
	"sync"
	"time"
)

// StartTime is where every world's clock starts: noon of a day.
var StartTime = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

// Clock stands still until a test moves it. It is safe for concurrent use.
type Clock struct {
	mu           sync.Mutex // guards the fields below
	now          time.Time  // the time while it stands still; while it runs, the real time since runningSince comes on top
	runningSince time.Time  // the real time since which it runs; zero: it stands still
}

// Now is the time of the clock.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.runningSince.IsZero() {
		// SQL keeps microseconds: a time that is written and read again must equal itself.
		return c.now.Add(time.Since(c.runningSince)).Truncate(time.Microsecond)
	}
	return c.now
}

// RunInRealTime lets the clock run as real time does, from its present time.
func (c *Clock) RunInRealTime() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.runningSince = time.Now()
}

// Advance moves the clock; a negative time sets it back.
func (c *Clock) Advance(by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(by)
}
