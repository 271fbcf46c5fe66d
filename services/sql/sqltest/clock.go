package sqltest

import (
	"sync"
	"time"
)

// Clock is a clock that stands until it is moved. It is safe for concurrent use.
type Clock struct {
	mu  sync.Mutex // guards now
	now time.Time
}

// NewClock is a clock that stands at a time with microseconds.
func NewClock() *Clock { return &Clock{now: time.Date(2026, 3, 14, 9, 26, 53, 589793000, time.UTC)} }

// Now is the time at which the clock stands.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Advance moves the clock.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// Set moves the clock to a time, which may be earlier.
func (c *Clock) Set(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = now
}
