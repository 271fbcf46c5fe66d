package announcements

import (
	"context"
	"time"

	"tidings/services"
	"tidings/services/sql"
)

// An event of a past time has two stamps: the stamp that the clock gave to the change, and the stamp of its own time. The stamp
// of its own time decides where an announcement stands, when a dot was raised or cleared, and how far a mark reaches. So events
// keep their order, however late they are reported.

// pastStamp is the stamp of a past moment. It is odd, like the stamps of the announcements' clock. Stamps of one millisecond rise with
// the moments' numbers within the millisecond.
func pastStamp(moment services.SortableID) uint64 {
	// A millisecond has 500 odd microseconds: beyond them, events of one millisecond share the last stamp.
	const last = 499
	return uint64(moment.Time().UnixMicro() + 2*min(moment.SequenceInMillisecond(), last) + 1)
}

// eventStamp is the stamp of an event: the stamp of its past time, or the clock's if it happens now.
func eventStamp(tx *sql.Tx, stamp uint64) uint64 {
	if tx.EventMoment() == 0 {
		return stamp
	}
	return pastStamp(tx.EventMoment())
}

// freePosition is the first position at or after a stamp that no announcement has.
func freePosition(ctx context.Context, tx *sql.Tx, stamp uint64) (uint64, error) {
	// Positions come in order, so each taken position moves the search by one. The clock's lock keeps others from taking the
	// position that is found.
	err := tx.Each(ctx, positionsFrom, []any{int64(stamp), int64(stamp + uint64(time.Second.Microseconds()))}, func(scan func(...any) error) error {
		var taken uint64
		err := scan(&taken)
		if taken == stamp {
			stamp += 2
		}
		return err
	})
	return stamp, err
}

// listPosition is the position in the list of an announcement that has started: the stamp of the change. For an event of a past time
// it is the stamp of the event or of the announcement's start, whichever is later, or the next free one.
func listPosition(ctx context.Context, tx *sql.Tx, a Announcement, stamp uint64) (uint64, error) {
	if tx.EventMoment() == 0 {
		return stamp, nil
	}
	at := pastStamp(tx.EventMoment())
	// The list is in the order in which announcements came into it, so a later start decides.
	if start := uint64(sql.Micros(a.StartsAt)); a.StartsAt.After(tx.EventTime()) {
		at = start | 1
	}
	return freePosition(ctx, tx, at)
}
