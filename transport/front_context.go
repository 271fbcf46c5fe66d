package transport

import (
	"context"
	"sync"
	"sync/atomic"
	"time"
)

// frontContext is the context of a request: it has its deadline from the start, but needs a timer only if somebody waits for it.
// Most compiled answers never wait, and a context with a timer would be a good part of their cost.
type frontContext struct {
	values context.Context
	until  time.Time
	// mu guards ended and the making of waiting, so that a wait that begins during the end is cancelled too.
	mu      sync.Mutex
	ended   bool
	waiting atomic.Pointer[frontWaiting]
}

// frontWaiting is the real context behind a frontContext. It is made by the first call of Done.
type frontWaiting struct {
	context.Context
	cancel context.CancelFunc
}

// begin sets a frontContext up before anybody else knows it. values must never end by itself: nobody listens to it.
func (c *frontContext) begin(values context.Context, within time.Duration) {
	c.values, c.until = values, deadline(within)
}

// end cancels the context, which frees the timer. It is called once, when the answer is rendered.
func (c *frontContext) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = true
	if inner := c.waiting.Load(); inner != nil {
		inner.cancel()
	}
}

// Deadline is when the operation is given up.
func (c *frontContext) Deadline() (time.Time, bool) { return c.until, true }

// Done begins to wait for the deadline.
func (c *frontContext) Done() <-chan struct{} {
	if inner := c.waiting.Load(); inner != nil {
		return inner.Done()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	inner := c.waiting.Load()
	if inner == nil {
		inner = &frontWaiting{}
		inner.Context, inner.cancel = context.WithDeadline(c.values, c.until)
		// The operation is over: whoever asks now must not wait for the deadline.
		if c.ended {
			inner.cancel()
		}
		c.waiting.Store(inner)
	}
	return inner.Done()
}

// Err says why the context has ended. Without anybody who waits, the clock says it.
func (c *frontContext) Err() error {
	if inner := c.waiting.Load(); inner != nil {
		return inner.Err()
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.ended:
		return context.Canceled
	case time.Until(c.until) <= 0:
		return context.DeadlineExceeded
	}
	return nil
}

// Value finds what the context has; a derived context finds the one that waits, and needs no goroutine for it.
func (c *frontContext) Value(key any) any {
	if inner := c.waiting.Load(); inner != nil {
		return inner.Value(key)
	}
	return c.values.Value(key)
}
