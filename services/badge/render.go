package badge

import (
	"time"

	"tidings/services"
	"tidings/services/rdb"
)

const (
	day = 24 * time.Hour
	// expireAfterDays is how many whole days an unseen notification counts after its own.
	expireAfterDays = 7
)

// render makes what is shown of a document at a moment. Time is part of it: what expires leaves its number, and the
// version's shared half is the newest of the shared changes and the last such boundary.
func render(document rdb.Document, now time.Time) *services.Badges {
	v := &view{document: document, now: now}
	badges := &services.Badges{}
	v.homeFeed(badges)
	v.notifications(badges)
	v.siteMessages(badges)
	v.announcements(badges)
	v.conversations(badges)
	v.dots(badges)
	badges.Version, badges.NextAt = services.Version(document.N, v.shared), v.next
	sum(badges)
	return badges
}

// unexpired counts the unseen groups of today and the seven days before it.
func unexpired(counts services.CategoryCounts, today time.Time) (value int) {
	todayNumber := today.Unix() / int64(day/time.Second)
	for i, count := range counts.Days {
		if todayNumber-(counts.Day-int64(i)) <= expireAfterDays {
			value += count
		}
	}
	return value
}

// parts are the counts from which the totals are made.
func parts(badges *services.Badges) []*services.Count {
	counts := []*services.Count{&badges.HomeFeed, &badges.Announcements, &badges.Conversations.Total, &badges.Conversations.Mentions}
	for _, category := range services.Categories {
		counts = append(counts, badges.Notifications.Of(category))
	}
	for i := range badges.SiteMessages.Types {
		counts = append(counts, &badges.SiteMessages.Types[i].Count)
	}
	return counts
}

// sum writes the totals, which are never stored. The mentions are in the conversations' total already.
func sum(badges *services.Badges) {
	badges.Conversations.Mentions.InTotal = false
	notifications := badges.Notifications
	badges.Notifications.Total = services.Sum(notifications.Like, notifications.Comment, notifications.Mention, notifications.Follow)
	types := make([]services.Count, len(badges.SiteMessages.Types))
	for i, message := range badges.SiteMessages.Types {
		types[i] = message.Count
	}
	badges.SiteMessages.Total = services.Sum(types...)
	badges.Total = services.Sum(badges.HomeFeed, badges.Notifications.Total, badges.SiteMessages.Total, badges.Announcements, badges.Conversations.Total)
}

// unknown is the document when nothing answers: its version is older than any that a client can hold.
func unknown(types []string) *services.Badges {
	document := rdb.Document{}
	for _, kind := range types {
		document.Messages = append(document.Messages, services.MessageTypeState{Type: kind})
	}
	badges := render(document, time.Time{})
	badges.Version, badges.NextAt = services.Version(0, 0), time.Time{}
	for _, count := range parts(badges) {
		*count = services.NewCount(0, services.Unknown, time.Time{})
	}
	sum(badges)
	return badges
}
