package push

import "tidings/services/metrics"

// Metrics describes the hub's Stats.
func (h *Hub) Metrics() []metrics.Group {
	return []metrics.Group{metrics.FromStats(h.Stats,
		metrics.Gauge("users_online", "Users with an open subscription on this node.", func(s Stats) int { return s.OnlineUsers }),
		metrics.Counter("push_delivered_total", "Badge states handed to subscriptions.", func(s Stats) uint64 { return s.StatesDelivered }),
		metrics.Counter("push_conflated_total", "Badge states replaced by newer ones before they were sent.", func(s Stats) uint64 { return s.StatesReplaced }),
		metrics.Counter("push_repairs_total", "Users whose shown badges were out of date when reconciliation compared them.", func(s Stats) uint64 { return s.UsersRepaired }),
		metrics.Counter("push_conflicts_total", "Users with two different badge states under one version.", func(s Stats) uint64 { return s.VersionConflicts }),
		metrics.Counter("push_render_errors_total", "Failed renderings of badges.", func(s Stats) uint64 { return s.RenderErrors }),
	)}
}
