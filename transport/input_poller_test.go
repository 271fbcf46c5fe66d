package transport

import (
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"time"
)

// peekedConn is a connection in memory that can be watched: a watch reads the first bytes of the input.
type peekedConn struct {
	net.Conn
	mu           sync.Mutex // guards the fields below
	peekedBytes  []byte     // the bytes that a watch has read, and Read has not returned yet
	readErr      error      // the error of the watch's read
	watching     bool       // a watch is reading
	readDeadline time.Time  // of calls of Read; the read of a watch has none
}

// Read returns the bytes, or the error, of the watch's read if there are any, and reads from the connection otherwise.
func (c *peekedConn) Read(to []byte) (int, error) {
	c.mu.Lock()
	n, err := copy(to, c.peekedBytes), c.readErr
	c.peekedBytes = c.peekedBytes[n:]
	c.mu.Unlock()
	if n > 0 || err != nil {
		return n, err
	}
	return c.Conn.Read(to)
}

// SetReadDeadline sets the deadline of calls of Read. While a watch reads, it is kept for afterwards.
func (c *peekedConn) SetReadDeadline(at time.Time) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.readDeadline = at
	if c.watching {
		return nil
	}
	return c.Conn.SetReadDeadline(at)
}

// peek reads the first bytes, without a deadline, and then calls tell. Like epoll, it does not notice that its own side was closed.
func (c *peekedConn) peek(tell func()) {
	var first [3]byte // fewer than the head of a frame
	n, err := c.Conn.Read(first[:])
	c.mu.Lock()
	c.peekedBytes, c.readErr, c.watching = append(c.peekedBytes, first[:n]...), err, false
	_ = c.Conn.SetReadDeadline(c.readDeadline)
	c.mu.Unlock()
	if !errors.Is(err, io.ErrClosedPipe) {
		tell()
	}
}

// peekingPoller is an inputPoller of connections in memory. It counts its watches.
type peekingPoller struct{ watchCount atomic.Int64 }

// peekingWatch is a watch of a peekedConn.
type peekingWatch struct {
	poller  *peekingPoller
	conn    *peekedConn
	onReady func()      // what add was given
	armed   atomic.Bool // the next input causes a call of onReady
}

func (p *peekingPoller) add(conn net.Conn, ready func()) inputWatch {
	peeked, ok := conn.(*peekedConn)
	if !ok {
		return nil
	}
	p.watchCount.Add(1)
	return &peekingWatch{poller: p, conn: peeked, onReady: ready}
}

// arm starts a read in the background, unless one runs. If input or an error was read already, it calls onReady.
func (w *peekingWatch) arm() {
	w.armed.Store(true)
	w.conn.mu.Lock()
	defer w.conn.mu.Unlock()
	if len(w.conn.peekedBytes) > 0 || w.conn.readErr != nil {
		w.fire()
		return
	}
	if !w.conn.watching {
		w.conn.watching = true
		_ = w.conn.Conn.SetReadDeadline(time.Time{})
		go w.conn.peek(w.fire)
	}
}

func (w *peekingWatch) fire() {
	if w.armed.Swap(false) {
		go w.onReady()
	}
}

func (w *peekingWatch) stop() { w.poller.watchCount.Add(-1) }
