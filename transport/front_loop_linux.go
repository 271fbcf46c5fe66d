package transport

import (
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"time"
)

// frontLoops serve the connections whose requests can be answered jointly. A loop takes all of its connections that have a request,
// reads the data for all of them in one round trip, and writes the answers. This saves, for each answer, most of the time of
// scheduling a goroutine and of a round trip to Redis.
//
// A loop does only that. For everything else the connection leaves the loop: for a request in pieces, another operation, a refusal, or
// an answer that waits for the client. The connection then gets a goroutine again, which goes on where the loop has stopped.
type frontLoops struct {
	schema    JointSchema
	loops     []*frontLoop  // one for each processor
	joinCount atomic.Uint32 // counts the connections, which the loops get in turn
}

// newFrontLoops makes one loop for each processor. A loop without connections has neither a goroutine nor a descriptor.
func newFrontLoops(front *Front, schema JointSchema) *frontLoops {
	l := &frontLoops{schema: schema, loops: make([]*frontLoop, runtime.GOMAXPROCS(0))}
	for i := range l.loops {
		l.loops[i] = &frontLoop{front: front, schema: schema, conns: map[uint64]*frontConn{}}
	}
	return l
}

// join gives a connection without input to a loop, after an answer. lost reports that the connection was closed for a shutdown
// meanwhile. If both results are false, the goroutine of the connection goes on.
func (l *frontLoops) join(c *frontConn) (joined, lost bool) {
	if c.loop.raw == nil {
		c.loop.raw = rawConnOf(c.conn)
	}
	c.jointStreak = 0
	if c.loop.raw == nil {
		return false, false
	}
	loop := l.loops[int(l.joinCount.Add(1))%len(l.loops)]
	c.loop.lastRequestNanos.Store(nanosSinceProcessStart())
	c.loop.missedInput.Store(false)
	// The order matters: when closeIfIdle finds the connection idle, abort must find the loop. abort then shuts the socket down,
	// and the loop sees that.
	c.loop.owner.Store(loop)
	c.state.Store(frontConnIdle)
	if !c.front.closesIdleConns.Load() && loop.add(c) {
		return true, false
	}
	c.loop.owner.Store(nil)
	return false, !c.state.CompareAndSwap(frontConnIdle, frontConnBusy)
}

// nanosSinceProcessStart returns the monotonic time since the start of the process, in nanoseconds.
func nanosSinceProcessStart() int64 { return int64(time.Since(processStart)) }

// processStart is the time from which nanosSinceProcessStart counts.
var processStart = time.Now()

// loopConn is the part of a connection that loops use. raw is the access to its descriptor: it is set before owner, and does not
// change while the connection is in a loop.
type loopConn struct {
	owner            atomic.Pointer[frontLoop] // its loop; nil: the connection has a goroutine
	pollKey          uint64                    // its key in the loop's conns, which epoll reports; set under the loop's lock
	raw              syscall.RawConn           // access to its descriptor
	lastRequestNanos atomic.Int64              // the time of the last request, by nanosSinceProcessStart
	// Input came while the connection was busy. epoll reports input only once, so a goroutine takes over the connection.
	missedInput atomic.Bool
}

// shutDownSocket shuts down the socket of a connection in a loop: the loop then sees the end of the input. It returns false if the
// connection is in no loop.
func (l *loopConn) shutDownSocket() (in bool) {
	if l.owner.Load() == nil {
		return false
	}
	_ = l.raw.Control(func(descriptor uintptr) { _ = syscall.Shutdown(int(descriptor), syscall.SHUT_RDWR) })
	return true
}

// removeClosedFromLoop removes a connection from its loop if it was closed while it joined the loop: epoll reports no event for a
// closed descriptor. The caller may hold the front's lock.
func (l *loopConn) removeClosedFromLoop(c *frontConn) {
	if loop := l.owner.Load(); loop != nil {
		go loop.closeConn(c)
	}
}

// frontLoop is one of the front's event loops: a goroutine that polls the sockets of its connections and answers them, or several
// goroutines while reads are slow.
type frontLoop struct {
	front  *Front
	schema JointSchema

	mu           sync.Mutex            // guards the fields below
	poll         *loopPoll             // nil while there are no connections
	conns        map[uint64]*frontConn // by key; unlike a descriptor, a key is never used again
	lastPollKey  uint64                // the newest key
	spareRunners []*loopRunner         // with their buffers, for the next call of startExtraRunner
}

// loopPoll is an epoll descriptor.
type loopPoll struct {
	file *os.File        // of the descriptor
	raw  syscall.RawConn // by which a goroutine waits for the descriptor
	fd   int             // the descriptor
}

// add registers a connection; false if the system refuses. epoll reports input that is there already, and then each new input once.
func (l *frontLoop) add(c *frontConn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.poll == nil {
		file, raw, number, err := openEpoll()
		if err != nil {
			return false
		}
		l.poll = &loopPoll{file, raw, number}
		l.poll.scheduleIdleClose(l.front.httpServer.IdleTimeout)
		go l.spareOrNewRunner().run(l.poll)
	}
	l.lastPollKey++
	c.loop.pollKey = l.lastPollKey
	if !l.poll.epollCtl(c, syscall.EPOLL_CTL_ADD) {
		l.closePollIfUnused()
		return false
	}
	l.conns[c.loop.pollKey] = c
	return true
}

// claimOutcome says what claimConn has found.
type claimOutcome int

const (
	claimedNothing         claimOutcome = iota // the connection has left the loop, or another runner has it
	claimedWithInput                           // the caller has the connection, which has input
	claimedWithMissedInput                     // as claimedWithInput, but a part of the input, or its end, may not be reported again
	claimFoundClosed                           // the connection was closed while it was idle: the caller calls closeConn
)

// claimConn makes a connection busy, for the loopRunner that calls it. An old key does no harm: conns has only connections that belong to
// this loop, and no key is used again.
func (l *frontLoop) claimConn(key uint64) (*frontConn, claimOutcome) {
	l.mu.Lock()
	defer l.mu.Unlock()
	c := l.conns[key]
	switch {
	case c == nil:
		return nil, claimedNothing
	case c.state.CompareAndSwap(frontConnIdle, frontConnBusy):
		return c, claimedWithInput
	case c.state.Load() == frontConnClosed:
		return c, claimFoundClosed
	}
	// Another runner has the connection. That runner sees the flag when it releases the connection, unless it has just released it:
	// then the second swap succeeds.
	c.loop.missedInput.Store(true)
	if c.state.CompareAndSwap(frontConnIdle, frontConnBusy) {
		return c, claimedWithMissedInput
	}
	return nil, claimedNothing
}

// closeIfIdle closes a connection that has no request.
func (l *frontLoop) closeIfIdle(key uint64) {
	l.mu.Lock()
	c := l.conns[key]
	closes := c != nil && c.state.CompareAndSwap(frontConnIdle, frontConnClosed)
	l.mu.Unlock()
	if closes {
		l.closeConn(c)
	}
}

// remove takes a connection out of the loop. Of several calls only one returns true.
func (l *frontLoop) remove(c *frontConn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.conns[c.loop.pollKey] != c {
		return false
	}
	delete(l.conns, c.loop.pollKey)
	l.poll.epollCtl(c, syscall.EPOLL_CTL_DEL)
	c.loop.owner.Store(nil)
	l.closePollIfUnused()
	return true
}

// closePollIfUnused closes the epoll descriptor if there is no connection, which ends the runners. The lock is held.
func (l *frontLoop) closePollIfUnused() {
	if len(l.conns) == 0 {
		_ = l.poll.file.Close()
		l.poll = nil
	}
}

// closeConn closes a connection. Of several calls only the first has an effect.
func (l *frontLoop) closeConn(c *frontConn) {
	c.state.Store(frontConnClosed)
	if l.remove(c) {
		_ = c.conn.Close()
		l.front.removeConn(c)
	}
}

// closeIdleConns closes the connections that had no request for the idle time.
func (l *frontLoop) closeIdleConns(idle time.Duration) {
	l.mu.Lock()
	var silent []*frontConn
	for _, c := range l.conns {
		if time.Duration(nanosSinceProcessStart()-c.loop.lastRequestNanos.Load()) > idle && c.state.CompareAndSwap(frontConnIdle, frontConnClosed) {
			silent = append(silent, c)
		}
	}
	l.mu.Unlock()
	for _, c := range silent {
		l.closeConn(c)
	}
}

// scheduleIdleClose sets the time at which the wait for input ends, so that the runner then calls closeIdleConns.
func (p *loopPoll) scheduleIdleClose(idle time.Duration) {
	if idle > 0 {
		_ = p.file.SetReadDeadline(deadlineAfter(idle / 8)) // an error shows at the next wait
	}
}

// spareOrNewRunner returns a runner to start: a spare one, or a new one. The lock is held.
func (l *frontLoop) spareOrNewRunner() *loopRunner {
	if last := len(l.spareRunners) - 1; last >= 0 {
		r := l.spareRunners[last]
		l.spareRunners = l.spareRunners[:last]
		return r
	}
	return newLoopRunner(l)
}

// startExtraRunner starts another runner, because the read of the present one takes long.
func (l *frontLoop) startExtraRunner(poll *loopPoll) {
	l.mu.Lock()
	r := l.spareOrNewRunner()
	l.mu.Unlock()
	go r.run(poll)
}

// keepSpareRunner keeps a runner for the next call of startExtraRunner. Most loops never need one.
func (l *frontLoop) keepSpareRunner(r *loopRunner) {
	const most = 4 // spare runners
	l.mu.Lock()
	defer l.mu.Unlock()
	if len(l.spareRunners) < most {
		l.spareRunners = append(l.spareRunners, r)
	}
}

// epollCtl registers a connection's key, or takes it away; false if the system refuses.
func (p *loopPoll) epollCtl(c *frontConn, operation int) bool {
	const events = syscall.EPOLLIN | syscall.EPOLLRDHUP | syscall.EPOLLET&0xffffffff // EPOLLET is negative on some processors
	event := syscall.EpollEvent{Events: events, Fd: int32(uint32(c.loop.pollKey)), Pad: int32(uint32(c.loop.pollKey >> 32))}
	var failed error
	err := c.loop.raw.Control(func(descriptor uintptr) { failed = syscall.EpollCtl(p.fd, operation, int(descriptor), &event) })
	return err == nil && failed == nil
}
