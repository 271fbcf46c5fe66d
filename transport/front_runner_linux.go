package transport

import (
	"bytes"
	"context"
	"errors"
	"os"
	"runtime/debug"
	"sync/atomic"
	"syscall"
	"time"

	"tidings/services"
)

// loopRunner is a goroutine of a loop. A loop has several only while reads are slow.
type loopRunner struct {
	loop         *frontLoop
	poll         *loopPoll
	relieveTimer *time.Timer // starts another runner if the read of a batch takes long
	relieved     atomic.Bool // another runner has taken over, and this one ends with its batch

	events    []syscall.EpollEvent // what epoll has reported
	slots     []*loopSlot          // used again for each batch
	batchSize int                  // the number of slots in the batch, which are the first ones
	requests  []JointRequest       // of the batch, in the order of its slots

	// The functions are made once and not for each call. text is their argument, count and err are their results.
	wait, read, write func(descriptor uintptr)
	count             int    // the result of the last call
	err               error  // of the last call
	text              []byte // what the next call reads into or writes
}

// loopSlot is one request of a batch.
type loopSlot struct {
	conn    *frontConn
	input   [frontBufferSize]byte // what was read from the connection
	head    *head
	body    []byte        // in input
	known   *knownRequest // the meaning of the body
	request *frontRequest // the context of the request
	out     []byte        // the buffer of the answer
}

// newLoopRunner makes a runner of a loop.
func newLoopRunner(loop *frontLoop) *loopRunner {
	r := &loopRunner{loop: loop, events: make([]syscall.EpollEvent, maxBatch)}
	r.wait = func(descriptor uintptr) {
		r.count, r.err = retryInterrupted(func() (int, error) { return syscall.EpollWait(int(descriptor), r.events, 0) })
	}
	r.read = func(descriptor uintptr) {
		r.count, r.err = retryInterrupted(func() (int, error) { return syscall.Read(int(descriptor), r.text) })
	}
	r.write = func(descriptor uintptr) {
		r.count, r.err = retryInterrupted(func() (int, error) { return syscall.Write(int(descriptor), r.text) })
	}
	r.relieveTimer = time.AfterFunc(time.Hour, func() {
		r.relieved.Store(true)
		loop.relieve(r.poll)
	})
	r.relieveTimer.Stop()
	return r
}

// retryInterrupted repeats a system call that a signal has interrupted.
func retryInterrupted(call func() (int, error)) (n int, err error) {
	for {
		if n, err = call(); err != syscall.EINTR {
			return max(n, 0), err
		}
	}
}

// run answers requests until the loop has no connections, or another runner has taken over.
func (r *loopRunner) run(poll *loopPoll) {
	r.poll = poll
	idle := r.loop.front.next.IdleTimeout
	ready := func(descriptor uintptr) bool {
		r.wait(descriptor)
		return r.count > 0
	}
	for !r.relieved.Load() {
		err := poll.raw.Read(ready)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			r.loop.sweep(idle)
			poll.scheduleSweep(idle)
			continue
		case err != nil: // closed: there is no connection
			return
		}
		for _, event := range r.events[:r.count] {
			r.takeRequest(event)
		}
		r.answerBatch()
	}
	r.relieved.Store(false)
	r.loop.keep(r)
}

// takeRequest reads a request of a connection that epoll has reported, and makes it a part of the batch. If epoll reports the end of the
// client's input, the connection gets a goroutine, which reads up to that end: epoll would not report it again.
func (r *loopRunner) takeRequest(event syscall.EpollEvent) {
	c, found := r.loop.claim(keyIn(event))
	switch {
	case found == claimNothing:
		return
	case found == claimClosed:
		r.loop.end(c)
		return
	case found == claimMissed || event.Events&^syscall.EPOLLIN != 0:
		r.moveToGoroutine(c, nil, nil)
		return
	}
	slot := r.nextSlot()
	defer func() {
		if fault := recover(); fault != nil {
			r.handlePanic(c, slot, fault)
		}
	}()
	r.text = slot.input[:]
	if err := c.loop.raw.Control(r.read); err != nil {
		r.loop.end(c)
		return
	}
	n := r.count
	switch {
	case r.err == syscall.EAGAIN:
		r.release(c)
	case r.err != nil || n == 0:
		r.loop.end(c)
	case !r.canJoin(slot, slot.input[:n]):
		r.moveToGoroutine(c, nil, bytes.Clone(slot.input[:n]))
	default:
		r.charge(c, slot)
	}
}

// nextSlot returns the next free slot. The slot counts as used only when charge makes its request a part of the batch.
func (r *loopRunner) nextSlot() *loopSlot {
	if r.batchSize == len(r.slots) {
		r.slots = append(r.slots, &loopSlot{out: newAnswerBuffer()})
	}
	return r.slots[r.batchSize]
}

// newAnswerBuffer makes the buffer of a slot's answers.
func newAnswerBuffer() []byte { return make([]byte, 0, 4<<10) }

// canJoin reports whether a loop can answer the request in data together with requests of other connections. data must be one whole
// request whose head and body the front remembers; then slot gets both. If data fills the buffer, it may be only a part of a request.
func (r *loopRunner) canJoin(slot *loopSlot, data []byte) bool {
	front := r.loop.front
	end := bytes.Index(data, []byte("\r\n\r\n")) + len("\r\n\r\n")
	if len(data) == len(slot.input) || end < len("\r\n\r\n") {
		return false
	}
	h, ok := front.heads.get(data[:end])
	if !ok || h.caller == nil || h.length != len(data)-end || !front.queries.cfg.Identity.stillValid(h.caller) {
		return false
	}
	known, ok := front.knownRequests.get(data[end:])
	if !ok || known.joint == nil {
		return false
	}
	slot.head, slot.body, slot.known = h, data[end:], known
	return true
}

// charge charges a request to its address and viewer as answer does, and makes it a part of the batch unless a charge is refused.
func (r *loopRunner) charge(c *frontConn, slot *loopSlot) {
	h, q := slot.head, r.loop.front.queries
	address := c.addressOf(h)
	err := q.cfg.Limits.ChargeAddress(address)
	if err == nil {
		slot.request = &frontRequest{}
		slot.request.id = h.id
		slot.request.begin(services.WithRequest(h.caller.ctx, slot.request), q.cfg.OperationTimeout)
		err = q.cfg.Limits.ChargeOperation(slot.request, address, slot.known.operation, slot.known.price)
		if err != nil {
			slot.request.end()
		}
	}
	if err != nil {
		r.moveToGoroutine(c, func() frontOutcome { return c.refuse(h, err) }, nil)
		return
	}
	slot.conn = c
	r.batchSize++
}

// answerBatch answers the requests of the batch by one read, and sends the answers. The batch is empty afterwards.
func (r *loopRunner) answerBatch() {
	if r.batchSize == 0 {
		return
	}
	r.requests = r.requests[:0]
	for _, slot := range r.slots[:r.batchSize] {
		r.requests = append(r.requests, JointRequest{Context: slot.request, Operation: slot.known.joint, Text: append(slot.out[:answerHeadRoom], answerStart...)})
	}
	var all frontContext
	all.begin(context.Background(), r.loop.front.queries.cfg.OperationTimeout)
	r.relieveTimer.Reset(relieveAfter)
	r.answerJointly(&all)
	r.relieveTimer.Stop()
	all.end()
	now := sinceStart()
	for i, slot := range r.slots[:r.batchSize] {
		slot.conn.loop.lastRequest.Store(now)
		r.reply(slot, &r.requests[i])
		slot.conn, slot.head, slot.body, slot.known, slot.request = nil, nil, nil, nil, nil
	}
	clear(r.requests)
	r.batchSize = 0
}

// answerJointly answers the requests that one read can answer. After a panic the rest are answered separately.
func (r *loopRunner) answerJointly(ctx context.Context) {
	defer func() {
		if fault := recover(); fault != nil && r.loop.front.next.ErrorLog != nil {
			r.loop.front.next.ErrorLog.Printf("answering jointly: %v\n%s", fault, debug.Stack())
		}
	}()
	r.loop.schema.AnswerJointly(ctx, r.requests)
}

// reply sends a short answer, or as much of it as the connection takes at once. A goroutine sends the rest, sends a long answer, or
// answers a request that the batch did not answer.
func (r *loopRunner) reply(slot *loopSlot, request *JointRequest) {
	c, h, front := slot.conn, slot.head, r.loop.front
	defer func() {
		if fault := recover(); fault != nil {
			r.handlePanic(c, slot, fault)
		}
	}()
	if cap(request.Text) <= maxKeptAnswer {
		slot.out = request.Text[:0]
	}
	if !request.OK || len(request.Text)-answerHeadRoom > front.queries.cfg.AnswerLimit {
		body, quick, one := bytes.Clone(slot.body), request.Else, slot.request
		if quick == nil {
			quick = slot.known.quick
		}
		c.jointStreak = -jointPenalty
		r.moveToGoroutine(c, func() frontOutcome {
			defer one.end()
			return c.answerQuick(h, body, quick, one)
		}, nil)
		return
	}
	slot.request.end()
	last := front.draining.Load()
	text := wholeAnswer(h, append(request.Text, '}'), last)
	if r.count = 0; len(text) <= smallAnswer {
		r.text = text
		if err := c.loop.raw.Control(r.write); err != nil || r.err != nil && r.err != syscall.EAGAIN {
			r.loop.end(c)
			return
		}
	}
	switch {
	case r.count < len(text):
		rest := bytes.Clone(text[r.count:])
		r.moveToGoroutine(c, func() frontOutcome { return outcome(last, c.send(rest)) }, nil)
	case last:
		r.loop.end(c)
	default:
		r.release(c)
	}
}

// handlePanic logs a panic about one connection, and closes it: the runner has others, and goes on. The request of the slot ends.
func (r *loopRunner) handlePanic(c *frontConn, slot *loopSlot, fault any) {
	c.handlePanic(fault, false)
	if slot.request != nil {
		slot.request.end()
		slot.request = nil
	}
	slot.out = newAnswerBuffer() // the panic may be about it
	r.loop.end(c)
}

// release lets a connection wait for its next request. After the change of its state another runner may have it, so only its key
// and its atomic fields are used.
func (r *loopRunner) release(c *frontConn) {
	key := c.loop.key
	c.state.Store(frontIdle)
	switch {
	// As in wait, endsIdle is read after the state was set.
	case r.loop.front.endsIdle.Load():
		r.loop.closeIdle(key)
	case c.loop.missedInput.Load():
		if c, found := r.loop.claim(key); found == claimInput || found == claimMissed {
			r.moveToGoroutine(c, nil, nil)
		}
	}
}

// moveToGoroutine gives a busy connection a goroutine: see frontConn.serve for first and rest. It removes the read deadline, which was set
// before the connection joined the loop.
func (r *loopRunner) moveToGoroutine(c *frontConn, first func() frontOutcome, rest []byte) {
	if r.loop.remove(c) {
		c.readDeadline = time.Time{}
		_ = c.conn.SetReadDeadline(c.readDeadline) // an error shows at the next read
		go c.serve(first, rest)
	}
}
