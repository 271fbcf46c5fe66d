package badge

import (
	"strings"
	"time"

	"tidings/services"
)

// Caps are the largest numbers shown in full, by source; CapTotal is the total's. What is not in it has the standard.
type Caps map[services.Source]int

// CapTotal is the key of the total's cap.
const CapTotal services.Source = "TOTAL"

func (c Caps) of(source services.Source) int {
	if limit, set := c[source]; set {
		return limit
	}
	return services.DisplayCap
}

// partsOf are the counts of one source from which its total is made.
func partsOf(badges *services.Badges, source services.Source) []*services.Count {
	switch source {
	case services.SourceHomeFeed:
		return []*services.Count{&badges.HomeFeed}
	case services.SourceNotifications:
		counts := make([]*services.Count, len(services.Categories))
		for i, category := range services.Categories {
			counts[i] = badges.Notifications.Of(category)
		}
		return counts
	case services.SourceSiteMessages:
		counts := make([]*services.Count, len(badges.SiteMessages.Types))
		for i := range badges.SiteMessages.Types {
			counts[i] = &badges.SiteMessages.Types[i].Count
		}
		return counts
	case services.SourceAnnouncements:
		return []*services.Count{&badges.Announcements}
	case services.SourceConversations:
		return []*services.Count{&badges.Conversations.Total}
	}
	return nil
}

// totalOf is the count by which a source enters the total; for a source of one count it is that one.
func totalOf(badges *services.Badges, source services.Source) *services.Count {
	switch source {
	case services.SourceNotifications:
		return &badges.Notifications.Total
	case services.SourceSiteMessages:
		return &badges.SiteMessages.Total
	}
	return partsOf(badges, source)[0]
}

// everyPart are the counts that are read, and not sums: those of every source, and the mentions.
func everyPart(badges *services.Badges) []*services.Count {
	counts := []*services.Count{&badges.Conversations.Mentions}
	for _, source := range services.Sources {
		counts = append(counts, partsOf(badges, source)...)
	}
	return counts
}

// sum writes the totals, which are never stored, and how each number is shown. The mentions are in the conversations'
// total already.
func (v *view) sum(badges *services.Badges) {
	policy := v.document.Policy
	var sources []services.Count
	for _, source := range services.Sources {
		counts := partsOf(badges, source)
		total := totalOf(badges, source)
		if len(counts) != 1 || counts[0] != total {
			values := make([]services.Count, len(counts))
			for i, count := range counts {
				values[i] = *count
			}
			*total = services.Sum(values...)
		}
		for _, count := range append(counts, total) {
			count.InTotal = !policy.OutOfTotal[source]
			count.Display = v.display(badges, source, count.Value)
		}
		sources = append(sources, *total)
	}
	badges.Total = services.Sum(sources...)
	badges.Total.Display = v.display(badges, CapTotal, badges.Total.Value)
	mentions := &badges.Conversations.Mentions
	mentions.InTotal, mentions.Display = false, v.display(badges, services.SourceConversations, mentions.Value)
}

// display prints a number as the user wants it.
func (v *view) display(badges *services.Badges, source services.Source, value int) string {
	switch {
	case badges.Quiet:
		return ""
	case v.document.Policy.AsDot[source]:
		return strings.Repeat(services.DisplayDot, min(value, 1))
	}
	return services.Display(value, v.caps.of(source))
}

// quiet says whether it is the user's quiet hours.
func (v *view) quiet(badges *services.Badges) {
	policy := v.document.Policy
	if policy.QuietFrom == policy.QuietTo {
		return
	}
	quiet, changesAt := policy.Quiet(v.now)
	badges.Quiet = quiet
	v.changesAt(changesAt)
	// What is shown now began as long before the next boundary as it lasts.
	lasts := span(policy.QuietTo, policy.QuietFrom)
	if quiet {
		lasts = span(policy.QuietFrom, policy.QuietTo)
	}
	v.since(uint64(changesAt.Add(-lasts).UnixMicro()))
}

// span is how long it is from one minute of the day to the next time that it is another.
func span(from, to int) time.Duration {
	return time.Duration((to-from+services.MinutesPerDay)%services.MinutesPerDay) * time.Minute
}

// unknown is the document when nothing answers: its version is older than any that a client can hold.
func unknown(types []string) *services.Badges {
	v := &view{}
	for _, kind := range types {
		v.document.Messages = append(v.document.Messages, services.MessageTypeState{Type: kind})
	}
	badges := v.render()
	badges.Version, badges.NextAt = services.Version(0, 0), time.Time{}
	for _, count := range everyPart(badges) {
		*count = services.NewCount(0, services.Unknown, time.Time{})
	}
	v.sum(badges)
	return badges
}
