package notifications

import (
	"cmp"
	"context"
	"slices"

	"tidings/services"
	"tidings/services/sql"
)

// Every change of notifications uses this file: it locks the counters that it may change, and saves them at its end. The lock is
// the row of the recipient's head, so changes of one recipient run one after the other, and changes of different recipients run
// in parallel.

var (
	// An upsert locks each row, whether it exists or not, in the order of n.
	lockHeads = sql.NewStatement("lock notification heads", `
INSERT INTO notification_heads AS h (recipient, head, gen, undo, undo_at)
SELECT recipient, 0, 0, 0, 0 FROM {rows $1 n BIGINT, recipient BIGINT} AS c WHERE TRUE ORDER BY n
ON CONFLICT (recipient) DO UPDATE SET head = h.head
RETURNING recipient, head, gen, undo, undo_at`)

	// lockHeads has locked the rows, so no other transaction writes them meanwhile.
	setHeads = sql.NewStatement("set notification heads", `
UPDATE notification_heads SET head = c.head, gen = c.gen, undo = c.undo, undo_at = c.undo_at
FROM {rows $1 recipient BIGINT, head BIGINT, gen BIGINT, undo BIGINT, undo_at BIGINT} AS c
WHERE notification_heads.recipient = c.recipient`)

	// This is an upsert, as in lockHeads: a counter without a row gets a row of version 0, so that every counter in the list can be
	// raised.
	ensureStates = sql.NewStatement("read notification states", `
INSERT INTO notification_state AS s (recipient, category, ver, head, seen)
SELECT recipient, category, 0, 0, 0 FROM {rows $1 n BIGINT, recipient BIGINT, category TEXT} AS c WHERE TRUE ORDER BY n
ON CONFLICT (recipient, category) DO UPDATE SET ver = s.ver
RETURNING recipient, category, head, seen, read_to, undo_to`)

	// ver is raised by a difference, because ensureStates does not read it. raised is 0 for a change that is not visible.
	raiseVersions = sql.NewStatement("raise notification versions", `
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

// head is the locked row of a recipient: the last position that was given, the generation of marks, and the last mark of everything.
type head struct {
	place services.PostID // only rises: the next cause is after it
	gen   uint64          // rises with each "mark unread" and each undo; lists return it, and marks send it back
	// undo is the number of the last mark of everything. Groups that it changed have the number. It is 0 if there was none.
	undo uint64
	// undoAt is when that mark happened, in microseconds. It is 0 if the mark cannot be undone, or was undone.
	undoAt  int64
	changed bool // save writes the row
}

// counterRow is a counter in notification_state, and whether this transaction changes it.
type counterRow struct {
	// head is the greatest position that was ever shown in the category, seen the position up to which the user saw it. Neither
	// goes back.
	head, seen services.PostID
	// readTo is the position up to which the user has marked the category read. It also covers causes that happened before it and are
	// reported later: see Cause.Moment. undoTo is the value that readTo had before the last such act that can be undone.
	readTo, undoTo   services.PostID
	changed          bool // save raises the version
	changedInvisibly bool // seen, readTo or undoTo changed, and nothing visible: the row is saved. A newer version could reveal a hidden cause
}

// lockedCounters are the locked counters of a transaction, with their rows as read under the lock. save writes the changed rows.
type lockedCounters struct {
	tx *sql.Tx
	// order has each counter once, sorted: the order of the locks, and of the states that save returns.
	order []counter
	// heads has every recipient of order, and rows has every counter of order. A counter that was not named is not locked and is
	// absent here. Its version stays even if a statement changes its groups, as with a category that is being removed.
	heads map[services.UserID]*head
	rows  map[counter]*counterRow
}

// lockCounters locks the recipients, always in the same order: two transactions that share some recipients wait for each other
// but never deadlock. The lock is the head's row; the states are read under it.
func lockCounters(ctx context.Context, tx *sql.Tx, named []counter) (*lockedCounters, error) {
	named = slices.Clone(named)
	slices.SortFunc(named, counter.compare)
	b := &lockedCounters{tx: tx, order: slices.Compact(named), heads: map[services.UserID]*head{}, rows: map[counter]*counterRow{}}
	if len(b.order) == 0 {
		return b, nil
	}
	var recipients, counters sql.Rows
	for i, key := range b.order {
		if i == 0 || b.order[i-1].recipient != key.recipient {
			recipients = append(recipients, []any{i, key.recipient})
		}
		// i is the order of locking in both statements. It is the order of b.order, so all transactions lock the rows in the same
		// order.
		counters = append(counters, []any{i, key.recipient, key.category})
	}
	err := tx.Each(ctx, lockHeads, []any{recipients}, func(scan func(...any) error) error {
		var recipient services.UserID
		var h head
		err := scan(&recipient, &h.place, &h.gen, &h.undo, &h.undoAt)
		b.heads[recipient] = &h
		return err
	})
	if err != nil {
		return nil, err
	}
	return b, tx.Each(ctx, ensureStates, []any{counters}, func(scan func(...any) error) error {
		var key counter
		var m counterRow
		err := scan(&key.recipient, &key.category, &m.head, &m.seen, &m.readTo, &m.undoTo)
		b.rows[key] = &m
		return err
	})
}

// save writes the changes of the counters and reads their states.
func (b *lockedCounters) save(ctx context.Context) ([]State, error) {
	var heads, marks sql.Rows
	for recipient, h := range b.heads {
		if h.changed {
			heads = append(heads, []any{recipient, h.place, h.gen, h.undo, h.undoAt})
		}
	}
	for _, key := range b.order {
		if m := b.rows[key]; m.changed || m.changedInvisibly {
			// A change that is not visible is written without a newer version.
			raised := 0
			if m.changed {
				raised = 1
			}
			marks = append(marks, []any{key.recipient, key.category, raised, m.head, m.seen, m.readTo, m.undoTo})
		}
	}
	for _, change := range []struct {
		sql.Statement
		sql.Rows
	}{{setHeads, heads}, {raiseVersions, marks}} {
		if len(change.Rows) > 0 {
			if _, err := b.tx.Run(ctx, change.Statement, change.Rows); err != nil {
				return nil, err
			}
		}
	}
	// The states are read after the writes, so that the counts belong to the versions that were just raised.
	return statesOf(ctx, b.tx, b.order)
}
