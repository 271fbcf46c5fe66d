package services

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// Clock tells the time. Tests hand in their own; nothing outside package main asks the time package for now.
type Clock interface{ Now() time.Time }

// SystemClock is the machine's clock.
type SystemClock struct{}

// Now is the machine's time.
func (SystemClock) Now() time.Time { return time.Now() }

// Every does something after each so long, until ctx ends. What takes longer is not made up for.
func Every(ctx context.Context, period time.Duration, do func(ctx context.Context)) error {
	ticker := time.NewTicker(period)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
			do(ctx)
		}
	}
}

const (
	// maxAhead bounds how far an id seen elsewhere may push our clock: beyond it the id is not to be trusted.
	maxAhead = 24 * time.Hour
	// apart is the least difference from the database's clock that is corrected: less is the way of a message.
	apart = 100 * time.Millisecond
)

// IDClock is a hybrid clock. It makes post ids that rise strictly on this node, even when the machine's clock is set back, and
// that are greater than every id this node has seen. Where the machine's clock is known to be off, it goes by the database's,
// which all nodes share. Two nodes differ in their node bits; where chance gave both the same, the primary key of the posts
// catches the tie. It is safe for concurrent use.
type IDClock struct {
	clock Clock
	node  PostID
	ahead atomic.Int64 // of clock, before the database's

	mu   sync.Mutex
	last PostID // time and sequence, node bits 0
}

// NewIDClock makes a clock for the node whose low 10 bits are used.
func NewIDClock(clock Clock, node uint16) *IDClock {
	return &IDClock{clock: clock, node: PostID(node) & (1<<idNodeBits - 1)}
}

// Next makes an id: of now, or just after the last one.
func (c *IDClock) Next() PostID {
	now := PostIDAt(c.corrected())
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = max(now, c.last+1<<idNodeBits)
	return c.last | c.node
}

// SetAhead says by how much the machine's clock is ahead of the database's; negative when it is behind.
func (c *IDClock) SetAhead(ahead time.Duration) {
	if ahead.Abs() < apart {
		ahead = 0
	}
	c.ahead.Store(int64(ahead))
}

func (c *IDClock) corrected() time.Time { return c.clock.Now().Add(-time.Duration(c.ahead.Load())) }

// Now is the time of the next id, to the millisecond: that of the database's clock, and never before an id that was made or
// seen. What claims to have happened is measured against it, so that nothing is in the future because a clock was set back.
func (c *IDClock) Now() time.Time {
	c.mu.Lock()
	last := c.last
	c.mu.Unlock()
	return max(PostIDAt(c.corrected()), last).Time()
}

// Observe keeps later ids greater than one that was seen. An id from more than a day ahead is left out.
func (c *IDClock) Observe(id PostID) {
	if id > PostIDAt(c.corrected().Add(maxAhead)) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = max(c.last, id&^(1<<idNodeBits-1))
}
