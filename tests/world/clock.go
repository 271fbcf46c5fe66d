package world

import (
	"sync/atomic"
	"time"
)

// offsetClock is the machine's clock plus the time that a test has added.
type offsetClock struct{ OffsetNanos atomic.Int64 }

// Now returns the machine's time plus OffsetNanos.
func (c *offsetClock) Now() time.Time { return time.Now().Add(time.Duration(c.OffsetNanos.Load())) }

// Advance moves the clock forward, or back by a negative duration.
func (c *offsetClock) Advance(d time.Duration) { c.OffsetNanos.Add(int64(d)) }

// avoidEndOfHalfDay advances the clock to the next half day if the present one could end during a history, which is a test's series
// of random steps. So all notifications of a history fall into one half day, by which they are grouped.
func (c *offsetClock) avoidEndOfHalfDay() {
	const halfDay, history = 12 * time.Hour, time.Hour // history: longer than any history takes
	now := c.Now()
	if next := now.Truncate(halfDay).Add(halfDay); next.Sub(now) < history {
		c.Advance(next.Sub(now))
	}
}
