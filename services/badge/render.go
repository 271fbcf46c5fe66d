package badge

import (
	"time"

	"tidings/services"
)

const day = 24 * time.Hour

// render makes what is shown of a document at a moment. Time is part of it: what expires leaves its number, and the
// version's shared half is the newest of the shared changes and the last such boundary.
func (v *view) render() *services.Badges {
	badges := &services.Badges{}
	v.homeFeed(badges)
	v.notifications(badges)
	v.siteMessages(badges)
	v.announcements(badges)
	v.conversations(badges)
	v.liveBoard(badges)
	v.dots(badges)
	v.quiet(badges)
	badges.Version, badges.NextAt = services.Version(v.document.N, v.shared), v.next
	v.sum(badges)
	return badges
}
