package badge

import (
	"strings"
	"time"

	"tidings/services"
	"tidings/services/badge/source"
)

// writeTotals writes the totals, which are never stored, and the display text of each count. It may be called again after a count
// has changed.
func (v *rendering) writeTotals(badges *services.Badges) {
	// The sum starts from zero each time, because writeTotals runs again after fillIn and markStale.
	badges.Total = services.Sum()
	for _, source := range v.sources {
		key := source.Key()
		total := source.Sum(badges)
		// A source of one count has no sum of its own; its part goes into the total below.
		if total != nil {
			*total = services.Sum()
		}
		for i := 0; ; i++ {
			count := source.Part(badges, i)
			if count == nil {
				break
			}
			if total != nil {
				part := *count
				part.InTotal = part.Mode.InTotal() // an earlier call has set it by the policy
				total.Add(part)
			}
			v.writeDisplay(badges, key, count)
			if total == nil {
				badges.Total.Add(*count)
			}
		}
		if total != nil {
			v.writeDisplay(badges, key, total)
			badges.Total.Add(*total)
		}
		// The count within the parts is shown like the others, and added to nothing.
		if count := source.Within(badges); count != nil {
			v.writeDisplay(badges, key, count)
			count.InTotal = false
		}
	}
	badges.Total.Display = v.display(badges, source.CapTotal, badges.Total)
}

// writeDisplay writes a count's display text, and whether it enters the total.
func (v *rendering) writeDisplay(badges *services.Badges, key services.Source, count *services.Count) {
	count.InTotal = v.Document.Policy.InTotal(key) && count.Mode.InTotal()
	count.Display = v.display(badges, key, *count)
}

// display prints a count by the policy of the rendering's user.
func (v *rendering) display(badges *services.Badges, key services.Source, count services.Count) string {
	return display(v.Caps, v.Document.Policy, badges.Quiet, key, count)
}

// display prints a count by a user's policy, with a "+" if it is above the cap, or may be more than was counted.
func display(caps source.DisplayCaps, policy services.DisplayPolicy, quiet bool, key services.Source, count services.Count) string {
	limit := caps.Of(key)
	switch {
	case quiet:
		return ""
	case policy.AsDot[key] || count.Mode == services.CategoryDot:
		return strings.Repeat(services.DisplayDot, min(count.Value, 1))
	case count.Precision == services.AtLeast && (count.Value >= services.MaxCountedSiteMessages || key.HasLowBounds()):
		limit = min(limit, count.Value) // the count may be a lower bound below the cap
		return services.Display(limit+1, limit)
	}
	return services.Display(count.Value, limit)
}

// unknownBadges returns the badges when no engine answers: their version is older than any that a client can hold.
func unknownBadges(sources sourceList) *services.Badges {
	v := &rendering{sources: sources, Rendering: source.Rendering{Settings: &source.Settings{}}}
	for _, source := range sources {
		source.Empty(&v.Document)
	}
	badges := v.render()
	// A client that has any version drops this one, and keeps what it shows.
	badges.Version, badges.NextAt = services.BadgesVersion(0, 0), time.Time{}
	for count := range sources.counts(badges) {
		*count = services.NewCount(0, services.Unknown, time.Time{})
	}
	v.writeTotals(badges)
	return badges
}
