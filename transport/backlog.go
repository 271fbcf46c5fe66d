package transport

import (
	"sync/atomic"
	"time"
)

// A client that asks and does not read leaves its answer in memory until the write deadline. The deadline has room for slow
// networks, and many such clients together fill the memory in that time. So while the answers that wait take too much, clients
// must take theirs sooner.

const (
	// backlogLimit is the default of SocketConfig.Backlog, in bytes. The memory is about twice as much: the data of an answer and its encoded text.
	backlogLimit = 128 << 20
	// hurriedTimeout is the longest write of an answer that begins while the backlog is over its limit. What a client's system
	// and ours have room for is taken at once all the same.
	hurriedTimeout = 2 * time.Second
)

// backlog is how many bytes of answers wait to be taken, over HTTP, sockets and event streams together. Small answers are not
// counted: they fit into the buffers of a connection. It is safe for concurrent use.
type backlog struct {
	limit   int64
	waiting atomic.Int64
}

// enter counts an answer. The caller takes it out with leave once it is written, or will not be.
func (b *backlog) enter(answer int) {
	if answer > smallAnswer {
		b.waiting.Add(int64(answer))
	}
}

// leave takes an answer out.
func (b *backlog) leave(answer int) {
	if answer > smallAnswer {
		b.waiting.Add(-int64(answer))
	}
}

// within is how long the write of an answer may take, at most its usual time.
func (b *backlog) within(answer int, usual time.Duration) time.Duration {
	if answer > smallAnswer && b.waiting.Load() > b.limit {
		return min(usual, hurriedTimeout)
	}
	return usual
}
