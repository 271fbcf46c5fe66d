package transport

import (
	"net"
	"syscall"
)

// inputPoller tells sockets that their connections have input. Most sockets wait most of the time: with an inputPoller, a waiting
// socket has no goroutine, whose stack is 4 KB, and no buffer.
//
// It exists on Linux only; on other systems each socket waits in its own goroutine.
type inputPoller interface {
	// add returns the watch of a connection, which is not armed; nil if this connection cannot be watched. ready is called in a
	// goroutine of its own.
	add(conn net.Conn, ready func()) inputWatch
}

// inputWatch is a connection that is watched. Only its method fire may be called while another method runs.
type inputWatch interface {
	// arm asks for one call of ready: when the connection has input or has ended, or after fire.
	arm()
	// fire calls ready if the watch is armed.
	fire()
	// stop ends the watch.
	stop()
}

// rawConnOf returns the access to a connection's descriptor, beneath the wrappers of this package; nil if it has none.
func rawConnOf(conn net.Conn) syscall.RawConn {
	for {
		switch outer := conn.(type) {
		case *handedConn:
			conn = outer.Conn
		case *countedConn:
			conn = outer.Conn
		case syscall.Conn:
			raw, err := outer.SyscallConn()
			if err != nil {
				return nil
			}
			return raw
		default:
			return nil
		}
	}
}

// hasBufferedInput reports whether a connection holds input that was read before it was handed on: its descriptor does not show that.
func hasBufferedInput(conn net.Conn) bool {
	handed, ok := conn.(*handedConn)
	return ok && len(handed.alreadyRead) > 0
}
