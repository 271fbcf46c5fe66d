package services

import "time"

// pastIDs are the last IDs of past milliseconds: those that were asked for lately. It forgets the older half when it is full.
type pastIDs struct {
	recent, older map[PostID]PostID // the least ID of a millisecond -> the last one that was made of it, node bits 0
}

// mostPast bounds each half. What is forgotten costs a place among events of one millisecond that were told far apart.
const mostPast = 8192

// last is the last ID of the millisecond, 0 for none.
func (p *pastIDs) last(first PostID) PostID {
	if last, known := p.recent[first]; known {
		return last
	}
	return p.older[first]
}

func (p *pastIDs) keep(first, last PostID) {
	if p.recent == nil || len(p.recent) >= mostPast {
		p.recent, p.older = make(map[PostID]PostID, mostPast/8), p.recent
	}
	p.recent[first] = last
}

// NextAt makes an ID of a moment in the past, to the millisecond: IDs of one millisecond rise in the order of the calls. When a
// millisecond is full, the next one goes on. It is not greater than the IDs of other nodes and of earlier processes: a table
// that needs that looks what it has, and takes After.
func (c *IDClock) NextAt(at time.Time) PostID {
	c.mu.Lock()
	defer c.mu.Unlock()
	for first := PostIDAt(at); ; first += PostsAMillisecond {
		id := first
		if last := c.past.last(first); last != 0 {
			id = last + 1<<idNodeBits
		}
		if id < first+PostsAMillisecond {
			c.past.keep(first, id)
			return id | c.node
		}
	}
}

// After is an ID of this one's node right after another ID, if this one is not greater already.
func (id PostID) After(taken PostID) PostID {
	const node = 1<<idNodeBits - 1
	if id > taken {
		return id
	}
	return taken&^node + 1<<idNodeBits | id&node
}

// OfMillisecond are the least ID of this one's millisecond, and the least of the next.
func (id PostID) OfMillisecond() (first, next PostID) {
	first = id &^ (PostsAMillisecond - 1)
	return first, first + PostsAMillisecond
}

// Sequence is the place of an ID in its millisecond, as far as Moment tells it: 0 to 999.
func (id PostID) Sequence() int64 { return int64(id.Moment().Sub(id.Time()) / time.Microsecond) }
