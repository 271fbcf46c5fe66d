package live

import "tidings/services/metrics"

// Metrics describes what this node has delivered to replay lists.
func (s *Service) Metrics() []metrics.Group {
	return []metrics.Group{metrics.Of(s,
		metrics.Counter("replays_delivered_total", "Replays written into the replay lists of followers.", func(s *Service) uint64 { return s.replaysDelivered.Load() }),
	)}
}
