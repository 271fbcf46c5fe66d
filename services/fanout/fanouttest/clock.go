package fanouttest

import (
	"sync"
	"time"
)

// Start is where every world's clock starts: noon of a day.
var Start = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

// Clock stands still until it is moved. It is safe for concurrent use.
type Clock struct {
	mu    sync.Mutex
	now   time.Time
	flows time.Time // since when it goes on as time does; zero: it stands still
}

// Now is where the clock stands.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.flows.IsZero() {
		return c.now.Add(time.Since(c.flows)).Truncate(time.Microsecond)
	}
	return c.now
}

// Flow lets the clock go on as time does, from where it stands.
func (c *Clock) Flow() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.flows = time.Now()
}

// Advance moves the clock; a negative time sets it back.
func (c *Clock) Advance(by time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(by)
}
