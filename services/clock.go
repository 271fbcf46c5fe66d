package services

import (
	"context"
	"sync"
	"time"
)

// Clock tells the time. Tests hand in their own; nothing outside package main asks the time package for now.
type Clock interface{ Now() time.Time }

// SystemClock is the machine's clock.
type SystemClock struct{}

// Now is the machine's time.
func (SystemClock) Now() time.Time { return time.Now() }

// AtEach does something after each so long, until ctx ends. What takes longer is not made up for.
func AtEach(ctx context.Context, period time.Duration, do func(ctx context.Context)) error {
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

// maxAhead bounds how far an id seen elsewhere may push our clock: beyond it the id is not to be trusted.
const maxAhead = 5 * time.Minute

// IDClock makes post ids that rise strictly on this node, even when the machine's clock is set back, and
// that are greater than every id this node has seen. Two nodes differ in their node bits; where chance gave
// both the same, the primary key of the posts catches the tie. It is safe for concurrent use.
type IDClock struct {
	clock Clock
	node  PostID

	mu   sync.Mutex
	last PostID // time and sequence, node bits 0
}

// NewIDClock makes a clock for the node whose low 10 bits are used.
func NewIDClock(clock Clock, node uint16) *IDClock {
	return &IDClock{clock: clock, node: PostID(node) & (1<<idNodeBits - 1)}
}

// Next makes an id: of now, or just after the last one.
func (c *IDClock) Next() PostID {
	now := PostIDAt(c.clock.Now())
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = max(now, c.last+1<<idNodeBits)
	return c.last | c.node
}

// Observe keeps later ids greater than one that was seen. An id from more than 5 minutes ahead is left out.
func (c *IDClock) Observe(id PostID) {
	if id > PostIDAt(c.clock.Now().Add(maxAhead)) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = max(c.last, id&^(1<<idNodeBits-1))
}
