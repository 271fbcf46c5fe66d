package projector

import "tidings/services/metrics"

// Metrics describes the projector's rebuilds, and what it knows of faults: alarms watch these.
func (p *Projector) Metrics() []metrics.Group {
	return []metrics.Group{
		metrics.FromStats(p.RebuildStats,
			metrics.Counter("rebuilds_total", "Projections in Redis that were rebuilt from the facts.", func(s RebuildStats) uint64 { return s.Begun }),
			metrics.Gauge("rebuilds_running", "Projections in Redis that are being rebuilt now.", func(s RebuildStats) int { return s.Running }),
		),
		metrics.Of(p,
			metrics.Counter("unread_clamped_total", "Negative counts of unread messages that were clamped to 0. Always 0 unless there is a fault.", (*Projector).NegativeCounts),
			metrics.Gauge("clock_ahead_seconds", "Seconds by which this node's clock is ahead of the database's; negative when behind. Always 0 on SQLite, which has no clock of its own.", func(p *Projector) float64 {
				ahead, _ := p.ClockAhead()
				return ahead.Seconds()
			}),
		),
	}
}

// Metrics describes what the cleaner has freed. There is one metric for each kind, and no label, because alarms name the metrics.
func (c *Cleaner) Metrics() []metrics.Group {
	return []metrics.Group{metrics.FromStats(c.Stats,
		metrics.Counter("cleaner_inboxes_total", "Inboxes and replay lists that the cleaner trimmed.", func(f FreedCounts) uint64 { return f.TrimmedLists }),
		metrics.Counter("cleaner_entries_total", "Entries that the cleaner removed from inboxes and replay lists.", func(f FreedCounts) uint64 { return f.RemovedEntries }),
		metrics.Counter("cleaner_dormant_total", "Dormant users whose keys the cleaner removed.", func(f FreedCounts) uint64 { return f.DormantUsers }),
		metrics.Counter("cleaner_unknown_total", "Users unknown to SQL whose keys the cleaner removed.", func(f FreedCounts) uint64 { return f.UnknownUsers }),
		metrics.Counter("cleaner_orphans_total", "Keys without their badge document that the cleaner removed.", func(f FreedCounts) uint64 { return f.OrphanKeys }),
		metrics.Counter("cleaner_endless_total", "Copies, projections and leases without an expiry that the cleaner removed.", func(f FreedCounts) uint64 { return f.KeysWithoutExpiry }),
		metrics.Counter("cleaner_keys_total", "Keys that the cleaner removed, in all.", func(f FreedCounts) uint64 { return f.DroppedKeys }),
	)}
}
