package badge

import (
	"time"

	"tidings/services"
)

const (
	day = 24 * time.Hour
	// expireAfterDays is how many whole days an unseen notification counts after its own.
	expireAfterDays = 7
)

// render makes what is shown of a document at a moment. Time is part of it: what expires leaves its number, and the
// version's shared half is the newest of the shared changes and the last such boundary.
func (v *view) render() *services.Badges {
	badges := &services.Badges{}
	v.homeFeed(badges)
	v.notifications(badges)
	v.siteMessages(badges)
	v.announcements(badges)
	v.conversations(badges)
	v.dots(badges)
	v.quiet(badges)
	badges.Version, badges.NextAt = services.Version(v.document.N, v.shared), v.next
	v.sum(badges)
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
