package sql

import (
	"net"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// The system gives up a connection whose data a vanished machine has not acknowledged for ten seconds.
func TestConnectionsToAVanishedMachineAreGivenUp(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	conn, err := dialer.DialContext(t.Context(), "tcp", listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	raw, err := conn.(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	for _, option := range []struct {
		name       string
		level, key int
		want       int
	}{
		{"unacknowledged data (ms)", unix.IPPROTO_TCP, unix.TCP_USER_TIMEOUT, int(10 * time.Second / time.Millisecond)},
		{"keep-alive", unix.SOL_SOCKET, unix.SO_KEEPALIVE, 1},
		{"the first probe (s)", unix.IPPROTO_TCP, unix.TCP_KEEPIDLE, 5},
	} {
		var got int
		if err := raw.Control(func(fd uintptr) { got, err = unix.GetsockoptInt(int(fd), option.level, option.key) }); err != nil || got != option.want {
			t.Errorf("%s: %d, want %d; %v", option.name, got, option.want, err)
		}
	}
}

// A socket in the file system is dialed too, although it does not have TCP's option for unacknowledged data.
func TestAUnixSocketIsDialed(t *testing.T) {
	path := t.TempDir() + "/s"
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	conn, err := dialer.DialContext(t.Context(), "unix", path)
	if err != nil {
		t.Fatal(err)
	}
	_ = conn.Close()
}
