package redistest

import (
	"net"
	"strings"
	"sync"
	"testing"
	"time"
)

// Proxy stands between a client and a server and simulates network faults. Its methods may be called at any time from any
// goroutine and take effect with the next piece of data.
type Proxy struct {
	listener   net.Listener
	target     string         // the address of the server
	goroutines sync.WaitGroup // of accept, and of both directions of each link

	// mu guards the faults and the links. The fate of each piece of data is decided while mu is held.
	mu            sync.Mutex
	links         map[*link]struct{} // the open connections
	delay         time.Duration      // of each piece of data
	repliesToDrop int                // how many pieces of answers are still to be lost
	blackHole     bool               // all data is swallowed
	nextReplyHold *replyHold         // of the next reply; nil: none is held
	closed        bool               // no connection is accepted any more
}

// link is one connection through the proxy: its two ends.
type link struct{ client, server net.Conn }

// close closes both ends, so that the goroutines of both directions end.
func (l *link) close() {
	_ = l.client.Close()
	_ = l.server.Close()
}

// NewProxy starts a proxy to a server, given by its address or its redis:// URL. It ends with the test.
func NewProxy(tb testing.TB, target string) *Proxy {
	tb.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		tb.Fatal(err)
	}
	p := &Proxy{listener: listener, target: strings.TrimPrefix(target, "redis://"), links: map[*link]struct{}{}}
	p.goroutines.Go(p.accept)
	tb.Cleanup(p.close)
	return p
}

// URL is the proxy's URL for redis.Open.
func (p *Proxy) URL() string { return "redis://" + p.listener.Addr().String() }

// Delay delays every piece of data, in both directions; 0 ends it.
func (p *Proxy) Delay(d time.Duration) { p.withLock(func() { p.delay = d }) }

// DropReplies loses the next n pieces of answers and closes their connections: the server has executed the commands, and the
// client does not learn of it.
func (p *Proxy) DropReplies(n int) { p.withLock(func() { p.repliesToDrop = n }) }

// replyHold is a piece of an answer that is held back. arrived is closed when the piece has come, released when it may go on.
type replyHold struct{ arrived, released chan struct{} }

// HoldReply holds the next piece of answers until release is called, which the caller must do. When arrived is closed, the
// server has executed the commands. Other connections continue.
func (p *Proxy) HoldReply() (arrived <-chan struct{}, release func()) {
	h := &replyHold{make(chan struct{}), make(chan struct{})}
	p.withLock(func() { p.nextReplyHold = h })
	return h.arrived, sync.OnceFunc(func() { close(h.released) })
}

// BlackHole swallows all data, in both directions, and closes nothing. Swallowed data does not come back.
func (p *Proxy) BlackHole(on bool) { p.withLock(func() { p.blackHole = on }) }

// ResetConnections breaks all connections. New connections are accepted.
func (p *Proxy) ResetConnections() {
	p.withLock(func() {
		for l := range p.links {
			if tcp, ok := l.client.(*net.TCPConn); ok {
				// Without a linger the system sends a reset instead of an orderly end.
				_ = tcp.SetLinger(0)
			}
			l.close()
		}
	})
}

// withLock runs a change of the faults or the links while mu is held.
func (p *Proxy) withLock(change func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change()
}

// accept makes a link for each connection until the proxy is closed. If the server is not there, the client's connection is closed
// at once.
func (p *Proxy) accept() {
	for {
		client, err := p.listener.Accept()
		if err != nil {
			return
		}
		server, err := net.Dial("tcp", p.target)
		if err != nil {
			_ = client.Close()
			continue
		}
		l := &link{client: client, server: server}
		p.withLock(func() {
			// The connection came while the proxy was closing: nobody would close it later.
			if p.closed {
				l.close()
				return
			}
			p.links[l] = struct{}{}
			p.goroutines.Go(func() { p.copy(l, client, server, false) })
			p.goroutines.Go(func() { p.copy(l, server, client, true) })
		})
	}
}

// copy forwards the data of one direction of a link until an end closes. With replies that is the direction to the client.
func (p *Proxy) copy(l *link, from, to net.Conn, replies bool) {
	defer p.withLock(func() { delete(p.links, l) })
	defer l.close()
	piece := make([]byte, 64<<10)
	for {
		n, err := from.Read(piece)
		if err != nil {
			return
		}
		// nextFault is asked for each piece of data, so that a fault takes effect on open connections.
		delay, swallow, cut := p.nextFault(replies)
		if cut {
			return
		}
		if delay > 0 {
			time.Sleep(delay)
		}
		if replies {
			p.awaitReplyRelease()
		}
		if swallow {
			continue
		}
		if _, err := to.Write(piece[:n]); err != nil {
			return
		}
	}
}

// awaitReplyRelease waits if this reply is to be held.
func (p *Proxy) awaitReplyRelease() {
	var held *replyHold
	p.withLock(func() { held, p.nextReplyHold = p.nextReplyHold, nil })
	if held != nil {
		close(held.arrived)
		<-held.released
	}
}

// nextFault decides whether one piece of data is delayed, swallowed or cut off. A black hole swallows an answer instead of cutting its
// connection.
func (p *Proxy) nextFault(reply bool) (delay time.Duration, swallow, cut bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if reply && p.repliesToDrop > 0 && !p.blackHole {
		p.repliesToDrop--
		return 0, false, true
	}
	return p.delay, p.blackHole, false
}

// close ends all links and waits for their goroutines.
func (p *Proxy) close() {
	p.withLock(func() { p.closed = true })
	_ = p.listener.Close()
	p.ResetConnections()
	p.goroutines.Wait()
}
