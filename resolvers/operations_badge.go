package resolvers

import (
	"context"

	"tidings/graph"
	"tidings/services"
	"tidings/services/badge"
	"tidings/services/jobs"
)

// setDisplayPolicy changes the viewer's display policy. The error is INVALID if a source is named twice. Absent fields stay; null
// sets Tidings' default. No stored count changes: the policy is applied when badges are rendered, and the version rises.
var setDisplayPolicy = &operation[graph.SetDisplayPolicyInput]{
	operationSpec: operationSpec{name: "setDisplayPolicy"},
	command: func(_ context.Context, c *operationCall, in *graph.SetDisplayPolicyInput) (*jobs.Command, error) {
		change := badge.PolicyChange{InTotal: map[services.Source]bool{}, AsDot: map[services.Source]bool{}}
		sources, given := in.Sources.ValueOK()
		// null resets all sources, and leaves the quiet hours as they are.
		if given && sources == nil { // each gets its default
			for _, source := range services.Sources {
				change.InTotal[source], change.AsDot[source] = source.InTotalByDefault(), false
			}
		}
		// The order in the input must not matter, so naming a source twice is an error. The second entry does not replace the
		// first.
		named := map[services.Source]bool{}
		for _, one := range sources {
			source := one.Source
			if named[source] {
				return nil, services.Errorf(services.Invalid, "sources: %s is named twice", source)
			}
			named[source] = true
			// The default differs between sources: views begin outside of the total.
			if inTotal, given := one.InTotal.ValueOK(); inTotal != nil {
				change.InTotal[source] = *inTotal
			} else if given {
				change.InTotal[source] = source.InTotalByDefault()
			}
			// By default every source shows a number.
			if style, given := one.Style.ValueOK(); given {
				change.AsDot[source] = style != nil && *style == graph.BadgeStyleDot
			}
		}
		// Each part has three cases: absence leaves it, null sets the default, and a value sets it.
		if hours, given := in.QuietHours.ValueOK(); hours != nil {
			change.Quiet = &badge.QuietHours{From: hours.From, To: hours.To, UTCOffsetMinutes: hours.OffsetMinutes}
		} else if given {
			change.Quiet = &badge.QuietHours{From: "00:00", To: "00:00"} // equal times: no quiet hours
		}
		return c.r.Badge.SetPolicy(c.actor, change)
	},
}
