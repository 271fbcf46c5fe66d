package badge

import (
	"time"

	"tidings/services"
	"tidings/services/rdb"
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
	for _, source := range v.sources {
		source.render(v, badges)
	}
	badges.Version, badges.NextAt = services.Version(v.document.N, sharedBase+v.shared), v.next
	badges.Learned = v.streams
	v.sum(badges)
	return badges
}

// settings are what all renderings of a service have in common.
type settings struct {
	sources sourceList
	caps    Caps
	expiry  services.Expiry
	ages    services.SourceExpiry // of the sources but notifications
}

// view is one rendering: the document, what all users share, and the moment. Each source writes its part of the badges
// from it, and says when time alone changes that part next.
type view struct {
	*settings
	document rdb.Document
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
