package badge

import (
	"time"

	"tidings/services"
	"tidings/services/rdb"
)

// view is one rendering: the document, what all users share, and the moment. Each source writes its part of the badges
// from it, and says when time alone changes that part next.
type view struct {
	document rdb.Document
	caps     Caps
	expiry   services.Expiry
	ages     services.SourceExpiry
	moment
	// shared is the sum of what only rises of all that these badges share with others: the sequence of each stream, and the
	// number of the boundaries that time has passed. It rises whenever any of them does, in whatever order this node learns of
	// them, and on the node that knows all it is the greatest: the greatest of them would stay the same when a stream moves
	// that is behind another one.
	shared uint64
	// streams is the part of shared that time does not change.
	streams uint64
	next    time.Time
}

// changesAt notes that time alone changes the badges at a moment.
func (v *view) changesAt(at time.Time) {
	if !at.IsZero() && at.After(v.now) && (v.next.IsZero() || at.Before(v.next)) {
		v.next = at
	}
}

// learned adds the sequence of a shared stream. SQL tells it to every node, so that it never falls for a user, whatever node
// answers or starts again.
func (v *view) learned(sequence uint64) {
	v.shared += sequence
	v.streams += sequence
}

// passed adds how many boundaries time has passed since 1970 that change these badges.
func (v *view) passed(boundaries int64) { v.shared += uint64(max(0, boundaries)) }

// today is the day of the moment, since 1970.
func (m moment) today() int64 { return services.DayOf(m.risen) }

// expires notes that items of a source which are in its number leave it as days pass. Each day is a boundary of all badges: see
// notifications.
func (v *view) expires(source services.Source, value int) {
	if value > 0 && v.ages.Expires(source) {
		v.changesAt(services.DayStart(v.today() + 1))
	}
}

func exact(value int) services.Count { return services.NewCount(value, services.Exact, time.Time{}) }

// homeFeed is what was published since the feed was looked at: what was pushed, and what this node has in memory; or what SQL
// has, where the inbox ends before the new posts do.
func (v *view) homeFeed(badges *services.Badges) {
	pulled := v.document.PulledCount
	v.learned(pulled.Sequence)
	value, more := v.document.FeedCount+pulled.New, v.document.FeedMore || pulled.More || pulled.Behind
	if v.document.UnreadKnown {
		value, more = v.document.Unread, false
	}
	precision := services.Exact
	if more || value > services.Retention {
		limit := v.caps.feedLimit()
		if more || value > limit {
			precision = services.AtLeast
		}
		value = min(value, limit)
	}
	v.expires(services.SourceHomeFeed, value)
	badges.HomeFeed = services.NewCount(value, precision, time.Time{})
}

// notifications are the unseen groups of the last days, by category. They leave day by day.
func (v *view) notifications(badges *services.Badges) {
	today := v.risen.Truncate(day)
	v.passed(today.Unix() / int64(day/time.Second))
	for _, category := range services.Categories {
		*badges.Notifications.Of(category) = exact(0)
	}
	for _, counts := range v.document.Notifications {
		value, older := v.expiry.Unexpired(counts, today.Unix()/int64(day/time.Second))
		if value > 0 {
			v.changesAt(today.Add(day))
		}
		*badges.Notifications.Older.Of(counts.Category) = older
		*badges.Notifications.Of(counts.Category) = exact(value)
		badges.Notifications.Newest = max(badges.Notifications.Newest, counts.Newest)
	}
}

// siteMessages are the unread ones, by type.
func (v *view) siteMessages(badges *services.Badges) {
	oldest, expires := v.ages.OldestDay(services.SourceSiteMessages, v.today()), v.ages.Expires(services.SourceSiteMessages)
	for _, state := range v.document.Messages {
		if expires {
			state.Unread = state.Days.From(oldest)
			v.expires(services.SourceSiteMessages, state.Unread)
		}
		badges.SiteMessages.Types = append(badges.SiteMessages.Types, services.MessageTypeCount{Type: state.Type, Count: exact(state.Unread)})
	}
}

// announcements are those that run now, are meant for this user and stand after his position. They leave when they end.
func (v *view) announcements(badges *services.Badges) {
	if v.notices == nil {
		badges.Announcements = services.NewCount(0, services.Unknown, time.Time{})
		return
	}
	count, ends := v.notices.CountUnread(v.ages.AgedNotices(v.document.Notice, v.today()), v.segments())
	v.expires(services.SourceAnnouncements, count)
	v.learned(v.notices.Sequence() - v.notices.Ended)
	v.passed(int64(v.notices.Ended))
	v.changesAt(ends)
	badges.Announcements = exact(count)
}

// dots are all there are, lit or not.
func (v *view) dots(badges *services.Badges) {
	badges.Dots = []services.Dot{}
	if v.notices != nil {
		badges.Dots = v.notices.Lights(v.document.Notice, v.segments(), v.document.DotsSeen)
	}
}

func (v *view) segments() services.SegmentBits { return services.SegmentBits(v.document.Segments.Bits) }
