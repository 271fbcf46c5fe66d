package world

import (
	"sync/atomic"
	"time"
)

// stepClock is the machine's clock and what a test has let pass besides.
type stepClock struct{ Ahead atomic.Int64 }

func (c *stepClock) Now() time.Time { return time.Now().Add(time.Duration(c.Ahead.Load())) }

func (c *stepClock) Advance(d time.Duration) { c.Ahead.Add(int64(d)) }
