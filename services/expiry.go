package services

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// SourceExpiry is the number of whole days after its own day for which an unread item of a source stays in the count: 1 to
// MaxExpiryDays, or NeverExpires. A source that is not listed has NeverExpires. Notifications have an expiry of their own, by
// category.
type SourceExpiry map[Source]int

const (
	// NeverExpires keeps a source's items, or a category's notifications, in the count until they are seen.
	NeverExpires = 0
	// MaxExpiryDays is the longest expiry: so many days before the newest item's day are counted separately.
	MaxExpiryDays = 7
)

// ExpirableSources are the sources that a SourceExpiry can name.
var ExpirableSources = slices.DeleteFunc(slices.Clone(Sources), func(source Source) bool { return !source.canExpire() })

// ParseSourceExpiry parses SOURCE=DAYS items, or returns the reason why they are invalid.
func ParseSourceExpiry(items []string) (expiry SourceExpiry, reason string) {
	expiry = SourceExpiry{}
	for _, item := range items {
		name, text, _ := strings.Cut(item, "=")
		source := Source(name)
		if source == SourceNotifications {
			return nil, "NOTIFICATIONS have a setting of their own, --notification-expiry, by category"
		}
		if source == SourceViews {
			return nil, "VIEWS do not expire: the application removes old items with removeViewItem"
		}
		if !slices.Contains(Sources, source) {
			return nil, fmt.Sprintf("%s is not a source: expected one of %v, then = and the days", Quote(item), ExpirableSources)
		}
		if !source.canExpire() {
			return nil, fmt.Sprintf("%s does not expire", source)
		}
		days, reason := ParseExpiryDays(item, text)
		if reason != "" {
			return nil, reason
		}
		// Without this check the later value would win silently.
		if _, twice := expiry[source]; twice {
			return nil, fmt.Sprintf("%s is named twice", source)
		}
		expiry[source] = days
	}
	return expiry, ""
}

// ParseExpiryDays parses the days of an item, or returns the reason why they are invalid.
func ParseExpiryDays(item, text string) (days int, reason string) {
	if text == "never" {
		return NeverExpires, ""
	}
	days, err := strconv.Atoi(text)
	if err != nil || days < 1 || days > MaxExpiryDays {
		return 0, fmt.Sprintf("%s: 1 to %d or never is allowed after the =", Quote(item), MaxExpiryDays)
	}
	return days, ""
}

// Expires reports whether items of a source leave its count because of their age.
func (e SourceExpiry) Expires(source Source) bool { return e[source] != NeverExpires }

// AnyExpires reports whether items of any source expire.
func (e SourceExpiry) AnyExpires() bool {
	for _, days := range e {
		if days != NeverExpires {
			return true
		}
	}
	return false
}

// OldestCountedDay is the first day (since 1970, UTC) whose items of a source count today. Count, list and SQL all use it. It is 0
// for NeverExpires.
func (e SourceExpiry) OldestCountedDay(source Source, today int64) int64 {
	if !e.Expires(source) {
		return 0
	}
	return max(0, today-int64(e[source]))
}

// CountedSince is the first moment whose items of a source count today; 1970 for NeverExpires.
func (e SourceExpiry) CountedSince(source Source, today int64) time.Time {
	return DayStart(e.OldestCountedDay(source, today))
}

// ExpiredUpTo is the least position that a reader is treated as having: items up to it are too old to count. It is 0 for
// NeverExpires. Positions that are IDs hold a time, so expiry moves the position and touches no item.
func (e SourceExpiry) ExpiredUpTo(source Source, today int64) SortableID {
	if !e.Expires(source) {
		return 0
	}
	return max(1, SortableIDAt(e.CountedSince(source, today))) - 1
}

// ExpiredPostsUpTo is ExpiredUpTo of the home feed, whose positions are posts.
func (e SourceExpiry) ExpiredPostsUpTo(today int64) PostID {
	return PostID(e.ExpiredUpTo(SourceHomeFeed, today))
}

// SkipExpiredAnnouncements returns a reader's state, with the position moved forward so that announcements that are too old count
// as read.
func (e SourceExpiry) SkipExpiredAnnouncements(state AnnouncementState, today int64) AnnouncementState {
	if e.Expires(SourceAnnouncements) {
		state.Position = max(state.Position, uint64(e.CountedSince(SourceAnnouncements, today).UnixMicro())-1)
	}
	return state
}

// ExpiryDay is the day on which an item of a day leaves the count of its source; 0 for NeverExpires.
func (e SourceExpiry) ExpiryDay(source Source, day int64) int64 {
	if !e.Expires(source) {
		return 0
	}
	return day + int64(e[source]) + 1
}

const day = 24 * time.Hour

// DayOf is the day of a moment, since 1970, UTC.
func DayOf(t time.Time) int64 { return t.Unix() / int64(day/time.Second) }

// DayStart is when a day begins.
func DayStart(days int64) time.Time { return time.Unix(days*int64(day/time.Second), 0).UTC() }

// DayCounts are the numbers of unread items by day, from the newest item's day backwards.
type DayCounts struct {
	OlderCount int                    // items of days before those of CountByDay
	NewestDay  int64                  // the day of CountByDay[0], since 1970; CountByDay[i] is i days earlier
	CountByDay [MaxExpiryDays + 1]int // the unread items of each day
}

// Add counts items of a day.
func (c *DayCounts) Add(day int64, items int) {
	if day > c.NewestDay {
		// The counts move back by the days in between; counts that fall off the end are added to OlderCount.
		had := *c
		*c = DayCounts{OlderCount: had.OlderCount, NewestDay: day}
		for i, count := range had.CountByDay {
			c.addUpToNewestDay(had.NewestDay-int64(i), count)
		}
	}
	c.addUpToNewestDay(day, items)
}

// addUpToNewestDay counts items of NewestDay or an earlier day.
func (c *DayCounts) addUpToNewestDay(day int64, items int) {
	if back := c.NewestDay - day; back < int64(len(c.CountByDay)) {
		c.CountByDay[back] += items
	} else {
		c.OlderCount += items
	}
}

// CountSince is the number of items of a day or later, among those in CountByDay.
func (c *DayCounts) CountSince(oldest int64) (items int) {
	for i, count := range c.CountByDay {
		if c.NewestDay-int64(i) >= oldest {
			items += count
		}
	}
	return items
}
