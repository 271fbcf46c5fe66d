package devices

import (
	"context"
	"errors"

	"tidings/services/metrics"
)

// Metrics describes whether this node sends, and the devices. They are counted in the whole database, so each node shows the same
// numbers. Without keys there are no counts.
func (s *Service) Metrics() []metrics.Group {
	return []metrics.Group{
		metrics.FromStats(s.Stats,
			metrics.Flag("devices_sending", "1 on the node that sends to devices, 0 on the others.", func(s Stats) bool { return s.SendsHere }),
		),
		metrics.FromQuery(s.countsIfOn,
			metrics.Gauge("devices", "Devices that are registered for Web Push.", func(c Counts) int { return c.Registered }),
			metrics.Gauge("devices_waiting", "Devices that have not got their user's newest change.", func(c Counts) int { return c.Waiting }),
			metrics.Gauge("devices_dead", "Devices that failed for a day, and wait for their user's next change.", func(c Counts) int { return c.Dead }),
			metrics.Gauge("devices_lag_seconds", "Time since the oldest message to a device was due.", s.lagSeconds),
			// These only rise: they are rows in SQL, so no restart resets them.
			metrics.Counter("devices_delivered_total", "Messages that push services accepted, from all nodes.", func(c Counts) int { return c.DeliveredMessages }),
			metrics.Counter("devices_failed_total", "Requests to push services that failed, from all nodes.", func(c Counts) int { return c.FailedRequests }),
			metrics.Counter("devices_removed_total", "Devices that their push service did not know any more.", func(c Counts) int { return c.RemovedDevices }),
		),
	}
}

// errNoKeys says that the devices are not counted, because Web Push is off.
var errNoKeys = errors.New("devices: Web Push is off")

// countsIfOn counts the devices, while Web Push is on.
func (s *Service) countsIfOn(ctx context.Context) (Counts, error) {
	if !s.On() {
		return Counts{}, errNoKeys
	}
	return s.Counts(ctx)
}

// lagSeconds is the time since the first due device became due, 0 if none is due.
func (s *Service) lagSeconds(c Counts) float64 {
	if c.OldestDueAt.IsZero() {
		return 0
	}
	return max(0, s.cfg.Clock.Now().Sub(c.OldestDueAt).Seconds())
}
