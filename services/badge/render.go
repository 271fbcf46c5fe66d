package badge

import (
	"time"

	"tidings/services"
)

const day = 24 * time.Hour

// sharedBase is where the shared half of versions begins. Earlier releases put a time there, in microseconds since 1970: what
// follows is newer than all of these.
const sharedBase = 2_000_000_000_000_000

// render makes what is shown of a document at a moment. Time is part of it: what expires leaves its number, and each
// such boundary raises the version.
func (v *view) render() *services.Badges {
	badges := &services.Badges{}
	v.shared, v.streams = 0, 0
	v.homeFeed(badges)
	v.notifications(badges)
	v.siteMessages(badges)
	v.announcements(badges)
	v.conversations(badges)
	v.liveBoard(badges)
	v.dots(badges)
	v.quiet(badges)
	badges.Version, badges.NextAt = services.Version(v.document.N, sharedBase+v.shared), v.next
	badges.Learned = v.streams
	v.sum(badges)
	return badges
}
