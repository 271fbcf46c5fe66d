package notifications

import (
	"cmp"
	"context"
	"slices"

	"tidings/services"
	"tidings/services/sql"
)

// Every change of notifications uses this file: it locks the counters that it may change, and saves them at its end. The lock is
// the recipient's row in notification_heads, so changes of one recipient run one after the other, and changes of different
// recipients run in parallel.

var (
	// An upsert locks each row, whether it exists or not, in the order of n.
	lockRecipientRows = sql.NewStatement("lock recipient rows of notifications", `
INSERT INTO notification_heads AS h (recipient, head, gen, undo, undo_at)
SELECT recipient, 0, 0, 0, 0 FROM {rows $1 n BIGINT, recipient BIGINT} AS c WHERE TRUE ORDER BY n
ON CONFLICT (recipient) DO UPDATE SET head = h.head
RETURNING recipient, head, gen, undo, undo_at`)

	// lockRecipientRows has locked the rows, so no other transaction writes them meanwhile.
	updateRecipientRows = sql.NewStatement("update recipient rows of notifications", `
UPDATE notification_heads SET head = c.head, gen = c.gen, undo = c.undo, undo_at = c.undo_at
FROM {rows $1 recipient BIGINT, head BIGINT, gen BIGINT, undo BIGINT, undo_at BIGINT} AS c
WHERE notification_heads.recipient = c.recipient`)

	// This is an upsert, as in lockRecipientRows: a counter without a row gets a row of version 0, so that every counter in the
	// list can be raised.
	ensureCounterRows = sql.NewStatement("read notification states", `
INSERT INTO notification_state AS s (recipient, category, ver, head, seen)
SELECT recipient, category, 0, 0, 0 FROM {rows $1 n BIGINT, recipient BIGINT, category TEXT} AS c WHERE TRUE ORDER BY n
ON CONFLICT (recipient, category) DO UPDATE SET ver = s.ver
RETURNING recipient, category, head, seen, read_to, undo_to`)

	// ver is raised by a difference, because ensureCounterRows does not read it. raised is 0 for a change that is not visible.
	updateCounterRows = sql.NewStatement("raise notification versions", `
UPDATE notification_state AS s SET ver = s.ver + c.raised, head = c.head, seen = c.seen, read_to = c.read_to, undo_to = c.undo_to
FROM {rows $1 recipient BIGINT, category TEXT, raised BIGINT, head BIGINT, seen BIGINT, read_to BIGINT, undo_to BIGINT} AS c
WHERE s.recipient = c.recipient AND s.category = c.category`)
)

// counter identifies one count: the count of a recipient's notifications in one category. Counts are read and projected by
// counter.
type counter struct {
	recipient services.UserID
	category  services.Category
}

func (a counter) compare(b counter) int {
	return cmp.Or(cmp.Compare(a.recipient, b.recipient), cmp.Compare(a.category, b.category))
}

// recipientRow is the locked row of a recipient: the last position that was given, the generation of marks, and the last mark of
// everything.
type recipientRow struct {
	lastPosition   services.NotificationID // only rises: the next cause is after it
	markGeneration uint64                  // rises with each "mark unread" and each undo; lists return it, and marks send it back
	// lastMarkNumber is the number of the last mark of everything. Groups that it changed have the number. It is 0 if there was none.
	lastMarkNumber uint64
	// undoableMarkMicros is when that mark happened, in microseconds. It is 0 if the mark cannot be undone, or was undone.
	undoableMarkMicros int64
	changed            bool // save writes the row
}

// counterRow is a counter in notification_state, and whether this transaction changes it.
type counterRow struct {
	// newestShown is the greatest position that was ever shown in the category, seenTo the position up to which the user saw it.
	// Neither goes back.
	newestShown, seenTo services.NotificationID
	// readTo is the position up to which the user has marked the category read. It also covers causes that happened before it and are
	// reported later: see Cause.Moment. readToBeforeMark is the value that readTo had before the last mark of everything that can be
	// undone.
	readTo, readToBeforeMark services.NotificationID
	changed                  bool // save raises the version
	changedInvisibly         bool // save writes the row but does not raise the version: that could reveal a hidden cause
}

// lockedCounters are the locked counters of a transaction, with their rows as read under the lock. save writes the changed rows.
type lockedCounters struct {
	tx *sql.Tx
	// sorted has each counter once, sorted: the order of the locks, and of the states that save returns.
	sorted []counter
	// recipients has every recipient of sorted, and rows has every counter of sorted. A counter that was not named is not locked
	// and is absent here. Its version stays even if a statement changes its groups, as with a category that is being removed.
	recipients map[services.UserID]*recipientRow
	rows       map[counter]*counterRow
}

// lockCounters locks the recipients, always in the same order: two transactions that share some recipients wait for each other but
// never deadlock. The lock is the recipientRow; the states are read under it.
func lockCounters(ctx context.Context, tx *sql.Tx, named []counter) (*lockedCounters, error) {
	named = slices.Clone(named)
	slices.SortFunc(named, counter.compare)
	b := &lockedCounters{tx: tx, sorted: slices.Compact(named), recipients: map[services.UserID]*recipientRow{}, rows: map[counter]*counterRow{}}
	if len(b.sorted) == 0 {
		return b, nil
	}
	var recipients, counters sql.RowsParameter
	for i, key := range b.sorted {
		if i == 0 || b.sorted[i-1].recipient != key.recipient {
			recipients = append(recipients, []any{i, key.recipient})
		}
		// i is the order of locking in both statements. It is the order of b.sorted, so all transactions lock the rows in the same
		// order.
		counters = append(counters, []any{i, key.recipient, key.category})
	}
	err := tx.Each(ctx, lockRecipientRows, []any{recipients}, func(scan func(...any) error) error {
		var recipient services.UserID
		var h recipientRow
		err := scan(&recipient, &h.lastPosition, &h.markGeneration, &h.lastMarkNumber, &h.undoableMarkMicros)
		b.recipients[recipient] = &h
		return err
	})
	if err != nil {
		return nil, err
	}
	return b, tx.Each(ctx, ensureCounterRows, []any{counters}, func(scan func(...any) error) error {
		var key counter
		var m counterRow
		err := scan(&key.recipient, &key.category, &m.newestShown, &m.seenTo, &m.readTo, &m.readToBeforeMark)
		b.rows[key] = &m
		return err
	})
}

// save writes the changes of the counters and reads their states.
func (b *lockedCounters) save(ctx context.Context) ([]categoryState, error) {
	var recipients, marks sql.RowsParameter
	for recipient, h := range b.recipients {
		if h.changed {
			recipients = append(recipients, []any{recipient, h.lastPosition, h.markGeneration, h.lastMarkNumber, h.undoableMarkMicros})
		}
	}
	for _, key := range b.sorted {
		if m := b.rows[key]; m.changed || m.changedInvisibly {
			// A change that is not visible is written without a newer version.
			raised := 0
			if m.changed {
				raised = 1
			}
			marks = append(marks, []any{key.recipient, key.category, raised, m.newestShown, m.seenTo, m.readTo, m.readToBeforeMark})
		}
	}
	for _, change := range []struct {
		sql.Statement
		sql.RowsParameter
	}{{updateRecipientRows, recipients}, {updateCounterRows, marks}} {
		if len(change.RowsParameter) > 0 {
			if _, err := b.tx.Run(ctx, change.Statement, change.RowsParameter); err != nil {
				return nil, err
			}
		}
	}
	// The states are read after the writes, so that the counts belong to the versions that were just raised.
	return statesOf(ctx, b.tx, b.sorted)
}
