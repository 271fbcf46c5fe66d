package services

import "time"

// pastIDs remembers the last ID of each past millisecond that was used lately. When it is full, it forgets the older half.
type pastIDs struct {
	recentLastByMillisecond, olderLastByMillisecond map[SortableID]SortableID // a millisecond's least ID -> its last one made, node bits 0
}

// maxPastIDs bounds each of the two maps of pastIDs. An event of a forgotten millisecond gets the first ID of that millisecond again.
// Then two events of one millisecond that were reported far apart may change their order.
const maxPastIDs = 8192

// lastInMillisecond returns the last ID of the millisecond whose first ID is given; 0 if there is none.
func (p *pastIDs) lastInMillisecond(first SortableID) SortableID {
	if last, known := p.recentLastByMillisecond[first]; known {
		return last
	}
	return p.olderLastByMillisecond[first]
}

// keep remembers the last ID of a millisecond. The older half is dropped as a whole, so that no order of use has to be kept.
func (p *pastIDs) keep(first, last SortableID) {
	if p.recentLastByMillisecond == nil || len(p.recentLastByMillisecond) >= maxPastIDs {
		p.recentLastByMillisecond, p.olderLastByMillisecond = make(map[SortableID]SortableID, maxPastIDs/8), p.recentLastByMillisecond
	}
	p.recentLastByMillisecond[first] = last
}

// NextAt makes an ID of an event that happened at a moment, to the millisecond. It differs from all IDs of Next, also from later ones.
// IDs of one millisecond rise in the order of the calls; a full millisecond continues in the next one. The ID may be less than the
// IDs of other nodes and of earlier processes. A caller that needs an ID greater than all IDs in a table reads the table's last ID,
// and calls RaiseAbove.
func (c *IDClock) NextAt(at time.Time) SortableID {
	c.mu.Lock()
	defer c.mu.Unlock()
	for first := SortableIDAt(at); ; first += SortableIDsPerMillisecond {
		id := first | pastEventBit
		if last := c.past.lastInMillisecond(first); last != 0 {
			id = last + 1<<idNodeBits
		}
		if id < first+SortableIDsPerMillisecond {
			c.past.keep(first, id)
			return id | c.nodeBits
		}
	}
}

// RaiseAbove returns this ID if it is greater than taken. If not, it returns the next ID of an event after taken, with this ID's node
// bits.
func (id SortableID) RaiseAbove(taken SortableID) SortableID {
	const node = 1<<idNodeBits - 1
	if id > taken {
		return id
	}
	// The result keeps pastEventBit, even in the next millisecond, so that it is still the ID of an event.
	return taken&^node + 1<<idNodeBits | id&(pastEventBit|node)
}

// MillisecondBounds returns the least ID of this ID's millisecond, and the least ID of the next millisecond.
func (id SortableID) MillisecondBounds() (first, next SortableID) {
	first = id &^ (SortableIDsPerMillisecond - 1)
	return first, first + SortableIDsPerMillisecond
}

// SequenceInMillisecond is the position of an ID among the IDs of its millisecond, 999 at most: IDs after the thousandth have 999 too.
func (id SortableID) SequenceInMillisecond() int64 {
	return int64(id.OrderedTime().Sub(id.Time()) / time.Microsecond)
}
