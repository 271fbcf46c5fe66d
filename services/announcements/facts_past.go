package announcements

import (
	"context"
	"time"

	"tidings/services"
	"tidings/services/sql"
)

// What happened at a past time has the stamp of that time, beside the clock's stamp of the change: announcements have their
// position there, dots are raised and cleared there, and marks reach up to there. So each is before or after the others as it
// happened, whenever it is told.

// pastStamp is the stamp of a moment. It is odd, as the clock's are, and stamps of one millisecond rise with their sequence.
func pastStamp(moment services.PostID) uint64 {
	const last = 499
	return uint64(moment.Time().UnixMicro() + 2*min(moment.Sequence(), last) + 1)
}

// happened is the stamp of an event: of its past moment, or else the clock's.
func happened(tx *sql.Tx, stamp uint64) uint64 {
	if tx.Dated() == 0 {
		return stamp
	}
	return pastStamp(tx.Dated())
}

// freePosition is the first position from a stamp on that no announcement has.
func freePosition(ctx context.Context, tx *sql.Tx, stamp uint64) (uint64, error) {
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

// position is where an announcement that has started stands in the list: at the stamp of the change; at a past time, at that
// of the event or of its start, whichever is later.
func position(ctx context.Context, tx *sql.Tx, a Announcement, stamp uint64) (uint64, error) {
	if tx.Dated() == 0 {
		return stamp, nil
	}
	at := pastStamp(tx.Dated())
	if start := uint64(sql.Micros(a.StartsAt)); a.StartsAt.After(tx.HappenedAt()) {
		at = start | 1
	}
	return freePosition(ctx, tx, at)
}
