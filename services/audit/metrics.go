package audit

import "tidings/services/metrics"

// Metrics describes the audit's Stats: how much it compares, and what it had to mend. Some are 0 unless there is a fault: alarms watch
// them.
func (a *Audit) Metrics() []metrics.Group {
	return []metrics.Group{metrics.FromStats(a.Stats,
		metrics.Counter("badge_audited_total", "Users whose badges were compared with the facts.", func(s Stats) uint64 { return s.VisitedUsers }),
		metrics.Counter("badge_mended_total", "Users whose badges had lost data in Redis, which the audit restored.", func(s Stats) uint64 { return s.RestoredUsers }),
		metrics.Counter("badge_drift_total", "Users whose badges were wrong, as the audit found and repaired.", func(s Stats) uint64 { return s.DriftedUsers }),
		metrics.Gauge("badge_audit_lap_seconds", "Age of the audit's current lap at this node's last turn. More than audit-every means that the audit does not keep up.", func(s Stats) float64 { return s.LapAge.Seconds() }),
	)}
}
