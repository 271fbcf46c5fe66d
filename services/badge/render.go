package badge

import (
	"time"

	"tidings/services"
	"tidings/services/rdb"
)

const day = 24 * time.Hour

// sharedBase is the start of the versions' shared half. Earlier releases put a time there, in microseconds since 1970: all
// later values are newer than those.
const sharedBase = 2_000_000_000_000_000

// render makes the badges from a document at a moment. Time is part of the input: expired items leave their count, and each
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

// settings are shared by all renderings of a service.
type settings struct {
	sources sourceList
	caps    Caps
	expiry  services.Expiry
	ages    services.SourceExpiry // of the sources except notifications
}

// view is one rendering: the document, the state that all users share, and the moment. Each source writes its part of the
// badges from it, and says when time alone changes that part next.
type view struct {
	*settings
	document rdb.Document
	moment
	// shared is a sum of values that only rise, over everything that these badges share with others: the sequence of each
	// stream, and the number of boundaries that time has passed. It rises with each of them, in whatever order this node learns
	// of them, and is greatest on the node that knows all. A maximum would not do: it would stay the same when a stream that is
	// behind another one moves.
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

// learned adds the sequence of a shared stream. Every node reads it from SQL, so that it never falls for a user, whichever node
// answers or restarts.
func (v *view) learned(sequence uint64) {
	v.shared += sequence
	v.streams += sequence
}

// passed adds the number of boundaries since 1970 at which time changes these badges.
func (v *view) passed(boundaries int64) { v.shared += uint64(max(0, boundaries)) }

// today is the day of the moment, since 1970.
func (m moment) today() int64 { return services.DayOf(m.risen) }

// expires notes that the counted items of a source leave its count as days pass. Each day is a boundary of all badges: see
// notifications.
func (v *view) expires(source services.Source, value int) {
	if value > 0 && v.ages.Expires(source) {
		v.changesAt(services.DayStart(v.today() + 1))
	}
}

func exact(value int) services.Count { return services.NewCount(value, services.Exact, time.Time{}) }
