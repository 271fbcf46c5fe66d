package badge

import (
	"time"

	"tidings/services"
	"tidings/services/badge/source"
)

const day = 24 * time.Hour

// sharedVersionBase is the start of the versions' shared half. Earlier releases put a time there, in microseconds since 1970: values
// from sharedVersionBase on are greater than all of those.
const sharedVersionBase = 2_000_000_000_000_000

// render makes the badges from a document at a moment. Time is part of the input: expired items leave their count, and each
// such boundary raises the version.
func (v *rendering) render() *services.Badges {
	badges := &services.Badges{}
	// A rendering may run again.
	v.SequenceSum, v.SequenceSumWithoutTime = 0, 0
	for _, source := range v.sources {
		source.Render(&v.Rendering, badges)
	}
	badges.Version, badges.NextAt = services.BadgesVersion(v.Document.Version, sharedVersionBase+v.SequenceSum), v.NextChangeAt
	// Learned is the sum without the boundaries of time, which every node passes by itself: the push hub compares it with the sequences that
	// the caches have learned.
	badges.Learned = v.SequenceSumWithoutTime
	v.writeTotals(badges)
	return badges
}

// rendering is one rendering of a user's badges by all sources.
type rendering struct {
	source.Rendering
	sources sourceList
}
