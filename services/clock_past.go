package services

import "time"

// pastIDs remembers the last ID of each past millisecond that was used lately. When it is full, it forgets the older half.
type pastIDs struct {
	recent, older map[PostID]PostID // the least ID of a millisecond -> the last one that was made in it, node bits 0
}

// maxPastIDs bounds each half. An event of a forgotten millisecond gets the first ID of that millisecond again. Then two events of
// one millisecond that were reported far apart may change places.
const maxPastIDs = 8192

// lastIn returns the last ID of the millisecond whose first ID is given; 0 if there is none.
func (p *pastIDs) lastIn(first PostID) PostID {
	if last, known := p.recent[first]; known {
		return last
	}
	return p.older[first]
}

// keep remembers the last ID of a millisecond. The older half is dropped as a whole, so that no order of use has to be kept.
func (p *pastIDs) keep(first, last PostID) {
	if p.recent == nil || len(p.recent) >= maxPastIDs {
		p.recent, p.older = make(map[PostID]PostID, maxPastIDs/8), p.recent
	}
	p.recent[first] = last
}

// NextAt makes an ID of an event that happened at a moment, to the millisecond. It differs from all IDs of Next, also from later ones.
// IDs of one millisecond rise in the order of the calls; a full millisecond continues in the next one. The ID may be less than the
// IDs of other nodes and of earlier processes. A caller that needs an ID greater than all IDs in a table reads the table's last ID,
// and calls RaiseAbove.
func (c *IDClock) NextAt(at time.Time) PostID {
	c.mu.Lock()
	defer c.mu.Unlock()
	for first := PostIDAt(at); ; first += PostsAMillisecond {
		id := first | pastHalf
		if last := c.past.lastIn(first); last != 0 {
			id = last + 1<<idNodeBits
		}
		if id < first+PostsAMillisecond {
			c.past.keep(first, id)
			return id | c.node
		}
	}
}

// RaiseAbove returns this ID if it is greater than taken. If not, it returns the next ID of an event after taken, with this ID's node
// bits.
func (id PostID) RaiseAbove(taken PostID) PostID {
	const node = 1<<idNodeBits - 1
	if id > taken {
		return id
	}
	// The result keeps pastHalf, even in the next millisecond, so that it is still the ID of an event.
	return taken&^node + 1<<idNodeBits | id&(pastHalf|node)
}

// MillisecondBounds returns the least ID of this ID's millisecond, and the least ID of the next millisecond.
func (id PostID) MillisecondBounds() (first, next PostID) {
	first = id &^ (PostsAMillisecond - 1)
	return first, first + PostsAMillisecond
}

// Sequence is the position of an ID among the IDs of its millisecond. Like Moment it stops at 999.
func (id PostID) Sequence() int64 { return int64(id.Moment().Sub(id.Time()) / time.Microsecond) }
