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

// render makes what is shown of a document at a moment. Time is part of it: notifications leave their number day by
// day, and the version's shared half is the last such boundary.
func render(document rdb.Document, now time.Time) *services.Badges {
	badges := &services.Badges{}
	precision := services.Exact
	if document.FeedMore {
		precision = services.AtLeast
	}
	badges.HomeFeed = services.NewCount(document.FeedCount, precision, time.Time{})
	badges.Notifications.Like = services.NewCount(0, services.Exact, time.Time{})
	today := now.Truncate(day)
	expires := false
	for _, counts := range document.Notifications {
		value := unexpired(counts, today)
		expires = expires || value > 0
		if counts.Category == services.CategoryLike {
			badges.Notifications.Like = services.NewCount(value, services.Exact, time.Time{})
		}
		badges.Notifications.Newest = max(badges.Notifications.Newest, counts.Newest)
	}
	badges.Version = services.Version(document.N, uint64(today.UnixMicro()))
	if expires {
		badges.NextAt = today.Add(day)
	}
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

// sum writes the totals, which are never stored.
func sum(badges *services.Badges) {
	badges.Notifications.Total = services.Sum(badges.Notifications.Like)
	badges.Total = services.Sum(badges.HomeFeed, badges.Notifications.Total)
}

// unknown is the document when nothing answers: its version is older than any that a client can hold.
func unknown() *services.Badges {
	badges := &services.Badges{Version: services.Version(0, 0)}
	badges.HomeFeed = services.NewCount(0, services.Unknown, time.Time{})
	badges.Notifications.Like = services.NewCount(0, services.Unknown, time.Time{})
	sum(badges)
	return badges
}
