package resolvers

import (
	"context"

	"tidings/graph"
	"tidings/services"
	"tidings/services/badge"
	"tidings/services/jobs"
)

// setDisplayPolicy changes the viewer's display policy. INVALID if a source is named twice.
var setDisplayPolicy = &operation[graph.SetDisplayPolicyInput]{
	name: "setDisplayPolicy",
	command: func(_ context.Context, c *call, in *graph.SetDisplayPolicyInput) (*jobs.Command, error) {
		change := badge.PolicyChange{InTotal: map[services.Source]bool{}, AsDot: map[services.Source]bool{}}
		named := map[services.Source]bool{}
		for _, source := range in.Sources {
			if named[source.Source] {
				return nil, services.Errorf(services.Invalid, "sources: %s is named twice", source.Source)
			}
			named[source.Source] = true
			if source.InTotal != nil {
				change.InTotal[source.Source] = *source.InTotal
			}
			if source.Style != nil {
				change.AsDot[source.Source] = *source.Style == graph.BadgeStyleDot
			}
		}
		if hours, given := in.QuietHours.ValueOK(); hours != nil {
			change.Quiet = &badge.QuietHours{From: hours.From, To: hours.To, OffsetEast: hours.OffsetMinutes}
		} else if given {
			change.Quiet = &badge.QuietHours{From: "00:00", To: "00:00"} // equal times: no quiet hours
		}
		return c.r.Badge.SetPolicy(c.actor, change)
	},
}
