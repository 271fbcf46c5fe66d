package transport

import (
	"sync/atomic"
	"time"
)

// A client that requests an answer and does not read it keeps the answer in memory until the write deadline. That deadline
// is long, for slow networks, and many such clients could fill the memory in the meantime. So while the waiting answers
// exceed a limit, clients get a shorter deadline.

const (
	// backlogLimit is the default of SocketConfig.MaxBacklogBytes, in bytes. The answers take about twice as much memory: their
	// data and their encoded texts.
	backlogLimit = 128 << 20
	// backloggedWriteTimeout is the write deadline of a long answer whose write begins while the backlog is over its limit. Data
	// that fits into the network buffers of both sides is still written at once.
	backloggedWriteTimeout = 2 * time.Second
)

// answerBacklog counts the bytes of answers that wait for their clients, over HTTP, sockets and event streams together. Small answers
// are not counted, because they fit into the buffers of a connection. It is safe for concurrent use. It refuses no answer: the
// operation was charged and executed, so only the write deadline changes.
type answerBacklog struct {
	limitBytes int64 // see SocketConfig.MaxBacklogBytes
	// Atomic and not behind a lock: the long answers of all connections are counted here, and a slightly old sum is good enough.
	waitingBytes atomic.Int64 // the bytes of the long answers that are not written yet
}

// addAnswerBytes counts an answer of so many bytes. The caller calls removeAnswerBytes once the answer is written or dropped.
func (b *answerBacklog) addAnswerBytes(answer int) {
	if answer > maxSmallAnswerBytes {
		b.waitingBytes.Add(int64(answer))
	}
}

// removeAnswerBytes removes an answer from the count. The length of the answer must be the one that was passed to addAnswerBytes.
func (b *answerBacklog) removeAnswerBytes(answer int) {
	if answer > maxSmallAnswerBytes {
		b.waitingBytes.Add(-int64(answer))
	}
}

// writeTimeout returns the time that the write of an answer of so many bytes may take, at most usual. It is called after
// addAnswerBytes, so that the answer itself is in the sum. An answer whose write began before the backlog grew keeps its longer
// deadline.
func (b *answerBacklog) writeTimeout(answer int, usual time.Duration) time.Duration {
	// A small answer does not wait for its client and keeps the usual time.
	if answer > maxSmallAnswerBytes && b.waitingBytes.Load() > b.limitBytes {
		return min(usual, backloggedWriteTimeout)
	}
	return usual
}
