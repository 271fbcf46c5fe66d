package badge

import (
	"iter"
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
func partsOf(badges *services.Badges, source services.Source) iter.Seq[*services.Count] {
	return func(yield func(*services.Count) bool) {
		switch source {
		case services.SourceHomeFeed:
			yield(&badges.HomeFeed)
		case services.SourceNotifications:
			for _, category := range services.Categories {
				if !yield(badges.Notifications.Of(category)) {
					return
				}
			}
		case services.SourceSiteMessages:
			for i := range badges.SiteMessages.Types {
				if !yield(&badges.SiteMessages.Types[i].Count) {
					return
				}
			}
		case services.SourceAnnouncements:
			yield(&badges.Announcements)
		case services.SourceConversations:
			yield(&badges.Conversations.Total)
		case services.SourceLiveBoard:
			yield(&badges.LiveBoard)
		}
	}
}

// sumOf is the count of a source that is the sum of its parts, nil where the source has one count alone.
func sumOf(badges *services.Badges, source services.Source) *services.Count {
	switch source {
	case services.SourceNotifications:
		return &badges.Notifications.Total
	case services.SourceSiteMessages:
		return &badges.SiteMessages.Total
	}
	return nil
}

// everyPart are the counts that are read, and not sums: those of every source, and the mentions.
func everyPart(badges *services.Badges) iter.Seq[*services.Count] {
	return func(yield func(*services.Count) bool) {
		if !yield(&badges.Conversations.Mentions) {
			return
		}
		for _, source := range services.Sources {
			for count := range partsOf(badges, source) {
				if !yield(count) {
					return
				}
			}
		}
	}
}

// sum writes the totals, which are never stored, and how each number is shown. The mentions are in the conversations'
// total already.
func (v *view) sum(badges *services.Badges) {
	policy := v.document.Policy
	badges.Total = services.Sum()
	for _, source := range services.Sources {
		show := func(count *services.Count) {
			count.InTotal = !policy.OutOfTotal[source]
			count.Display = v.display(badges, source, count.Value)
		}
		total := sumOf(badges, source)
		if total != nil {
			*total = services.Sum()
		}
		for count := range partsOf(badges, source) {
			if total != nil {
				total.Add(*count)
			}
			show(count)
			if total == nil {
				badges.Total.Add(*count)
			}
		}
		if total != nil {
			show(total)
			badges.Total.Add(*total)
		}
	}
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
	quiet, changesAt := policy.Quiet(v.risen)
	badges.Quiet = quiet
	v.changesAt(changesAt)
	for _, minute := range []int{policy.QuietFrom, policy.QuietTo} { // each passes once a day
		v.passed(v.risen.Add(time.Duration(policy.OffsetEast-minute)*time.Minute).Unix() / int64(day/time.Second))
	}
}

// unknown is the document when nothing answers: its version is older than any that a client can hold.
func unknown(types []string) *services.Badges {
	v := &view{}
	for _, kind := range types {
		v.document.Messages = append(v.document.Messages, services.MessageTypeState{Type: kind})
	}
	badges := v.render()
	badges.Version, badges.NextAt = services.Version(0, 0), time.Time{}
	for count := range everyPart(badges) {
		*count = services.NewCount(0, services.Unknown, time.Time{})
	}
	v.sum(badges)
	return badges
}
