package notifications

import (
	"slices"
	"time"

	"pgregory.net/rapid"

	"tidings/services"
	"tidings/services/posts"
	"tidings/services/sql"
)

// pastLike makes somebody like a post at a past time, which its report names.
func (p *panel) pastLike() {
	c := Cause{Recipient: p.m.me, Category: services.CategoryLike, Subject: p.somePost(), Actor: p.someone()}
	if _, liked := p.m.likes[c]; liked {
		return
	}
	happened := p.Clock.Now().Add(-time.Duration(rapid.IntRange(0, 40).Draw(p.t, "steps ago")) * 500 * time.Millisecond)
	moment := p.moments.NextAt(happened)
	p.MustWrite(func(tx *sql.Tx) error {
		_, err := posts.InsertLike(p.Ctx, tx, c.Subject, c.Actor, moment.Moment())
		return err
	})
	p.m.likes[c] = moment.Moment()
	c.Moment = moment
	if p.queuedCauses = append(p.queuedCauses, c); rapid.Bool().Draw(p.t, "at once") {
		p.deliver(c)
	}
}

// pastPlace is the next free position in the range of a moment.
func (m *panelModel) pastPlace(moment services.PostID) services.PostID {
	first, last := pastRange(moment, m.me)
	return m.nextIn(first, last)
}

// nextIn is the next free position in a range.
func (m *panelModel) nextIn(first, last services.PostID) services.PostID {
	next := first
	for _, k := range m.known {
		if first <= k.place && k.place <= last {
			next = max(next, k.place+1)
		}
	}
	return next
}

// carry returns the place of a new cause. An answer that was seen or read as a mention has the lowest place, and is seen.
func (m *panelModel) carry(c Cause, place services.PostID, causes []Cause) services.PostID {
	mention := Cause{Recipient: m.me, Category: services.CategoryMention, Subject: c.Object, Actor: c.Actor}
	was := m.known[mention]
	if c.Category != services.CategoryComment || was == nil || !slices.Contains(causes, mention) {
		return place
	}
	read := was.place <= m.read[m.keyOf(mention)].to
	if !read && was.place > m.seen[services.CategoryMention] {
		return place
	}
	of := lowestPlaces(m.me, read)
	place = m.nextIn(of.first, of.last)
	m.seen[c.Category] = max(m.seen[c.Category], place)
	return place
}

// cover makes a group read because an earlier mark of its category covers one of its causes, which is reported only now. What was
// marked unread, or left out by the mark, stays unread. top is the group's greatest position before the new causes.
func (m *panelModel) cover(of groupKey, place, top services.PostID) {
	r, to := m.read[of], m.readTo[of.category]
	if r.gen > 0 && r.to < top {
		return
	}
	if !m.undoAt.IsZero() && place > m.undoTo[of.category] && r.undo != m.undo {
		r.undoTo, r.undo = max(m.undoTo[of.category], r.to), m.undo
	}
	r.to = max(r.to, to)
}

// past reports whether a position is of a past time: a mark of a later position covers it, whether its list showed it or not.
func (m *panelModel) past(place services.PostID) bool {
	for _, k := range m.known {
		if k.place == place {
			return k.past
		}
	}
	return false
}
