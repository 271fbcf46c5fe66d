package transport

import (
	"sync/atomic"
	"time"
)

// A client that requests an answer and does not read it keeps the answer in memory until the write deadline. That deadline
// is long, for slow networks, and many such clients could fill the memory in the meantime. So while the waiting answers
// exceed a limit, clients get a shorter deadline.

const (
	// backlogLimit is the default of SocketConfig.Backlog, in bytes. The memory is about twice as much: the data of an answer and
	// its encoded text.
	backlogLimit = 128 << 20
	// hurriedTimeout is the longest write of an answer that begins while the backlog is over its limit. Data that fits the
	// network buffers of both sides is still written at once.
	hurriedTimeout = 2 * time.Second
)

// backlog is how many bytes of answers wait to be taken, over HTTP, sockets and event streams together. Small answers are not
// counted: they fit into the buffers of a connection. It is safe for concurrent use. It refuses nothing: the answer was paid for
// and the operation is done, so only the patience with its client changes.
type backlog struct {
	limit int64
	// Atomic and not behind a lock: every answer of every connection counts here, and a sum that is a moment old is good enough.
	waiting atomic.Int64
}

// enter counts an answer. The caller removes it with leave when it was written or dropped.
func (b *backlog) enter(answer int) {
	if answer > smallAnswer {
		b.waiting.Add(int64(answer))
	}
}

// leave removes an answer. The length is the one that enter was given.
func (b *backlog) leave(answer int) {
	if answer > smallAnswer {
		b.waiting.Add(-int64(answer))
	}
}

// within is how long the write of an answer may take, at most its usual time. It is asked after enter, so that the answer counts
// for itself. An answer that was begun before the backlog grew keeps its longer deadline.
func (b *backlog) within(answer int, usual time.Duration) time.Duration {
	// A small answer waits for nobody and keeps its time.
	if answer > smallAnswer && b.waiting.Load() > b.limit {
		return min(usual, hurriedTimeout)
	}
	return usual
}
