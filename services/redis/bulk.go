package redis

import (
	"context"
	"time"
)

// minBulkCalls is the number of calls from which on a round trip of a script is bulk work: a user waits for fewer, and Redis executes them
// in about a millisecond.
const minBulkCalls = 50

// maxBulkWait bounds the wait for a turn: behind others, and where Redis hangs. It is several times as long as Redis takes for the largest
// round trip. A caller with several ahead may go before its turn, which reads notice less than if all did. Where Redis hangs, the callers
// fail side by side, as without turns.
const maxBulkWait = 100 * time.Millisecond

// bulkTurn lets one round trip of bulk work of this node be under way at a time. Redis executes what has arrived on one connection before it
// looks at the next. So with several such round trips at once a read would wait for all of them, and not for one. A cluster has no turns:
// one round trip goes to several masters, and a master that hangs would hold up the others.
//
// A turn is a courtesy to reads, and no lock: a caller that has waited for maxWait goes ahead without it.
type bulkTurn struct {
	taken   chan struct{} // holds a value while a caller has the turn
	maxWait time.Duration // maxBulkWait, except in tests
}

// newBulkTurn makes a turn that nobody has.
func newBulkTurn() bulkTurn { return bulkTurn{taken: make(chan struct{}, 1), maxWait: maxBulkWait} }

// wait waits for the turn, at most maxWait and only until ctx ends. The caller then sends its round trip, and calls done after the
// answer.
func (t bulkTurn) wait(ctx context.Context) (done func()) {
	giveBack := func() { <-t.taken }
	select {
	case t.taken <- struct{}{}:
		return giveBack
	default:
	}
	timer := time.NewTimer(t.maxWait)
	defer timer.Stop()
	select {
	case t.taken <- struct{}{}:
		return giveBack
	case <-timer.C:
	case <-ctx.Done():
	}
	return func() {}
}
