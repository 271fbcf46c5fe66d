package live

import (
	"math"
	"math/bits"

	"tidings/services"
)

// cachedHost is a user who has or had a show on boards. The top scores let a board of many hosts skip most hosts without reading their
// shows.
type cachedHost struct {
	userID                         services.UserID // 0: a free slot of the table
	liveVersion                    uint64          // the version of the log at which the host's set of live shows last changed
	topActiveScore, topReplayScore int64           // the greatest scores in shows.active and shows.replays; MinInt64: the list is empty
	shows                          *hostShows      // nil: none is cached
}

// hostTable finds hosts by user ID. It uses open addressing, because every badge and every board looks up all hosts that a
// viewer follows, up to thousands, and a map takes three times as long for that. Hosts are never removed.
type hostTable struct {
	slots     []cachedHost // a power of two, at most half of them used; user ID 0 marks a free one
	usedSlots int          // how many slots are used
}

// initialHostSlots is the size of an empty table: a power of two, as every size.
const initialHostSlots = 64

func newHostTable() *hostTable { return &hostTable{slots: make([]cachedHost, initialHostSlots)} }

// slot is the slot of a host, or the free slot for it.
func (t *hostTable) slot(id services.UserID) *cachedHost {
	const spread = 0x9E3779B1 // odd: the upper bits of the product depend on all bits of the ID
	mask := uint32(len(t.slots) - 1)
	// The mask has as many ones as the index has bits: shift the product down to them.
	at := uint32(id) * spread >> (32 - bits.Len32(mask))
	for {
		if slot := &t.slots[at&mask]; slot.userID == id || slot.userID == 0 {
			return slot
		}
		// At most half of the slots are used, so a free one ends the walk soon.
		at++
	}
}

// get returns a host, or the zero value for an unknown host. Callers must not modify it. In a zero value shows is nil, and
// topActiveScore is 0, which no live show has as its score.
func (t *hostTable) get(id services.UserID) *cachedHost { return t.slot(id) }

// add returns a host for modification, and adds it if needed. The pointer is valid until the next add.
func (t *hostTable) add(id services.UserID) *cachedHost {
	slot := t.slot(id)
	if slot.userID == id {
		return slot
	}
	if t.usedSlots++; 2*t.usedSlots > len(t.slots) {
		former := t.slots
		t.slots = make([]cachedHost, 2*len(former))
		for _, one := range former {
			if one.userID > 0 {
				*t.slot(one.userID) = one
			}
		}
		// slot still points into the former table.
		slot = t.slot(id)
	}
	// MinInt64 is below every score, so boards skip the host.
	*slot = cachedHost{userID: id, topActiveScore: math.MinInt64, topReplayScore: math.MinInt64}
	return slot
}

// each calls call with every host.
func (t *hostTable) each(call func(*cachedHost)) {
	for i := range t.slots {
		if t.slots[i].userID > 0 {
			call(&t.slots[i])
		}
	}
}

// updateTopScores updates the top scores, which boards read first. Call it after a change of the host's shows. For a host without
// shows it keeps only liveVersion.
func (h *cachedHost) updateTopScores() {
	h.topActiveScore, h.topReplayScore = math.MinInt64, math.MinInt64
	if len(h.shows.active) > 0 {
		h.topActiveScore = h.shows.active[0].score
	}
	if len(h.shows.replays) > 0 {
		h.topReplayScore = h.shows.replays[0].score
	}
	if len(h.shows.active)+len(h.shows.replays) == 0 {
		h.shows = nil
	}
}
