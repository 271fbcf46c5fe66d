package services

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"
)

// Clock returns the time. Tests use clocks of their own.
type Clock interface{ Now() time.Time }

// SystemClock is the machine's clock.
type SystemClock struct{}

// Now is the machine's time.
func (SystemClock) Now() time.Time { return time.Now() }

// Every runs do once in each period, until ctx ends. Periods missed by a slow run are not made up for.
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

// TakeTurns calls turn until ctx ends, and rests after each call for as long as turn says. It logs message when turns begin to fail,
// because an engine is away, and when they succeed again: not at each failed turn.
func TakeTurns(ctx context.Context, log *slog.Logger, message string, turn func(ctx context.Context) (rest time.Duration, err error)) error {
	waits := false
	for {
		rest, err := turn(ctx)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		if failed := err != nil; failed != waits {
			waits = failed
			log.Info(message, "waits", waits, "error", err)
		}
		if err := Sleep(ctx, rest); err != nil {
			return err
		}
	}
}

// Sleep waits for a duration. If ctx ends first, it returns the error of ctx.
func Sleep(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-timer.C:
		return nil
	}
}

// Signal leaves a token in a channel, unless it is full: one token stands for any number of signals.
func Signal(tokens chan<- struct{}) {
	select {
	case tokens <- struct{}{}:
	default:
	}
}

const (
	// maxForeignIDAhead bounds how far an ID of another node may move this node's IDClock forward: an ID beyond it is not trusted.
	maxForeignIDAhead = 24 * time.Hour
	// minClockDrift is the least difference from the database's clock that is corrected: the delay of a message explains a smaller
	// one.
	minClockDrift = 100 * time.Millisecond
)

// IDClock is a hybrid clock. It makes sortable IDs that rise strictly on this node, even if the machine's clock is set back, and that
// are greater than every ID this node has seen. If the machine's clock is known to be off, the IDs follow the database's clock,
// which all nodes share. Two nodes differ in their node bits; if chance gives both the same bits, the primary key of a table
// rejects the duplicate. It is safe for concurrent use.
type IDClock struct {
	clock                      Clock        // this machine's clock
	nodeBits                   SortableID   // the node bits of all IDs that this clock makes
	aheadOfDatabaseNanoseconds atomic.Int64 // how far clock is ahead of the database's

	mu     sync.Mutex // guards lastID and past
	lastID SortableID // time and sequence, node bits 0
	past   pastIDs    // the IDs that NextAt made
}

// NewIDClock makes a clock for a node. It uses the low 10 bits of the node's number.
func NewIDClock(clock Clock, node uint16) *IDClock {
	return &IDClock{clock: clock, nodeBits: SortableID(node) & (1<<idNodeBits - 1)}
}

// Next makes an ID of the present time, or just after the last ID.
func (c *IDClock) Next() SortableID {
	now := SortableIDAt(c.correctedTime())
	c.mu.Lock()
	defer c.mu.Unlock()
	// If the clock has not moved on since the last ID, take the next sequence number. More than 1,024 IDs in a millisecond
	// continue in the next one.
	c.lastID = max(now, c.lastID+1<<idNodeBits)
	if c.lastID&pastEventBit != 0 { // an event's ID was observed, or the half of the millisecond without pastEventBit is full
		_, c.lastID = c.lastID.MillisecondBounds()
	}
	return c.lastID | c.nodeBits
}

// SetAheadOfDatabase sets by how much the machine's clock is ahead of the database's; negative if it is behind.
func (c *IDClock) SetAheadOfDatabase(ahead time.Duration) {
	if ahead.Abs() < minClockDrift {
		ahead = 0
	}
	c.aheadOfDatabaseNanoseconds.Store(int64(ahead))
}

// correctedTime is the machine's time without its known difference from the database's.
func (c *IDClock) correctedTime() time.Time {
	return c.clock.Now().Add(-time.Duration(c.aheadOfDatabaseNanoseconds.Load()))
}

// Now is the time of the next ID, to the millisecond: the database's time, and never before an ID that was made or seen. Reported
// times are compared with it, so that no event lies in the future because a clock was set back.
func (c *IDClock) Now() time.Time {
	c.mu.Lock()
	last := c.lastID
	c.mu.Unlock()
	return max(SortableIDAt(c.correctedTime()), last).Time()
}

// Observe keeps later IDs greater than id, which another node made. It ignores an ID that is more than a day ahead.
func (c *IDClock) Observe(id SortableID) {
	if id > SortableIDAt(c.correctedTime().Add(maxForeignIDAhead)) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	// The other node's bits are cleared: Next adds this node's.
	c.lastID = max(c.lastID, id&^(1<<idNodeBits-1))
}
