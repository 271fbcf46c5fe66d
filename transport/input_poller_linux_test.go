package transport

import (
	"fmt"
	"io"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	"tidings/tests/eventually"
)

// newTCPPair opens a connection over TCP, and returns its two sides.
func newTCPPair(t *testing.T) (ours, theirs *net.TCPConn) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	dialled, err := net.Dial("tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	accepted, err := listener.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		dialled.Close()
		accepted.Close()
	})
	return accepted.(*net.TCPConn), dialled.(*net.TCPConn)
}

// watchConn watches a connection; each call of ready sends a token.
func watchConn(t *testing.T, e *epoll, conn net.Conn) (inputWatch, chan struct{}) {
	t.Helper()
	tokens := make(chan struct{}, 100)
	w := e.add(conn, func() { tokens <- struct{}{} })
	if w == nil {
		t.Fatal("the connection cannot be watched")
	}
	t.Cleanup(w.stop)
	return w, tokens
}

// expectReady waits for a call of ready.
func expectReady(t *testing.T, tokens chan struct{}) {
	t.Helper()
	select {
	case <-tokens:
	case <-time.After(10 * time.Second):
		t.Fatal("ready was not called")
	}
}

func writeText(t *testing.T, conn net.Conn, text string) {
	t.Helper()
	if _, err := conn.Write([]byte(text)); err != nil {
		t.Fatal(err)
	}
}

// newEpoll makes an epoll without a watch.
func newEpoll() *epoll { return newInputPoller().(*epoll) }

// Input is reported once for each arm, whether it came before or after, and whether all of it was read or not.
func TestInputPollerReportsInputOnce(t *testing.T) {
	e := newEpoll()
	ours, theirs := newTCPPair(t)
	w, tokens := watchConn(t, e, &handedConn{Conn: &countedConn{Conn: ours}})
	writeText(t, theirs, "a")
	w.arm()
	expectReady(t, tokens)
	writeText(t, theirs, "b")
	other, others := newTCPPair(t)
	fence, fenced := watchConn(t, e, other)
	fence.arm()
	writeText(t, others, "x")
	expectReady(t, fenced) // by now an earlier input was reported, or never will be
	if len(tokens) > 0 {
		t.Fatal("ready was called without arm")
	}
	w.arm() // nothing was read meanwhile
	expectReady(t, tokens)
	if n, err := io.ReadFull(ours, make([]byte, 2)); n != 2 || err != nil {
		t.Fatal(n, err)
	}
	w.arm()
	fence.arm()
	expectReady(t, fenced)
	if len(tokens) > 0 {
		t.Fatal("ready was called without input")
	}
	writeText(t, theirs, "c")
	expectReady(t, tokens)
}

// The end of a connection is input too, on both sides.
func TestInputPollerReportsTheEndOfAConnection(t *testing.T) {
	ends := map[string]func(w inputWatch, ours, theirs *net.TCPConn){
		"their close": func(w inputWatch, _, theirs *net.TCPConn) { theirs.Close() },
		"their half":  func(w inputWatch, _, theirs *net.TCPConn) { _ = theirs.CloseWrite() },
		"their reset": func(w inputWatch, _, theirs *net.TCPConn) {
			_ = theirs.SetLinger(0)
			theirs.Close()
		},
		"our close and fire": func(w inputWatch, ours, _ *net.TCPConn) {
			ours.Close()
			w.fire()
		},
	}
	for name, end := range ends {
		for _, before := range []bool{false, true} {
			t.Run(fmt.Sprint(name, " before arm ", before), func(t *testing.T) {
				ours, theirs := newTCPPair(t)
				w, tokens := watchConn(t, newEpoll(), ours)
				if before {
					end(w, ours, theirs)
				}
				w.arm()
				if !before {
					end(w, ours, theirs)
				}
				expectReady(t, tokens)
				w.fire()
				if len(tokens) > 0 {
					t.Error("ready was called twice")
				}
			})
		}
	}
}

// The goroutine and the descriptor end with the last watch, and a new watch makes them again. goleak checks the goroutine.
func TestInputPollerEndsWithItsLastWatch(t *testing.T) {
	e := newEpoll()
	for range 3 {
		var group sync.WaitGroup
		for range 20 {
			ours, theirs := newTCPPair(t)
			group.Go(func() {
				tokens := make(chan struct{}, 1)
				w := e.add(ours, func() { tokens <- struct{}{} })
				w.arm()
				_, _ = theirs.Write([]byte("a"))
				<-tokens
				ours.Close()
				w.stop()
			})
		}
		group.Wait()
		e.mu.Lock()
		if e.file != nil || len(e.watches) > 0 {
			t.Errorf("after the last watch: %v and %d watches", e.file, len(e.watches))
		}
		e.mu.Unlock()
	}
}

// The number of a descriptor is used again as soon as its connection is closed. The old connection's watch is not notified of the new
// connection's input.
func TestInputPollerIgnoresInputOfAReusedDescriptor(t *testing.T) {
	e := newEpoll()
	keep, _ := newTCPPair(t)
	watchConn(t, e, keep) // keeps the goroutine
	for range 50 {
		ours, _ := newTCPPair(t)
		w, old := watchConn(t, e, ours)
		w.arm()
		ours.Close()
		again, theirs := newTCPPair(t)
		now, tokens := watchConn(t, e, again)
		now.arm()
		writeText(t, theirs, "a")
		expectReady(t, tokens)
		if len(old) > 0 {
			t.Fatal("the watch of a closed connection was notified of another one's input")
		}
	}
}

// An inputPoller watches neither a connection in memory nor a closed one.
func TestInputPollerRefusesPipesAndClosedConnections(t *testing.T) {
	ours, theirs := net.Pipe()
	defer ours.Close()
	defer theirs.Close()
	e := newEpoll()
	if w := e.add(ours, func() {}); w != nil {
		t.Error("a pipe is watched")
	}
	closed, _ := newTCPPair(t)
	closed.Close()
	if w := e.add(closed, func() {}); w != nil {
		t.Error("a closed connection is watched")
	}
	if e.file != nil {
		t.Error("the descriptor is left")
	}
	if held := (&handedConn{Conn: ours, alreadyRead: []byte("a")}); !hasBufferedInput(held) || hasBufferedInput(ours) {
		t.Error("input that was read before is not found")
	}
}

// Sockets over TCP that wait for their clients have no goroutine, and still receive every message and the end.
func TestWaitingSocketsHaveNoGoroutine(t *testing.T) {
	const count = 50
	w := newTCPFixture(t)
	before := runtime.NumGoroutine()
	clients := make([]*socketClient, count)
	for i := range clients {
		clients[i] = w.openSocket(fmt.Sprintf("user%d", i))
	}
	few := before + count + 10 // each client of the test has one goroutine
	eventually.Holds(t, "the goroutines are those of the clients", func() bool { return runtime.NumGoroutine() <= few })
	for range 3 {
		for _, c := range clients {
			c.send(`{"type":"ping"}`)
		}
		for _, c := range clients {
			c.expectMessage(`{"type":"pong"}`)
		}
	}
	if now := runtime.NumGoroutine(); now > few+count {
		t.Errorf("%d goroutines, %d before the sockets", now, before)
	}
	for _, c := range clients[:count/2] {
		c.conn.Close()
	}
	eventually.Holds(t, "the sockets of the clients who left are gone", func() bool { return w.sockets.Stats().Open == count/2 })
	w.sockets.Drain(t.Context(), 0)
	for _, c := range clients[count/2:] {
		c.expectClose(1012)
	}
}
