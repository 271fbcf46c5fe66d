package transport

import (
	"sync/atomic"
	"time"
)

// A client that requests an answer and does not read it keeps the answer in memory until the write deadline. That deadline
// is long, for slow networks, and many such clients could fill the memory in the meantime. So while the waiting answers
// exceed a limit, clients get a shorter deadline.

const (
	// backlogLimit is the default of SocketConfig.Backlog, in bytes. The answers take about twice as much memory: their data and
	// their encoded texts.
	backlogLimit = 128 << 20
	// hurriedTimeout is the write deadline of a long answer whose write begins while the backlog is over its limit. Data that fits
	// into the network buffers of both sides is still written at once.
	hurriedTimeout = 2 * time.Second
)

// backlog counts the bytes of answers that wait for their clients, over HTTP, sockets and event streams together. Small answers
// are not counted, because they fit into the buffers of a connection. It is safe for concurrent use. It refuses no answer: the
// operation was charged and executed, so only the write deadline changes.
type backlog struct {
	limit int64 // bytes
	// Atomic and not behind a lock: the long answers of all connections are counted here, and a slightly old sum is good enough.
	waiting atomic.Int64 // bytes of answers
}

// enter counts an answer. The caller calls leave once the answer is written or dropped.
func (b *backlog) enter(answer int) {
	if answer > smallAnswer {
		b.waiting.Add(int64(answer))
	}
}

// leave removes an answer from the count. The length of the answer must be the one that was passed to enter.
func (b *backlog) leave(answer int) {
	if answer > smallAnswer {
		b.waiting.Add(-int64(answer))
	}
}

// writeTimeout returns the time that the write of an answer may take, at most usual. It is called after enter, so that the answer
// itself is in the sum. An answer whose write began before the backlog grew keeps its longer deadline.
func (b *backlog) writeTimeout(answer int, usual time.Duration) time.Duration {
	// A small answer does not wait for its client and keeps the usual time.
	if answer > smallAnswer && b.waiting.Load() > b.limit {
		return min(usual, hurriedTimeout)
	}
	return usual
}
