package resolvers

import (
	"tidings/graph"
	"tidings/services"
	"tidings/services/badge"
)

func graphPolicy(policy services.DisplayPolicy) *graph.DisplayPolicy {
	shown := &graph.DisplayPolicy{Sources: make([]graph.SourcePolicy, len(services.Sources))}
	for i, source := range services.Sources {
		shown.Sources[i] = graph.SourcePolicy{Source: source, InTotal: policy.InTotal(source), Style: graph.BadgeStyleNumber}
		if policy.AsDot[source] {
			shown.Sources[i].Style = graph.BadgeStyleDot
		}
	}
	if policy.QuietFrom != policy.QuietTo {
		shown.QuietHours = &graph.QuietHours{
			From: badge.MinuteText(policy.QuietFrom), To: badge.MinuteText(policy.QuietTo), OffsetMinutes: policy.OffsetEast,
		}
	}
	return shown
}
