package transport

import (
	"bytes"
	"errors"
	"net"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// The states of a connection of the front.
const (
	// A connection goes between idle and busy with each request. closeIdle takes it from idle to closed by compare and swap, so
	// that exactly one of the client's next request and the shutdown wins.
	frontIdle   = iota // waits for a request
	frontBusy          // has a request, at least in part
	frontClosed        // was closed, or handed on
)

const (
	// Nearly all plain requests fit into the first buffer, which is pooled. One that is longer than the second number is handed on.
	frontBuffer  = 4 << 10
	frontLongest = 24 << 10 // bytes of a request with its head
	// A usual head with its token has less than 2 KB. One with a token near maxToken is longer, and is handed on.
	frontHead = 8 << 10 // bytes of a head
)

// frontConn is a connection that the front serves. Its goroutine alone uses the fields below state; watch reads for it while it
// executes an operation, and both are never at work at once.
type frontConn struct {
	front *Front
	conn  net.Conn
	to    *frontListener
	state atomic.Int32

	// A proxy sends requests of many clients over one connection; then the address is computed for each.
	address       string    // as addresses.of returns it without a header
	read, written time.Time // the deadlines that are set
	ahead         [1]byte   // what watch has read
	hasAhead      bool
	joint         int // requests in a row that could be answered jointly
	stays         int // answers for which it stays with the HTTP server when it is handed on; 0 means 1

	loop loopConn
}

// frontBuffers are reused: a connection has one for as long as it has a goroutine.
var frontBuffers = sync.Pool{New: func() any { return new([frontBuffer]byte) }}

// serve answers requests until the connection ends, is handed on, or joins a loop. first, if it is there, ends the answer to a
// request that was read already; rest is what was read behind it, and fits into a buffer. buffer[:filled] is what was read and not
// answered yet.
func (c *frontConn) serve(first func() frontOutcome, rest []byte) {
	own := frontBuffers.Get().(*[frontBuffer]byte)
	defer frontBuffers.Put(own)
	// false once it is another's: the HTTP server then owns the connection, or a loop, also when this goroutine panics.
	owns := true
	defer func() {
		if owns {
			_ = c.conn.Close()
			c.front.leave(c)
		}
	}()
	handOn := func(before []byte, paid bool) {
		owns = false
		defer c.front.leave(c)
		c.handOn(before, paid)
	}
	if first != nil && first() == frontEnds {
		return
	}
	buffer := own[:]
	filled := copy(buffer, rest)
	for fresh := filled == 0; ; fresh = true {
		if fresh {
			n, err := c.wait(buffer[filled:], filled > 0)
			filled += n
			if err != nil {
				// A client that is silent between requests is gone after the idle time. One that is silent within a request gets the HTTP
				// server's patience and its errors.
				if late := errors.Is(err, os.ErrDeadlineExceeded); late && filled > 0 {
					handOn(buffer[:filled], false) // a slow request
				}
				return
			}
		}
		// A piece of a next request moves to the front of the buffer.
		used, outcome := c.requests(buffer[:filled])
		filled = copy(buffer, buffer[used:filled])
		switch {
		case outcome == frontEnds:
			return
		case outcome == frontForeign || outcome == frontPaid:
			handOn(buffer[:filled], outcome == frontPaid)
			return
		case filled == 0 && c.joint >= jointAfter && !c.hasAhead:
			if joined, lost := c.front.loops.join(c); joined {
				owns = false
				return
			} else if lost {
				return
			}
		// The larger buffer always has room for the rest: requests hands on whatever would not fit into it.
		case filled == len(buffer): // a longer request
			buffer = append(bytes.Clone(buffer), make([]byte, frontLongest-len(buffer))...)
		}
	}
}

// wait reads more: within the idle time for a new request, and shortly for the rest of one. net.ErrClosed means that the
// connection was closed for a shutdown while it was idle, and that nothing was lost.
func (c *frontConn) wait(into []byte, more bool) (n int, err error) {
	idle := c.front.next.IdleTimeout
	switch {
	case more:
		c.read = deadline(c.front.pause)
		err = c.conn.SetReadDeadline(c.read)
	// Without an idle time, only a deadline that watch or a piece of a request has left behind is taken away.
	case idle <= 0 && !c.read.IsZero():
		c.read = time.Time{}
		err = c.conn.SetReadDeadline(c.read)
	case idle > 0 && time.Until(c.read) < idle: // not for each request, because it costs as much as checking a remembered token
		// An eighth more, so that the deadline is set once for many requests of a busy connection and never ends too early.
		c.read = deadline(idle + idle/8)
		err = c.conn.SetReadDeadline(c.read)
	}
	if err != nil {
		return 0, err
	}
	// From here to the next swap the connection counts as idle. The first compare fails for a new connection, which is idle from
	// the start. endsIdle is read after the state was set, and Shutdown sets it before it reads the states: one sees the other.
	if !more && (!c.state.CompareAndSwap(frontBusy, frontIdle) && c.state.Load() == frontClosed || c.front.endsIdle.Load()) {
		return 0, net.ErrClosed
	}
	if c.hasAhead {
		into[0], n, c.hasAhead = c.ahead[0], 1, false
	} else {
		n, err = c.conn.Read(into)
	}
	// closeIdle may have closed it between the read and this line. Then the client gets no answer, and its request was not begun.
	if !more && err == nil && !c.state.CompareAndSwap(frontIdle, frontBusy) {
		return 0, net.ErrClosed
	}
	return n, err
}

// closeIdle closes the connection if it has no request.
func (c *frontConn) closeIdle() {
	if c.state.CompareAndSwap(frontIdle, frontClosed) {
		c.cut() // it has no request that could be lost
	}
}

// cut closes the connection at once. A loop closes its own, when it hears of the end.
func (c *frontConn) cut() {
	if c.loop.cut() {
		return
	}
	_ = c.conn.Close()
	c.loop.closed(c)
}

// handOn gives the connection to the HTTP server, with what was read. The front forgets it; its deadlines are the server's now.
func (c *frontConn) handOn(before []byte, paid bool) {
	_ = c.conn.SetDeadline(time.Time{}) // an error shows at the next read
	before = bytes.Clone(before)        // the buffer is reused
	if c.hasAhead {                     // watch has read on behind these bytes
		before, c.hasAhead = append(before, c.ahead[0]), false
	}
	// No method of c: it need not live as long as the connection.
	conn, front, to, stays := c.conn, c.front, c.to, max(c.stays, 1)
	handed := newHanded(conn, before, stays, func(before []byte) bool {
		return front.take(&frontConn{front: front, conn: conn, to: to, stays: min(2*stays, maxHandedAnswers)}, before)
	})
	handed.paid = paid
	c.to.give(handed)
}

// frontOutcome is what becomes of a connection after some of its bytes.
type frontOutcome int

const (
	frontMore    frontOutcome = iota // it waits for more bytes
	frontForeign                     // the rest is for the HTTP server
	frontPaid                        // the same, and the first request is charged to its address
	frontEnds                        // it is closed
)

// frontStart is what a plain request begins with. By it the connection is told apart before anything is parsed.
var frontStart = []byte("POST " + frontPath + " HTTP/1.1\r\n")

// requests answers the requests that data begins with, and returns how many bytes those were. Whatever does not begin like a
// plain request is foreign, and so is each later request of the connection.
func (c *frontConn) requests(data []byte) (used int, outcome frontOutcome) {
	for used < len(data) {
		rest := data[used:]
		// The first bytes decide at once, so that no foreign request waits for its blank line here.
		if start := frontStart[:min(len(frontStart), len(rest))]; !bytes.HasPrefix(rest, start) {
			return used, frontForeign
		}
		end := bytes.Index(rest, []byte("\r\n\r\n"))
		switch {
		// A head that is too long is foreign even before its end has come.
		case end > frontHead || end < 0 && len(rest) > frontHead:
			return used, frontForeign
		case end < 0:
			return used, frontMore
		}
		head := c.front.headOf(rest[:end+len("\r\n\r\n")])
		// The body may be read in pieces, but must fit into the buffer together with its head.
		if head == nil || head.length > frontLongest-len(head.text) {
			return used, frontForeign
		}
		body := rest[len(head.text):]
		if len(body) < head.length {
			return used, frontMore
		}
		// Anything but frontMore ends the front's part. used stays before a foreign request, so that the whole of it is handed on.
		if outcome := c.answer(head, body[:head.length]); outcome != frontMore {
			return used, outcome
		}
		used += len(head.text) + head.length
		c.stays = 0
	}
	return used, frontMore
}

// send writes an answer. A short one fits into the buffers of the connection, so that the deadline matters for longer ones: it
// is then set anew only when half of it has passed.
func (c *frontConn) send(text []byte) error {
	if len(text) > smallAnswer {
		backlog := c.front.queries.backlog
		backlog.enter(len(text))
		defer backlog.leave(len(text))
		c.written = deadline(backlog.within(len(text), c.front.queries.cfg.WriteTimeout))
		if err := c.conn.SetWriteDeadline(c.written); err != nil {
			return err
		}
	} else if most := c.front.queries.cfg.WriteTimeout; time.Until(c.written) < most/2 {
		c.written = deadline(most)
		if err := c.conn.SetWriteDeadline(c.written); err != nil {
			return err
		}
	}
	// One write for head and body: they are in one buffer, and mostly in one packet.
	_, err := c.conn.Write(text)
	return err
}

// watchAfter is how long an operation lasts before the front looks whether its client is still there. Nearly all operations are
// over by then, and cost a timer only.
const watchAfter = 50 * time.Millisecond

// watch calls gone if the client goes away. The caller calls the result at the end of the operation, and reads nothing before.
// A read is the only way to notice the end of a connection; the byte that it may find belongs to the next request.
func (c *frontConn) watch(gone func()) (end func()) {
	ended := make(chan struct{})
	timer := time.AfterFunc(watchAfter, func() {
		defer close(ended)
		if c.hasAhead {
			return // a next request has begun: the client is there
		}
		// Nothing else reads now: the connection's own goroutine executes the operation.
		n, err := c.conn.Read(c.ahead[:])
		c.hasAhead = n > 0
		if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			gone()
		}
	})
	return func() {
		if timer.Stop() {
			return
		}
		// The watcher is reading, or has begun to: a deadline in the past ends the read, and its buffer is this goroutine's again.
		c.read = deadline(0)
		_ = c.conn.SetReadDeadline(c.read) // an error shows at the next read
		<-ended
		c.read = time.Time{}
		_ = c.conn.SetReadDeadline(c.read)
	}
}
