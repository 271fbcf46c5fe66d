package fanout

import "tidings/services/metrics"

// Metrics describes what this node has delivered, and how far fan-out is behind on all nodes together.
func (f *Fanout) Metrics() []metrics.Group {
	return []metrics.Group{
		metrics.Of(f, metrics.Counter("fanout_delivered_total", "Posts written into the inboxes of followers.", func(f *Fanout) uint64 { return f.deliveredEntries.Load() })),
		metrics.FromQuery(f.Lag,
			metrics.Gauge("fanout_waiting", "Jobs that bring posts or deletions to followers.", func(lag Lag) int { return lag.WaitingJobs }),
			metrics.Gauge("fanout_lag_seconds", "Age of the oldest post that is still being brought to followers.", func(lag Lag) float64 { return lag.OldestJobAge.Seconds() }),
		),
	}
}
