package stream

import (
	"context"
	"time"

	"tidings/services/metrics"
)

// Metrics describes the Stats of this node and what waits for the writer, on all nodes together. Most Stats are 0 on all nodes but
// the writer. For all nodes together, add up the counters, and take the greatest value of each gauge. While the stream is off, its
// metrics are 0 or stay as they are.
func (s *Service) Metrics() []metrics.Group {
	return []metrics.Group{
		metrics.FromStats(s.Stats,
			metrics.Counter("changes_written_total", "Changes of users' badges that this node wrote to the change stream.", func(s Stats) uint64 { return s.Changes }),
			metrics.Counter("changes_marked_total", "Users that this node's jobs marked for the change stream.", func(s Stats) uint64 { return s.Marks }),
			metrics.Counter("changes_compared_total", "Marked users whose badges this node compared with their last change.", func(s Stats) uint64 { return s.ComparedUsers }),
			metrics.Counter("changes_laps_total", "Laps of the change stream over all active users.", func(s Stats) uint64 { return s.Laps }),
			metrics.Gauge("changes_lap_seconds", "Duration of this node's last lap.", func(s Stats) float64 { return s.LastLapTook.Seconds() }),
			metrics.Counter("changes_slow_laps_total", "Laps of the change stream over all users who are not active.", func(s Stats) uint64 { return s.SlowLaps }),
			metrics.Gauge("changes_slow_lap_seconds", "Duration of the last slow lap that this node ended, with its rests.", func(s Stats) float64 { return s.LastSlowLapTook.Seconds() }),
			metrics.Flag("changes_writer", "1 on the node that writes the change stream, 0 on the others and while it is off.", func(s Stats) bool { return s.IsWriter }),
		),
		metrics.FromQuery(s.readLag,
			metrics.Gauge("changes_waiting", "Users whose badges are to be compared with their last change.", func(l lag) int { return l.waiting }),
			// This is about the users that changes_waiting counts.
			metrics.Gauge("changes_lag_seconds", "Time since the first of them was due.", func(l lag) float64 { return l.oldest.Seconds() }),
		),
	}
}

// lag is how far the writer is behind.
type lag struct {
	waiting int           // users who are due
	oldest  time.Duration // how long the first has been due
}

// readLag reads the lag. While the stream is off it reads nothing, and both numbers are 0: nothing waits.
func (s *Service) readLag(ctx context.Context) (l lag, err error) {
	if !s.On() {
		return l, nil
	}
	l.waiting, l.oldest, err = s.Lag(ctx)
	return l, err
}
