package sql

import (
	"context"
	"time"

	"tidings/services"
)

// SetDated is called by a function of the transaction. It sets when the event that the function applies happened, as an ID of that moment;
// 0 is now. The function calls SetDated(0) at its end, because the next function in the transaction would keep the setting.
func (tx *Tx) SetDated(moment services.PostID) { tx.dated = moment }

// Dated is the ID of the moment at which the event happened, 0 for now.
func (tx *Tx) Dated() services.PostID { return tx.dated }

// HappenedAt is the time that an event's facts get: Now, or the past moment of SetDated. The program's own times are always Now: the
// leases of nodes, the log, and rows that are kept for a limited time.
func (tx *Tx) HappenedAt() time.Time {
	if tx.dated != 0 {
		return tx.dated.Moment()
	}
	return tx.Now
}

// replayPause is the longest pause between two events of a replay that DueAt allows for.
const replayPause = 5 * time.Minute

// DueAt returns when a job that is planned for a time is due: at that time. For a late event it is due replayPause after Now at the
// earliest: other late events from before the planned time may still follow, and the job must run after them.
func (tx *Tx) DueAt(at time.Time) time.Time {
	if soonest := tx.Now.Add(replayPause); tx.dated != 0 && at.Before(soonest) {
		return soonest
	}
	return at
}

// NewestOfMillisecond makes the statement that NewIDIn needs for a table. The statement reads a range of the primary key: a
// millisecond is a range of IDs.
func NewestOfMillisecond(table string) Statement {
	return NewStatement("the newest of "+table+" in a millisecond", `SELECT COALESCE(max(id), 0) FROM `+table+` WHERE id >= $1 AND id < $2`)
}

// NewIDIn is NewID for rows with the ID as their key. The ID of a past event comes after all rows of its millisecond; if the
// millisecond is full, the ID is in the next one. newest finds the greatest ID from $1 on and below $2; the further arguments are
// its own, for rows whose key has more columns.
func (tx *Tx) NewIDIn(ctx context.Context, ids *services.IDClock, newest Statement, further ...any) (services.PostID, error) {
	// Without a past moment the clock gives each ID once, so nothing has to be looked up.
	id := tx.NewID(ids)
	if tx.dated == 0 {
		return id, nil
	}
	for {
		// Several late events may have the same millisecond: each gets the next ID after those that the table has.
		first, next := id.MillisecondBounds()
		var taken services.PostID
		if _, err := tx.One(ctx, newest, append([]any{first, next}, further...), &taken); err != nil {
			return 0, err
		}
		if id = id.RaiseAbove(taken); id < next {
			return id, nil
		}
	}
}
