package ratelimit

import "tidings/services/metrics"

// Metrics describes what the limiter counts.
func (l *Limiter) Metrics() []metrics.Group {
	return []metrics.Group{metrics.Of(l,
		metrics.Counter("rate_limited_total", "Requests, operations and sockets refused by rate limits.", (*Limiter).Refused),
	)}
}
