package sql

import (
	"context"
	"time"

	"tidings/services"
)

// Date says when the event of this function happened: at the moment of an ID, 0 for now. The function that ends it begins the
// next one's own time: end it with Date(0).
func (tx *Tx) Date(moment services.PostID) { tx.dated = moment }

// Dated is the ID of the moment at which the event happened, 0 for now.
func (tx *Tx) Dated() services.PostID { return tx.dated }

// HappenedAt is the time that the facts of an event have: Now, or the past moment of Date. What the program itself needs, such
// as leases, the log and what it forgets after a while, goes by Now.
func (tx *Tx) HappenedAt() time.Time {
	if tx.dated != 0 {
		return tx.dated.Moment()
	}
	return tx.Now
}

// replayPause is how long the events of a replay may follow one another: see DueAt.
const replayPause = 5 * time.Minute

// DueAt is when a job of a function that has to run at a time is due: then. Where that is over already, because its event is told
// late, the job waits for a while: events that happened before that time may follow, and what the job does was not yet so for
// them.
func (tx *Tx) DueAt(at time.Time) time.Time {
	if soonest := tx.Now.Add(replayPause); tx.dated != 0 && at.Before(soonest) {
		return soonest
	}
	return at
}

// NewestOfMillisecond is the statement that NewIDIn needs of a table.
func NewestOfMillisecond(table string) Statement {
	return NewStatement("the newest of "+table+" in a millisecond", `SELECT COALESCE(max(id), 0) FROM `+table+` WHERE id >= $1 AND id < $2`)
}

// NewIDIn is NewID for a table whose rows it is the key of. The ID of a past event comes after all rows of its millisecond; a
// full millisecond is continued in the next one.
func (tx *Tx) NewIDIn(ctx context.Context, ids *services.IDClock, newest Statement) (services.PostID, error) {
	id := tx.NewID(ids)
	if tx.dated == 0 {
		return id, nil
	}
	for {
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
