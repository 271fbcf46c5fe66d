package notifications

import (
	"context"
	"slices"

	"tidings/services"
	"tidings/services/sql"
)

// positionsPerEvent is the size of a range of positions. A cause of a past time gets a position of that time, and not the next
// one: a mark up to a later time covers it, and a mark up to an earlier time does not, whenever causes and marks are applied.
// Each event of a millisecond has a range, by its sequence, so that marks and causes of one millisecond keep the order in which
// they were reported.
const positionsPerEvent = 1024

// maxSequenceInMillisecond is the sequence that the events of a millisecond have from the 1,000th on: see services.SortableID.OrderedTime.
const maxSequenceInMillisecond = 999

// positionsOfMoment returns the first and the last position that the events of a moment can have.
func positionsOfMoment(moment services.SortableID, user services.UserID) (first, last services.NotificationID) {
	return positionsOfSequence(moment, user, moment.SequenceInMillisecond())
}

// positionsOfSequence is the range of the events with one sequence. The range of the last sequence extends to the end of the
// millisecond.
func positionsOfSequence(moment services.SortableID, user services.UserID, sequence int64) (first, last services.NotificationID) {
	start := services.FirstNotificationPosition(moment.Time(), user)
	first = start + services.NotificationID(sequence*positionsPerEvent)
	if sequence == maxSequenceInMillisecond {
		return first, start + services.SortableIDsPerMillisecond - 1
	}
	return first, first + positionsPerEvent - 1
}

// selectLastPositions reads the last taken position of each range. It looks only at the end of the range in the index of positions,
// and not at all rows in the range.
var selectLastPositions = sql.NewStatement("the last position of a range", `SELECT c.i, (SELECT max(n.place) FROM notification_causes n
	WHERE n.recipient = c.recipient AND n.place >= c.first AND n.place <= c.last)
FROM {rows $1 i BIGINT, recipient BIGINT, first BIGINT, last BIGINT} AS c`)

// positionRange is a range of positions of one recipient.
type positionRange struct {
	recipient   services.UserID
	first, last services.NotificationID
}

// positionRangesOf are the range of an event's moment, and the range of the last sequence in its millisecond, which is used when
// the first range is full. The first range may be full because causes without a past time take consecutive positions, whatever the
// ranges, and more than a thousand such causes may have come in a millisecond.
func positionRangesOf(recipient services.UserID, moment services.SortableID) (spans [2]positionRange) {
	for i, sequence := range []int64{moment.SequenceInMillisecond(), maxSequenceInMillisecond} {
		first, last := positionsOfSequence(moment, recipient, sequence)
		spans[i] = positionRange{recipient, first, last}
	}
	return spans
}

// lastPositions has the last taken position of each range; a range without one is absent. takeNext records the positions that it
// takes.
type lastPositions map[positionRange]services.NotificationID

// readLastPositions reads the last taken positions in the ranges of causes of past times, in one statement and under the locks of
// their recipients.
func (b *lockedCounters) readLastPositions(ctx context.Context, missing []newCause) (lastPositions, error) {
	var spans []positionRange
	var asked sql.RowsParameter
	known := map[positionRange]bool{}
	for _, r := range missing {
		if r.eventMoment == 0 {
			continue
		}
		for _, one := range positionRangesOf(r.Recipient, r.eventMoment) {
			if one.first > b.recipients[r.Recipient].lastPosition || known[one] { // nothing is taken beyond lastPosition
				continue
			}
			known[one] = true
			asked = append(asked, []any{len(spans), one.recipient, one.first, one.last})
			spans = append(spans, one)
		}
	}
	taken := make(lastPositions, len(spans))
	if len(spans) == 0 {
		return taken, nil
	}
	return taken, b.tx.Each(ctx, selectLastPositions, []any{asked}, func(scan func(...any) error) error {
		var i int
		var last sql.NullInt64
		err := scan(&i, &last)
		if last.Valid {
			taken[spans[i]] = services.NotificationID(last.Int64)
		}
		return err
	})
}

// takeNext takes the next free position in the range of a moment or, if that is full, in the last range of its millisecond, which has
// room for a million: see positionRangesOf.
func (p lastPositions) takeNext(recipient services.UserID, moment services.SortableID) (position services.NotificationID) {
	for _, one := range positionRangesOf(recipient, moment) {
		position = one.first
		if last, taken := p[one]; taken {
			position = last + 1
		}
		if position <= one.last {
			p[one] = position
			break
		}
	}
	return position
}

// splitEventMoments returns the causes without their moments, sorted and without duplicates, and the earliest moment of each cause
// that has one. A moment is no part of a cause's key: a cause is the same with and without it.
func splitEventMoments(causes []Cause) ([]Cause, map[Cause]services.SortableID) {
	causes = slices.Clone(causes)
	var moments map[Cause]services.SortableID
	for i, cause := range causes {
		moment := cause.Moment
		causes[i].Moment = 0
		if moment == 0 {
			continue
		}
		if moments == nil {
			moments = map[Cause]services.SortableID{}
		}
		if had := moments[causes[i]]; had == 0 || moment < had {
			moments[causes[i]] = moment
		}
	}
	slices.SortFunc(causes, Cause.compare)
	return slices.Compact(causes), moments
}

// alreadyEndedCauses are the causes of a past time that ended before they were applied. They are stored and do not count, as if
// they had been applied when they happened: a cause that begins again gets the time and the position of its first beginning.
// Otherwise the result would depend on whether the job ran between the beginning and the end. Comments are left out: the job of a
// publication names a comment even if the post only ever counted as a mention.
func alreadyEndedCauses(supported map[Cause]supportedCause, known map[Cause]storedCause, moments map[Cause]services.SortableID) (causes []newCause) {
	for c, moment := range moments {
		_, holds := supported[c]
		_, had := known[c]
		if holds || had || c.Actor == 0 || c.Actor == c.Recipient {
			continue
		}
		switch c.Category {
		// Reminders are left out: they do not end, because their show has started.
		case services.CategoryLike, services.CategoryFollow, services.CategoryMention:
			// A mention may be of an edit, long after its post.
			causes = append(causes, newCause{Cause: c, atMicros: sql.Micros(moment.OrderedTime()), eventMoment: moment})
		}
	}
	return causes
}

// markAllUpTo is the position up to which a mark of everything reaches: the newest, or for a mark of a past time the last position of
// that time.
func (h *recipientRow) markAllUpTo(tx *sql.Tx, user services.UserID) services.NotificationID {
	if tx.EventMoment() == 0 {
		return h.lastPosition
	}
	_, last := positionsOfMoment(tx.EventMoment(), user)
	if last > h.lastPosition { // later causes get positions after the mark
		h.lastPosition, h.changed = last, true
	}
	return last
}
