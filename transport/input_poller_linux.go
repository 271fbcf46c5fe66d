package transport

import (
	"net"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
)

// epoll implements inputPoller with Linux's epoll. Go's runtime watches the same descriptors, for goroutines that are in a read,
// with an epoll of its own. One goroutine waits for all connections, as long as any is watched.
type epoll struct {
	mu          sync.Mutex             // guards the fields below
	file        *os.File               // of the descriptor; nil while nothing is watched
	fd          int                    // the descriptor
	watches     map[uint64]*epollWatch // by key
	lastPollKey uint64                 // the newest key of watches; unlike a descriptor, a key is never used again
}

// epollWatch is a watch of an epoll.
type epollWatch struct {
	epoll   *epoll
	pollKey uint64          // what epoll reports instead of the descriptor
	conn    syscall.RawConn // the access to the connection's descriptor
	ready   func()          // what add was given
	armed   atomic.Bool     // the next input causes a call of ready
}

// newInputPoller makes an epoll without a descriptor: the first watch opens it, and the last one closes it.
func newInputPoller() inputPoller { return &epoll{watches: map[uint64]*epollWatch{}} }

// maxEpollEvents is the maximum number of connections that one call of epoll_wait reports.
const maxEpollEvents = 256

// add watches a connection. It returns nil if the system refuses; the socket then waits in a goroutine, as on other systems.
func (e *epoll) add(conn net.Conn, ready func()) inputWatch {
	raw := rawConnOf(conn)
	if raw == nil {
		return nil
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.file == nil && !e.open() {
		return nil
	}
	e.lastPollKey++
	w := &epollWatch{epoll: e, pollKey: e.lastPollKey, conn: raw, ready: ready}
	if !w.epollCtl(e.fd, syscall.EPOLL_CTL_ADD, 0) {
		e.closeIfUnused()
		return nil
	}
	e.watches[w.pollKey] = w
	return w
}

// open makes the descriptor and the goroutine that waits. The lock is held.
func (e *epoll) open() bool {
	file, raw, number, err := openEpoll()
	if err != nil {
		return false
	}
	e.file, e.fd = file, number
	go e.dispatchEvents(raw)
	return true
}

// openEpoll makes a descriptor of epoll whose file a goroutine can wait for.
func openEpoll() (file *os.File, raw syscall.RawConn, number int, err error) {
	if number, err = syscall.EpollCreate1(syscall.EPOLL_CLOEXEC); err != nil {
		return nil, nil, 0, err
	}
	if err := syscall.SetNonblock(number, true); err != nil { // os.NewFile then lets the runtime wait for the descriptor
		_ = syscall.Close(number)
		return nil, nil, 0, err
	}
	file = os.NewFile(uintptr(number), "epoll")
	if raw, err = file.SyscallConn(); err != nil {
		_ = file.Close()
		return nil, nil, 0, err
	}
	return file, raw, number, nil
}

// closeIfUnused ends the goroutine if nothing is watched. The lock is held.
func (e *epoll) closeIfUnused() {
	if len(e.watches) == 0 {
		_ = e.file.Close()
		e.file = nil
	}
}

// dispatchEvents fires watches until the descriptor is closed.
func (e *epoll) dispatchEvents(raw syscall.RawConn) {
	events := make([]syscall.EpollEvent, maxEpollEvents)
	for {
		count := 0
		err := raw.Read(func(descriptor uintptr) bool {
			err := error(syscall.EINTR)
			for err == syscall.EINTR { // else the runtime would wait for a further event before these are reported
				count, err = syscall.EpollWait(int(descriptor), events, 0)
			}
			return count > 0
		})
		if err != nil {
			return
		}
		for _, event := range events[:count] {
			e.mu.Lock()
			w := e.watches[pollKeyOf(event)]
			e.mu.Unlock()
			if w != nil {
				w.fire()
			}
		}
	}
}

// pollKeyOf is the key of a watch, from the two halves of an event's data.
func pollKeyOf(event syscall.EpollEvent) uint64 {
	return uint64(uint32(event.Pad))<<32 | uint64(uint32(event.Fd))
}

// epollCtl changes what epoll reports of the connection; false if that fails, as for a closed connection. With events, as arm
// passes them, epoll reports the connection once, even if the input came before.
func (w *epollWatch) epollCtl(epoll, operation int, events uint32) bool {
	event := syscall.EpollEvent{Events: events | syscall.EPOLLONESHOT, Fd: int32(uint32(w.pollKey)), Pad: int32(uint32(w.pollKey >> 32))}
	var failed error
	err := w.conn.Control(func(descriptor uintptr) {
		failed = syscall.EpollCtl(epoll, operation, int(descriptor), &event)
	})
	return err == nil && failed == nil
}

// arm asks for one call of ready: when the connection has input or has ended, or after fire. It sets the flag first, because the input
// may be reported before epollCtl returns.
func (w *epollWatch) arm() {
	w.armed.Store(true)
	// The epoll descriptor stays open while it has this watch, so its number is valid.
	if !w.epollCtl(w.epoll.fd, syscall.EPOLL_CTL_MOD, syscall.EPOLLIN|syscall.EPOLLRDHUP) {
		w.fire()
	}
}

// fire starts a goroutine, because its caller may be the goroutine that waits for all connections. Of several calls only one
// finds the flag set.
func (w *epollWatch) fire() {
	if w.armed.Swap(false) {
		go w.ready()
	}
}

// stop forgets the watch. A report that comes later finds no watch of its key.
func (w *epollWatch) stop() {
	w.epoll.mu.Lock()
	defer w.epoll.mu.Unlock()
	delete(w.epoll.watches, w.pollKey) // the kernel forgets the connection when its descriptor is closed
	w.epoll.closeIfUnused()
}
