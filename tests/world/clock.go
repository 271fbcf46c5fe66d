package world

import (
	"sync/atomic"
	"time"
)

// stepClock is the machine's clock plus the time that a test has added.
type stepClock struct{ Ahead atomic.Int64 }

// Now is the machine's time, plus what the clock was advanced by.
func (c *stepClock) Now() time.Time { return time.Now().Add(time.Duration(c.Ahead.Load())) }

// Advance moves the clock forward, or back by a negative duration.
func (c *stepClock) Advance(d time.Duration) { c.Ahead.Add(int64(d)) }
