package sql

import (
	"syscall"

	"golang.org/x/sys/unix"
)

// setTCPUserTimeout is a net.Dialer's Control. It lets the system end a connection whose data the other machine has not
// acknowledged for tcpUserTimeout. Without it the system waits for about a quarter of an hour, and a statement without a deadline
// waits as long.
func setTCPUserTimeout(network, _ string, conn syscall.RawConn) (err error) {
	if network == "unix" {
		return nil
	}
	failed := conn.Control(func(fd uintptr) {
		err = unix.SetsockoptInt(int(fd), unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(tcpUserTimeout.Milliseconds()))
	})
	if failed != nil {
		return failed
	}
	return err
}
