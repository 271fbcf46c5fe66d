package transport

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// frontContext is the context of a request. It has its deadline from the start, but makes a timer only if a goroutine waits for
// it. Most answers by a HotAnswerFunc never wait, and a context with a timer would be a large part of their cost.
type frontContext struct {
	values   context.Context // has the values of the request, and never ends
	deadline time.Time       // when the operation is given up
	// mu guards ended and the creation of inner, so that a wait that begins during end is cancelled too.
	mu    sync.Mutex
	ended bool                              // end was called
	inner atomic.Pointer[frontInnerContext] // nil until the first call of Done
}

// frontInnerContext is the real context behind a frontContext. It is made by the first call of Done.
type frontInnerContext struct {
	context.Context
	cancel context.CancelFunc // ends it, and frees its timer
}

// begin initializes a frontContext before other goroutines know it. values must be a context that never ends, because its end
// would not be noticed.
func (c *frontContext) begin(values context.Context, within time.Duration) {
	c.values, c.deadline = values, deadlineAfter(within)
}

// end cancels the context, which frees the timer. It is called once, when the answer is finished.
func (c *frontContext) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	if inner := c.inner.Load(); inner != nil {
		inner.cancel()
	}
}

// Deadline returns the time at which the operation is given up.
func (c *frontContext) Deadline() (time.Time, bool) { return c.deadline, true }

// Done returns the channel that is closed at the deadline or by end. The first call starts the timer.
func (c *frontContext) Done() <-chan struct{} {
	if inner := c.inner.Load(); inner != nil {
		return inner.Done()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	inner := c.inner.Load()
	if inner == nil {
		inner = &frontInnerContext{}
		inner.Context, inner.cancel = context.WithDeadline(c.values, c.deadline)
		// The operation is over, so a late caller must not wait for the deadline.
		if c.ended {
			inner.cancel()
		}
		c.inner.Store(inner)
	}
	return inner.Done()
}

// Err returns why the context has ended. As long as nobody has called Done, it compares the deadline with the clock.
func (c *frontContext) Err() error {
	if inner := c.inner.Load(); inner != nil {
		return inner.Err()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.ended:
		return context.Canceled
	case time.Until(c.deadline) <= 0:
		return context.DeadlineExceeded
	}
	return nil
}

// Value returns a value of the context. After Done was called it asks the inner context: package context then finds its own type
// there, and a derived context needs no goroutine.
func (c *frontContext) Value(key any) any {
	if inner := c.inner.Load(); inner != nil {
		return inner.Value(key)
	}
	return c.values.Value(key)
}
