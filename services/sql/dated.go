package sql

import (
	"context"
	"time"

	"tidings/services"
)

// Date sets when the event of this function happened, as an ID of that moment; 0 is now. Call Date(0) at the end of the function, because
// the transaction's next function keeps the setting.
func (tx *Tx) Date(moment services.PostID) { tx.dated = moment }

// Dated is the ID of the moment at which the event happened, 0 for now.
func (tx *Tx) Dated() services.PostID { return tx.dated }

// HappenedAt is the time that an event's facts get: Now, or the past moment of Date. The program's own times go by Now: the leases of nodes,
// the log, and rows that are kept for a limited time.
func (tx *Tx) HappenedAt() time.Time {
	if tx.dated != 0 {
		return tx.dated.Moment()
	}
	return tx.Now
}

// replayPause is the longest pause between two events of a replay that DueAt allows for.
const replayPause = 5 * time.Minute

// DueAt is when a job that should run at a time is due: at that time. If the event was reported late, the job is due in replayPause at the
// earliest: events from before that time may follow, and the job would otherwise run without them.
func (tx *Tx) DueAt(at time.Time) time.Time {
	if soonest := tx.Now.Add(replayPause); tx.dated != 0 && at.Before(soonest) {
		return soonest
	}
	return at
}

// NewestOfMillisecond makes the statement that NewIDIn needs for a table. It walks along the primary key: a millisecond
// is a range of IDs.
func NewestOfMillisecond(table string) Statement {
	return NewStatement("the newest of "+table+" in a millisecond", `SELECT COALESCE(max(id), 0) FROM `+table+` WHERE id >= $1 AND id < $2`)
}

// NewIDIn is NewID for a table with the ID as its key. The ID of a past event comes after all rows of its millisecond; if the millisecond
// is full, it continues in the next one.
func (tx *Tx) NewIDIn(ctx context.Context, ids *services.IDClock, newest Statement) (services.PostID, error) {
	// Without a past moment the clock gives each ID once, so nothing has to be looked up.
	id := tx.NewID(ids)
	if tx.dated == 0 {
		return id, nil
	}
	for {
		// Only events that are reported late share a millisecond: events of one moment get IDs one after the other.
		first, next := id.OfMillisecond()
		var taken services.PostID
		if _, err := tx.One(ctx, newest, []any{first, next}, &taken); err != nil {
			return 0, err
		}
		if id = id.After(taken); id < next {
			return id, nil
		}
	}
}
