package posts

import "tidings/services/metrics"

// Metrics describes what the audit of counts had to mend: nothing, unless there is a fault. An alarm watches it.
func (a *CountAudit) Metrics() []metrics.Group {
	return []metrics.Group{metrics.FromStats(a.mended.Load,
		metrics.Counter("post_counts_mended_total", "Posts whose counts of likes or answers were wrong, as the audit found and repaired. Always 0 unless there is a fault.", func(mended uint64) uint64 { return mended }),
	)}
}
