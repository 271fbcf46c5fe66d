package sql

import (
	"context"
	"time"

	"tidings/services"
)

// SetEventMoment is called by a function of the transaction. It sets when the event that the function applies happened, as an ID of
// that moment; 0 is now. The function calls SetEventMoment(0) at its end, because the next function in the transaction would keep
// the setting.
func (tx *Tx) SetEventMoment(moment services.SortableID) {
	tx.eventMoment, tx.momentOfNewIDs = moment, moment
}

// SetMomentOfNewIDs is called in place of SetEventMoment for an event that happens now, but came with its own time. moment is an ID of
// the time at which it came. The IDs that the function makes are of that moment, so that they are less than those of an event that
// happens before the commit and comes after it. All else is as for an event without a time.
func (tx *Tx) SetMomentOfNewIDs(moment services.SortableID) {
	tx.eventMoment, tx.momentOfNewIDs = 0, moment
}

// MomentOfNewIDs is the moment that the IDs of the function are of; 0 for that of the commit.
func (tx *Tx) MomentOfNewIDs() services.SortableID { return tx.momentOfNewIDs }

// EventMoment is the ID of the moment at which the event happened, 0 for now.
func (tx *Tx) EventMoment() services.SortableID { return tx.eventMoment }

// EventTime is the time that an event's facts get: Now, or the past moment of SetEventMoment. The program's own times are always
// Now: the leases of nodes, the log, and rows that are kept for a limited time.
func (tx *Tx) EventTime() time.Time {
	if tx.eventMoment != 0 {
		return tx.eventMoment.OrderedTime()
	}
	return tx.Now
}

// maxEventReplayPause is the longest time between the reports of two late events that JobDueAt allows for.
const maxEventReplayPause = 5 * time.Minute

// JobDueAt returns when a job that is planned for a time is due: at that time. For a late event it is due later, as other late
// events from before the planned time may still follow, and the job must run after them: maxEventReplayPause after Now if the planned
// time has passed, else as much later than planned as the event is late, but at most that.
func (tx *Tx) JobDueAt(at time.Time) time.Time {
	latest := tx.Now.Add(maxEventReplayPause)
	if tx.eventMoment == 0 || !at.Before(latest) {
		return at
	}
	late := tx.Now.Sub(tx.EventTime())
	if due := at.Add(late); at.After(tx.Now) && due.Before(latest) {
		return due
	}
	return latest
}

// NewestIDOfMillisecond makes the statement that NewIDInTable needs for a table: it finds the greatest ID of a millisecond. It reads a
// range of the primary key, because a millisecond is a range of IDs.
func NewestIDOfMillisecond(table string) Statement {
	return NewStatement("the newest of "+table+" in a millisecond", `SELECT COALESCE(max(id), 0) FROM `+table+` WHERE id >= $1 AND id < $2`)
}

// NewIDInTable makes the ID of a new row whose key is the ID. The ID of an event with a time comes after all rows of its millisecond; if
// the millisecond is full, the ID is in the next one. newest finds the greatest ID from $1 on and below $2; the further arguments are its
// own, for rows whose key has more columns.
func (tx *Tx) NewIDInTable(ctx context.Context, ids *services.IDClock, newest Statement, further ...any) (services.SortableID, error) {
	// Without a moment the clock gives each ID once, so nothing has to be looked up.
	id := tx.NewID(ids)
	if tx.momentOfNewIDs == 0 {
		return id, nil
	}
	for {
		// Several events may have the same millisecond: each gets the next ID after those that the table has.
		first, next := id.MillisecondBounds()
		var taken services.SortableID
		if _, err := tx.One(ctx, newest, append([]any{first, next}, further...), &taken); err != nil {
			return 0, err
		}
		if id = id.RaiseAbove(taken); id < next {
			return id, nil
		}
	}
}
