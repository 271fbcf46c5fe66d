package transport

import (
	"net"
	"net/netip"
	"sync/atomic"
)

// ConnectionLimit bounds the number of connections of each address, sockets included. An IPv6 address counts as its /64. Trusted
// proxies are not bounded, because all clients come from them. The check comes before a byte is read, because an idle connection
// costs memory and a file descriptor too. ConnectionLimit is safe for concurrent use.
type ConnectionLimit struct {
	proxies     trustedProxies     // the trusted proxies
	connections concurrencyLimiter // the connections of each address
	refused     atomic.Uint64      // the connections that were closed because of the limit
}

// NewConnectionLimit bounds each address to limit connections, except the addresses of proxies; 0 means no limit.
func NewConnectionLimit(limit int, proxies []netip.Prefix) *ConnectionLimit {
	return &ConnectionLimit{proxies: trustedProxies{proxies}, connections: concurrencyLimiter{limit: limit}}
}

// WrapListener wraps a listener with the limit: a connection beyond it is closed at once.
func (c *ConnectionLimit) WrapListener(listener net.Listener) net.Listener {
	if c.connections.limit == 0 {
		return listener
	}
	return &limitedListener{Listener: listener, connectionLimit: c}
}

// CountRefused returns the number of connections closed because of the limit since the start.
func (c *ConnectionLimit) CountRefused() uint64 { return c.refused.Load() }

// limitedListener closes connections beyond the limit. The client sees a reset: an explanation would use the resources that the
// limit protects.
type limitedListener struct {
	net.Listener
	connectionLimit *ConnectionLimit
}

// Accept waits for a connection within the limit.
func (l *limitedListener) Accept() (net.Conn, error) {
	for {
		conn, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		// A Unix socket has no address that could be counted.
		peer, err := netip.ParseAddrPort(conn.RemoteAddr().String())
		client := peer.Addr().Unmap()
		if err != nil || l.connectionLimit.proxies.trusts(client) {
			return conn, nil
		}
		holder := addressKey(client)
		if l.connectionLimit.connections.enter(holder) {
			return &countedConn{Conn: conn, connectionLimit: l.connectionLimit, countedAddress: holder}, nil
		}
		l.connectionLimit.refused.Add(1)
		_ = conn.Close() // nothing can be done about an error
	}
}

// countedConn is a connection that counts against its address in a ConnectionLimit until it is closed. A second Close, which net/http may
// call, does not uncount it again.
//
// When the Front hands the connection to the HTTP server, a handedConn wraps the countedConn. The handedConn closes it, unless the
// connection returns to the Front.
type countedConn struct {
	net.Conn
	connectionLimit *ConnectionLimit
	countedAddress  string      // the address that the connection is counted under
	closed          atomic.Bool // Close was called
}

// Close closes the connection and uncounts it.
func (c *countedConn) Close() error {
	if !c.closed.Swap(true) {
		c.connectionLimit.connections.leave(c.countedAddress)
	}
	return c.Conn.Close()
}

// CloseWrite closes the sending side. The HTTP server does so before it closes a connection whose request it has not read to
// the end, so that the client still receives the answer.
func (c *countedConn) CloseWrite() error {
	return closeWrite(c.Conn)
}

// closeWrite closes the sending side of a connection, if it has sides.
func closeWrite(conn net.Conn) error {
	if half, ok := conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}
