package transport

import "tidings/services/metrics"

// Metrics describes what the limit of connections counts.
func (c *ConnectionLimit) Metrics() []metrics.Group {
	return []metrics.Group{metrics.Of(c,
		metrics.Counter("connections_refused_total", "Connections closed at once because their address was at its limit.", (*ConnectionLimit).CountRefused),
	)}
}

// Metrics describes SocketStats.
func (s *Sockets) Metrics() []metrics.Group {
	return []metrics.Group{metrics.FromStats(s.Stats,
		metrics.Gauge("sockets_open", "Open WebSockets.", func(s SocketStats) int { return s.Open }),
		metrics.Gauge("event_streams_open", "Open event streams (SSE), reserved ones included.", func(s SocketStats) int { return s.Streams }),
		metrics.Counter("sockets_opened_total", "WebSockets and event streams ever opened.", func(s SocketStats) uint64 { return s.Opened }),
		metrics.Counter("sockets_refused_total", "WebSockets and event streams refused.", func(s SocketStats) uint64 { return s.Refused }),
		metrics.Counter("sockets_slow_total", "WebSockets and event streams closed because the client read too slowly.", func(s SocketStats) uint64 { return s.SlowClients }),
		metrics.Counter("socket_events_total", "Events written to WebSockets and event streams.", func(s SocketStats) uint64 { return s.Events }),
	)}
}
