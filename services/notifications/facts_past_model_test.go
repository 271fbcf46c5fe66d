package notifications

import (
	"slices"
	"time"

	"pgregory.net/rapid"

	"tidings/services"
	"tidings/services/posts"
	"tidings/services/sql"
)

// likeAtPastTime makes somebody like a post at a past time, which its report names.
func (p *stateMachine) likeAtPastTime() {
	c := Cause{Recipient: p.model.recipient, Category: services.CategoryLike, Subject: services.SortableID(p.drawPost()), Actor: p.drawActor()}
	if _, liked := p.model.likes[c]; liked {
		return
	}
	happened := p.Clock.Now().Add(-time.Duration(rapid.IntRange(0, 40).Draw(p.t, "steps ago")) * 500 * time.Millisecond)
	moment := p.pastMomentClock.NextAt(happened)
	p.MustWrite(func(tx *sql.Tx) error {
		_, err := posts.InsertLike(p.Ctx, tx, services.PostID(c.Subject), c.Actor, moment.OrderedTime())
		return err
	})
	p.model.likes[c] = moment.OrderedTime()
	c.Moment = moment
	if p.queuedCauses = append(p.queuedCauses, c); rapid.Bool().Draw(p.t, "at once") {
		p.applyAndCompare(c)
	}
}

// nextPastPosition is the next free position in the range of a moment.
func (m *notificationsModel) nextPastPosition(moment services.SortableID) services.NotificationID {
	first, last := positionsOfMoment(moment, m.recipient)
	return m.nextFreePosition(first, last)
}

// nextFreePosition is the next free position in a range.
func (m *notificationsModel) nextFreePosition(first, last services.NotificationID) services.NotificationID {
	next := first
	for _, k := range m.storedCauses {
		if first <= k.position && k.position <= last {
			next = max(next, k.position+1)
		}
	}
	return next
}

// positionOfNewCause returns the position of a new cause: position, or for an answer that was seen or read as a mention the next free position
// of lowestPositionRange. Such an answer is seen.
func (m *notificationsModel) positionOfNewCause(c Cause, position services.NotificationID, causes []Cause) services.NotificationID {
	mention := Cause{Recipient: m.recipient, Category: services.CategoryMention, Subject: c.Object, Actor: c.Actor}
	was := m.storedCauses[mention]
	if c.Category != services.CategoryComment || was == nil || !slices.Contains(causes, mention) {
		return position
	}
	read := was.position <= m.readStates[m.groupOf(mention)].readTo
	if !read && was.position > m.seenTo[services.CategoryMention] {
		return position
	}
	of := lowestPositionRange(m.recipient, read)
	position = m.nextFreePosition(of.first, of.last)
	m.seenTo[c.Category] = max(m.seenTo[c.Category], position)
	return position
}

// coverByEarlierMark makes a group read because an earlier mark of its category covers one of its causes, which is reported only
// now. What was marked unread, or left out by the mark, stays unread. top is the group's greatest position before the new causes.
func (m *notificationsModel) coverByEarlierMark(of groupKey, position, top services.NotificationID) {
	r, to := m.readStates[of], m.readTo[of.category]
	if r.markedUnreadGeneration > 0 && r.readTo < top {
		return
	}
	if !m.undoableMarkAt.IsZero() && position > m.readToBeforeMark[of.category] && r.undoableMarkNumber != m.lastMarkNumber {
		r.readToBeforeMark, r.undoableMarkNumber = max(m.readToBeforeMark[of.category], r.readTo), m.lastMarkNumber
	}
	r.readTo = max(r.readTo, to)
}

// isPastPosition reports whether a position is of a past time: a mark of a later position covers it, whether its list showed it or not.
func (m *notificationsModel) isPastPosition(position services.NotificationID) bool {
	for _, k := range m.storedCauses {
		if k.position == position {
			return k.hasPastPosition
		}
	}
	return false
}
