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
	loop             *frontLoop
	poll             *loopPoll   // the epoll descriptor that it waits for
	extraRunnerTimer *time.Timer // starts another runner if the read of a batch takes long
	replaced         atomic.Bool // another runner has taken over, and this one ends with its batch

	events    []syscall.EpollEvent // what epoll has reported
	slots     []*batchSlot         // one for each request of a batch; they are used again for the next batch
	batchSize int                  // the number of slots in the batch, which are the first ones
	requests  []JointRequest       // of the batch, in the order of its slots

	// The functions are made once and not for each call. syscallBuffer is their argument, and syscallResult and err are their results.
	callEpollWait, callRead, callWrite func(descriptor uintptr)
	syscallResult                      int    // the result of the last call
	err                                error  // of the last call
	syscallBuffer                      []byte // what the next call reads into or writes
}

// batchSlot is one request of a batch.
type batchSlot struct {
	conn         *frontConn
	input        [frontBufferSize]byte // what was read from the connection
	head         *requestHead          // of the request
	body         []byte                // in input
	parsedBody   *parsedBody           // the meaning of the body
	request      *frontRequest         // the context of the request
	answerBuffer []byte                // the buffer of the answer
}

// newLoopRunner makes a runner of a loop.
func newLoopRunner(loop *frontLoop) *loopRunner {
	r := &loopRunner{loop: loop, events: make([]syscall.EpollEvent, maxJointBatchSize)}
	r.callEpollWait = func(descriptor uintptr) {
		r.syscallResult, r.err = retryInterrupted(func() (int, error) { return syscall.EpollWait(int(descriptor), r.events, 0) })
	}
	r.callRead = func(descriptor uintptr) {
		r.syscallResult, r.err = retryInterrupted(func() (int, error) { return syscall.Read(int(descriptor), r.syscallBuffer) })
	}
	r.callWrite = func(descriptor uintptr) {
		r.syscallResult, r.err = retryInterrupted(func() (int, error) { return syscall.Write(int(descriptor), r.syscallBuffer) })
	}
	r.extraRunnerTimer = time.AfterFunc(time.Hour, func() {
		r.replaced.Store(true)
		loop.startExtraRunner(r.poll)
	})
	r.extraRunnerTimer.Stop()
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
	idle := r.loop.front.httpServer.IdleTimeout
	ready := func(descriptor uintptr) bool {
		r.callEpollWait(descriptor)
		return r.syscallResult > 0
	}
	for !r.replaced.Load() {
		err := poll.raw.Read(ready)
		switch {
		case errors.Is(err, os.ErrDeadlineExceeded):
			r.loop.closeIdleConns(idle)
			poll.scheduleIdleClose(idle)
			continue
		case err != nil: // the descriptor was closed: the loop has no connection
			return
		}
		for _, event := range r.events[:r.syscallResult] {
			r.takeRequest(event)
		}
		r.answerBatch()
	}
	r.replaced.Store(false)
	r.loop.keepSpareRunner(r)
}

// takeRequest reads a request of a connection that epoll has reported, and makes it a part of the batch. If epoll reports the end
// of the client's input, the connection gets a goroutine, which reads up to that end: epoll would not report it again.
func (r *loopRunner) takeRequest(event syscall.EpollEvent) {
	c, found := r.loop.claimConn(pollKeyOf(event))
	switch {
	case found == claimedNothing:
		return
	case found == claimFoundClosed:
		r.loop.closeConn(c)
		return
	case found == claimedWithMissedInput || event.Events&^syscall.EPOLLIN != 0:
		r.moveToGoroutine(c, nil, nil)
		return
	}
	slot := r.nextSlot()
	defer func() {
		if fault := recover(); fault != nil {
			r.handlePanic(c, slot, fault)
		}
	}()
	r.syscallBuffer = slot.input[:]
	if err := c.loop.raw.Control(r.callRead); err != nil {
		r.loop.closeConn(c)
		return
	}
	n := r.syscallResult
	switch {
	case r.err == syscall.EAGAIN:
		r.waitForNextRequest(c)
	case r.err != nil || n == 0:
		r.loop.closeConn(c)
	case !r.canAnswerJointly(slot, slot.input[:n]):
		r.moveToGoroutine(c, nil, bytes.Clone(slot.input[:n]))
	default:
		r.chargeAndAddToBatch(c, slot)
	}
}

// nextSlot returns the next free slot. The slot counts as used only when chargeAndAddToBatch makes its request a part of the batch.
func (r *loopRunner) nextSlot() *batchSlot {
	if r.batchSize == len(r.slots) {
		r.slots = append(r.slots, &batchSlot{answerBuffer: newAnswerBuffer()})
	}
	return r.slots[r.batchSize]
}

// newAnswerBuffer makes the buffer of a slot's answers.
func newAnswerBuffer() []byte { return make([]byte, 0, 4<<10) }

// canAnswerJointly reports whether a loop can answer the request in data together with requests of other connections. data must be
// one whole request whose head and body the front remembers; then slot gets both. If data fills the buffer, it may be only a part
// of a request.
func (r *loopRunner) canAnswerJointly(slot *batchSlot, data []byte) bool {
	front := r.loop.front
	end := bytes.Index(data, []byte("\r\n\r\n")) + len("\r\n\r\n")
	if len(data) == len(slot.input) || end < len("\r\n\r\n") {
		return false
	}
	h, ok := front.requestHeads.get(data[:end])
	if !ok || h.caller == nil || h.bodyLength != len(data)-end || !front.httpTransport.cfg.Identity.stillValid(h.caller) {
		return false
	}
	known, ok := front.parsedBodies.get(data[end:])
	if !ok || known.jointOperation == nil {
		return false
	}
	slot.head, slot.body, slot.parsedBody = h, data[end:], known
	return true
}

// chargeAndAddToBatch charges a request to its address and viewer as answer does, and makes it a part of the batch unless a charge
// is refused.
func (r *loopRunner) chargeAndAddToBatch(c *frontConn, slot *batchSlot) {
	h, q := slot.head, r.loop.front.httpTransport
	address := c.addressOf(h)
	err := q.cfg.Limits.ChargeAddress(address)
	if err == nil {
		slot.request = &frontRequest{}
		slot.request.id = h.clientRequestID
		slot.request.begin(services.WithRequest(h.caller.ctx, slot.request), q.cfg.OperationTimeout)
		err = q.cfg.Limits.ChargeOperation(slot.request, address, slot.parsedBody.operation, slot.parsedBody.operationCost)
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
		r.requests = append(r.requests, JointRequest{Context: slot.request, Operation: slot.parsedBody.jointOperation, Text: append(slot.answerBuffer[:answerHeadRoom], answerStart...)})
	}
	var all frontContext
	all.begin(context.Background(), r.loop.front.httpTransport.cfg.OperationTimeout)
	r.extraRunnerTimer.Reset(extraRunnerAfter)
	r.answerJointly(&all)
	r.extraRunnerTimer.Stop()
	all.end()
	now := nanosSinceProcessStart()
	for i, slot := range r.slots[:r.batchSize] {
		slot.conn.loop.lastRequestNanos.Store(now)
		r.reply(slot, &r.requests[i])
		slot.conn, slot.head, slot.body, slot.parsedBody, slot.request = nil, nil, nil, nil, nil
	}
	clear(r.requests)
	r.batchSize = 0
}

// answerJointly answers the requests that one read can answer. After a panic the rest are answered separately.
func (r *loopRunner) answerJointly(ctx context.Context) {
	defer func() {
		if fault := recover(); fault != nil && r.loop.front.httpServer.ErrorLog != nil {
			r.loop.front.httpServer.ErrorLog.Printf("answering jointly: %v\n%s", fault, debug.Stack())
		}
	}()
	r.loop.schema.AnswerJointly(ctx, r.requests)
}

// reply sends a short answer, or as much of it as the connection takes at once. A goroutine sends the rest, sends a long answer, or
// answers a request that the batch did not answer.
func (r *loopRunner) reply(slot *batchSlot, request *JointRequest) {
	c, h, front := slot.conn, slot.head, r.loop.front
	defer func() {
		if fault := recover(); fault != nil {
			r.handlePanic(c, slot, fault)
		}
	}()
	if cap(request.Text) <= maxPooledAnswerBytes {
		slot.answerBuffer = request.Text[:0]
	}
	if !request.OK || len(request.Text)-answerHeadRoom > front.httpTransport.cfg.MaxAnswerBytes {
		body, hotAnswer, one := bytes.Clone(slot.body), request.Else, slot.request
		if hotAnswer == nil {
			hotAnswer = slot.parsedBody.hotAnswer
		}
		c.jointStreak = -extraStreakAfterJointFailure
		r.moveToGoroutine(c, func() frontOutcome {
			defer one.end()
			return c.answerHot(h, body, hotAnswer, one)
		}, nil)
		return
	}
	slot.request.end()
	last := front.draining.Load()
	text := wholeAnswer(h, append(request.Text, '}'), last)
	if r.syscallResult = 0; len(text) <= maxSmallAnswerBytes {
		r.syscallBuffer = text
		if err := c.loop.raw.Control(r.callWrite); err != nil || r.err != nil && r.err != syscall.EAGAIN {
			r.loop.closeConn(c)
			return
		}
	}
	switch {
	case r.syscallResult < len(text):
		rest := bytes.Clone(text[r.syscallResult:])
		r.moveToGoroutine(c, func() frontOutcome { return outcomeAfterSend(last, c.send(rest)) }, nil)
	case last:
		r.loop.closeConn(c)
	default:
		r.waitForNextRequest(c)
	}
}

// handlePanic logs a panic about one connection, and closes it: the runner has others, and goes on. The request of the slot ends.
func (r *loopRunner) handlePanic(c *frontConn, slot *batchSlot, fault any) {
	c.handlePanic(fault, false)
	if slot.request != nil {
		slot.request.end()
		slot.request = nil
	}
	slot.answerBuffer = newAnswerBuffer() // the panic may be about it
	r.loop.closeConn(c)
}

// waitForNextRequest lets a connection wait for its next request. After the change of its state another runner may have it, so only
// its key and its atomic fields are used.
func (r *loopRunner) waitForNextRequest(c *frontConn) {
	key := c.loop.pollKey
	c.state.Store(frontConnIdle)
	switch {
	// As in readMore, closesIdleConns is read after the state was set.
	case r.loop.front.closesIdleConns.Load():
		r.loop.closeIfIdle(key)
	case c.loop.missedInput.Load():
		if c, found := r.loop.claimConn(key); found == claimedWithInput || found == claimedWithMissedInput {
			r.moveToGoroutine(c, nil, nil)
		}
	}
}

// moveToGoroutine takes a busy connection out of the loop and gives it a goroutine. first, if not nil, finishes the answer to a request
// that was read, and rest has the bytes that were read behind that request. moveToGoroutine removes the read deadline, which was set
// before the connection joined the loop.
func (r *loopRunner) moveToGoroutine(c *frontConn, first func() frontOutcome, rest []byte) {
	if r.loop.remove(c) {
		c.readDeadline = time.Time{}
		_ = c.conn.SetReadDeadline(c.readDeadline) // an error shows at the next read
		go c.serve(first, rest)
	}
}
