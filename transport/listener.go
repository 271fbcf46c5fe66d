package transport

import (
	"net"
	"net/netip"
	"sync/atomic"
)

// Connections bounds how many connections one address holds at a time, sockets included. An IPv6 address stands for its
// /64; proxies that are trusted are not bound, because all clients come from them. It is safe for concurrent use.
type Connections struct {
	proxies addresses
	open    occupancy
	refused atomic.Uint64
}

// NewConnections bounds them to limit, except those of proxies; 0 is no limit.
func NewConnections(limit int, proxies []netip.Prefix) *Connections {
	return &Connections{proxies: addresses{proxies}, open: occupancy{limit: limit}}
}

// Bound is the listener within the limit: a connection beyond it is closed at once.
func (c *Connections) Bound(listener net.Listener) net.Listener {
	if c.open.limit == 0 {
		return listener
	}
	return &boundListener{Listener: listener, connections: c}
}

// Refused is how many connections were closed for the limit since the start.
func (c *Connections) Refused() uint64 { return c.refused.Load() }

type boundListener struct {
	net.Listener
	connections *Connections
}

// Accept waits for a connection within the limit.
func (l *boundListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		peer, err := netip.ParseAddrPort(conn.RemoteAddr().String())
		client := peer.Addr().Unmap()
		if err != nil || l.connections.proxies.trusts(client) {
			return conn, nil
		}
		holder := counted(client)
		if l.connections.open.enter(holder) {
			return &boundConn{Conn: conn, connections: l.connections, holder: holder}, nil
		}
		l.connections.refused.Add(1)
		_ = conn.Close() // a failure leaves nothing to do
	}
}

// boundConn counts until it is closed.
type boundConn struct {
	net.Conn
	connections *Connections
	holder      string
	closed      atomic.Bool
}

// Close closes the connection.
func (c *boundConn) Close() error {
	if !c.closed.Swap(true) {
		c.connections.open.leave(c.holder)
	}
	return c.Conn.Close()
}

// CloseWrite ends what is sent: the HTTP server does so before it closes a connection whose request it has not read to the
// end, so that the client still gets the answer.
func (c *boundConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}
