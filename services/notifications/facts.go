package notifications

import (
	"cmp"
	"context"
	"slices"
	"time"

	"tidings/services"
	"tidings/services/sql"
)

// groupSpan is the half day in which causes of one subject form one group, counted from 1970. It divides a day, so each group
// belongs to one day.
const groupSpan = 12 * time.Hour

// groupsPerDay is how many groups one subject can have on a day. Half days are counted from 1970, so a day is halfDay /
// groupsPerDay.
const groupsPerDay = int64(24 * time.Hour / groupSpan)

// halfDayOf is the number of the half day since 1970 that contains a time in microseconds.
func halfDayOf(us int64) int64 { return us / groupSpan.Microseconds() }

// causeMatchesRow is the SQL condition that a stored cause has the whole key of a row c.
const causeMatchesRow = `notification_causes.recipient = c.recipient AND notification_causes.category = c.category
	AND notification_causes.subject = c.subject AND notification_causes.actor = c.actor AND notification_causes.object = c.object`

// causeRows is the SQL list of the rows c for causeMatchesRow: the parameter $1 has the whole keys of causes.
const causeRows = `{rows $1 recipient BIGINT, category TEXT, subject BIGINT, actor BIGINT, object BIGINT} AS c`

// fromCountingCauses is the part of a SELECT that finds the standing causes of a group c: those that count.
const fromCountingCauses = ` FROM notification_causes n
		WHERE n.recipient = c.recipient AND n.category = c.category AND n.subject = c.subject AND n.bucket = c.bucket AND n.standing`

// coveredByEarlierMark is the condition under which an earlier mark of a whole category makes a group g read too, because it covers
// a cause of the group that is reported only now. A group that was marked unread, or that an undo made unread, stays so: the mark
// came before, or left the group out. Once all of the group was read, there is nothing left to protect.
const coveredByEarlierMark = `excluded.read_to > g.read_to AND (g.unread_gen = 0 OR g.read_to >= g.top)`

var (
	// insertCauses ignores no conflict: the recipients are locked and their stored causes were read, so a conflict is a bug and
	// must fail.
	insertCauses = sql.NewInsertion("insert causes", "notification_causes",
		"recipient BIGINT, category TEXT, subject BIGINT, actor BIGINT, object BIGINT, place BIGINT, bucket BIGINT, at BIGINT, standing BOOLEAN", "")

	// Pages are in the order of the causes' keys, which applyCauses does not change.
	causesOfActor = sql.NewStatement("causes of an actor", `SELECT category, subject, object FROM notification_causes
		WHERE recipient = $1 AND actor = $2 AND (category, subject, object) > (CAST($3 AS TEXT), CAST($4 AS BIGINT), CAST($5 AS BIGINT))
		ORDER BY category, subject, object LIMIT $6`)

	// A cause that the facts no longer support stays as a row: if it returns, it has its old position and is not new.
	stopCountingCauses = sql.NewStatement("lower causes", `UPDATE notification_causes SET standing = FALSE FROM `+causeRows+` WHERE `+causeMatchesRow)

	// restoreCauses leaves the position and the half day as they are: a cause that was seen before it ended is still seen.
	restoreCauses = sql.NewStatement("restore causes", `UPDATE notification_causes SET standing = TRUE FROM `+causeRows+` WHERE `+causeMatchesRow)

	// changeGroups adds and updates groups. It looks up the newest position and time, since the newest cause may have been undone. It
	// updates the count by a difference, since counting would read every like that the post has ever had.
	changeGroups = sql.NewStatement("change notification groups", `
INSERT INTO notification_groups AS g (recipient, category, subject, bucket, first, top, newest, at, causes, read_to, unread_gen, undo, undo_to)
SELECT recipient, category, subject, bucket, first, top, COALESCE((SELECT n.place`+fromCountingCauses+`
		ORDER BY n.place DESC LIMIT 1), 0), COALESCE((SELECT n.at`+fromCountingCauses+`
		ORDER BY n.at DESC LIMIT 1), 0), causes, read_to, 0, undo, undo_to
FROM {rows $1 recipient BIGINT, category TEXT, subject BIGINT, bucket BIGINT, first BIGINT, top BIGINT, causes BIGINT, read_to BIGINT, undo BIGINT, undo_to BIGINT} AS c WHERE TRUE
ON CONFLICT (recipient, category, subject, bucket) DO UPDATE SET top = CASE WHEN excluded.top > g.top THEN excluded.top ELSE g.top END,
	newest = excluded.newest, at = excluded.at, causes = g.causes + excluded.causes,
	read_to = CASE WHEN `+coveredByEarlierMark+` THEN excluded.read_to ELSE g.read_to END,
	undo_to = CASE WHEN `+coveredByEarlierMark+` AND excluded.undo <> 0 AND excluded.undo <> g.undo
		THEN CASE WHEN excluded.undo_to > g.read_to THEN excluded.undo_to ELSE g.read_to END ELSE g.undo_to END,
	undo = CASE WHEN `+coveredByEarlierMark+` AND excluded.undo <> 0 THEN excluded.undo ELSE g.undo END,
	first = CASE WHEN g.first = 0 THEN excluded.first ELSE g.first END`)  // 0: a node of an earlier version inserted the row
)

// group is the key of a group, one row of a list: a subject in one half day.
type group struct {
	counter
	subject services.SortableID // what the causes are about: see Cause.Subject
	halfDay int64               // the number of the half day since 1970
}

// applyCauses brings the notifications of the given causes in line with the present facts, whatever happened before and however
// often it is called. For example, a like counts while it and its post exist. A new cause gets the next position of its
// recipient. A returning cause keeps its old position and group, so that it stays seen. A cause that is hidden from its recipient
// gets a position and does not count: nothing reveals it until it is shown. The version of a counter rises by one if anything
// visible in it changed. applyCauses returns the state of every (recipient, category) of the causes, changed or not, in sorted
// order.
func applyCauses(ctx context.Context, tx *sql.Tx, causes []Cause) ([]categoryState, error) {
	// Duplicates are removed: the maps below have the cause as the key, and each cause must move its group once.
	causes, moments := splitEventMoments(causes)
	b, err := lockCounters(ctx, tx, services.Map(causes, func(cause Cause) counter { return counter{cause.Recipient, cause.Category} }))
	if err != nil {
		return nil, err
	}
	// The facts are read after the lock is taken, to see everything that the lock's former holder did.
	supported, err := readSupportedCauses(ctx, tx, causes)
	if err != nil {
		return nil, err
	}
	known, err := readStoredCauses(ctx, tx, causes)
	if err != nil {
		return nil, err
	}
	if err := b.applyFacts(ctx, supported, known, moments); err != nil {
		return nil, err
	}
	return b.save(ctx)
}

// applyStoredCausesPage does the work of applyCauses for a page of the stored causes of one actor and one recipient: up to limit
// causes that follow the cause after. last is the last cause of the page; more is true when others may follow. Causes that are
// stored meanwhile need no visit: they were compared with the present facts. all is every category.
func applyStoredCausesPage(ctx context.Context, tx *sql.Tx, all []services.Category, recipient, actor services.UserID, after Cause, limit int) (states []categoryState, last Cause, more bool, err error) {
	// Lock before listing: the lock's former holder may have stored causes from facts that it read earlier.
	if _, _, err := lockAllCounters(ctx, tx, recipient, all); err != nil {
		return nil, last, false, err
	}
	causes, err := sql.ReadRows(ctx, tx, causesOfActor, []any{recipient, actor, after.Category, after.Subject, after.Object, limit}, func(scan sql.Scan, c *Cause) error {
		*c = Cause{Recipient: recipient, Actor: actor}
		return scan(&c.Category, &c.Subject, &c.Object)
	})
	if err != nil || len(causes) == 0 {
		return nil, last, false, err
	}
	states, err = applyCauses(ctx, tx, causes)
	return states, causes[len(causes)-1], len(causes) == limit, err
}

// newCause is a cause that is stored for the first time.
type newCause struct {
	Cause
	atMicros    int64                   // when it happened, in microseconds
	position    services.NotificationID // of the cause among all causes of its recipient
	counts      bool                    // it counts as unread
	eventMoment services.SortableID     // of a cause that was reported later: see Cause.Moment
	wasMention  bool                    // it is an answer that was seen or read as a mention: see copyMentionStates
	mentionRead bool                    // that mention was read
}

// groupChange is the change of a group. lowestPosition and highestPosition are the least and the greatest position among the
// changing causes. lowestPosition is used only for a new group, all of whose causes are among them.
type groupChange struct {
	lowestPosition, highestPosition services.NotificationID
	// readTo is the position up to which the group becomes read: a mark already covers a cause of a past time that is reported only
	// now, or a cause was read as a mention. Otherwise it is 0. undoableMarkNumber is the number of that mark, if it can be undone;
	// readToBeforeMark is the position up to which the category was read before that mark.
	readTo, readToBeforeMark services.NotificationID
	undoableMarkNumber       uint64
	// causesDelta is the change of the number of causes that count. It is 0 if only hidden ones changed: the row is written for
	// highestPosition.
	causesDelta int
}

// applyFacts lowers the standing causes that the facts no longer support, restores the lowered causes that they support again, and
// stores the new ones.
func (b *lockedCounters) applyFacts(ctx context.Context, supported map[Cause]supportedCause, known map[Cause]storedCause, moments map[Cause]services.SortableID) error {
	// All changes of a group are one row of changeGroups: an upsert must not meet the same row twice.
	moved := map[group]*groupChange{}
	move := func(c Cause, bucket int64, position services.NotificationID, by int) {
		key := counter{c.Recipient, c.Category}
		if m := b.rows[key]; by != 0 { // a hidden cause changes nothing visible, not even the version or the newest position
			m.changed = true
			if by > 0 {
				m.newestShown = max(m.newestShown, position)
			}
		}
		g := group{key, c.Subject, bucket}
		if moved[g] == nil {
			moved[g] = &groupChange{lowestPosition: position}
		}
		// lowestPosition is the ID of a new group, and highestPosition is the position that a mark must reach for the whole group
		// to be read.
		moved[g].lowestPosition = min(moved[g].lowestPosition, position)
		moved[g].highestPosition, moved[g].causesDelta = max(moved[g].highestPosition, position), moved[g].causesDelta+by
	}
	// These are the stored causes that disagree with the facts. Each row stays, with its position.
	var lowered, restored sql.RowsParameter
	for c, h := range known {
		is, holds := supported[c]
		if holds = holds && !is.hidden; h.counts && !holds {
			lowered = append(lowered, []any{c.Recipient, c.Category, c.Subject, c.Actor, c.Object})
			move(c, h.halfDay, h.position, -1)
		} else if !h.counts && holds {
			restored = append(restored, []any{c.Recipient, c.Category, c.Subject, c.Actor, c.Object})
			move(c, h.halfDay, h.position, 1)
		}
	}
	// missing are the causes that the facts support and that have no row.
	var missing []newCause
	for c, is := range supported {
		if _, had := known[c]; !had {
			r := newCause{Cause: c, atMicros: is.atMicros, counts: !is.hidden, eventMoment: moments[c]}
			if r.eventMoment != 0 { // the cause may have ended and begun again meanwhile: the earlier time counts
				r.atMicros = min(r.atMicros, sql.Micros(r.eventMoment.OrderedTime()))
			}
			missing = append(missing, r)
		}
	}
	missing = append(missing, alreadyEndedCauses(supported, known, moments)...)
	if err := b.assignPositions(ctx, missing); err != nil {
		return err
	}
	if err := b.copyMentionStates(ctx, missing, known); err != nil {
		return err
	}
	// A new cause belongs to the half day of its time, not of its arrival: a late job must not open a group of the present day.
	for _, r := range missing {
		if r.counts {
			move(r.Cause, halfDayOf(r.atMicros), r.position, 1)
		} else { // a mark of everything also covers a hidden cause, so that it is read when it is shown later
			move(r.Cause, halfDayOf(r.atMicros), r.position, 0)
		}
		b.advanceReadTo(r, moved[group{counter{r.Recipient, r.Category}, r.Subject, halfDayOf(r.atMicros)}])
	}
	for _, change := range []struct {
		sql.Statement
		sql.RowsParameter
	}{{stopCountingCauses, lowered}, {restoreCauses, restored}} {
		if len(change.RowsParameter) > 0 {
			if _, err := b.tx.Run(ctx, change.Statement, change.RowsParameter); err != nil {
				return err
			}
		}
	}
	// The causes are stored first: changeGroups looks up the newest of each group.
	if err := b.insert(ctx, missing); err != nil {
		return err
	}
	return b.changeGroups(ctx, moved)
}

// advanceReadTo sets up to which position a group is read because of a new cause in it: the cause was read as a mention, or a mark
// covers it.
func (b *lockedCounters) advanceReadTo(r newCause, by *groupChange) {
	m, h := b.rows[counter{r.Recipient, r.Category}], b.recipients[r.Recipient]
	switch {
	case r.wasMention:
		if r.mentionRead {
			by.readTo = max(by.readTo, r.position)
		}
	case r.eventMoment != 0 && r.position <= m.readTo: // a mark already covers the time of this cause, which is reported only now
		by.readTo = m.readTo
		if h.undoableMarkMicros != 0 && r.position > m.readToBeforeMark {
			by.undoableMarkNumber, by.readToBeforeMark = h.lastMarkNumber, m.readToBeforeMark
		}
	}
}

// assignPositions assigns positions to new causes, in the order of their times. A cause that happened at a past time gets a
// position of that time. Such causes are placed first: a past time may be in the present millisecond, and the other causes take the
// positions of that millisecond.
func (b *lockedCounters) assignPositions(ctx context.Context, missing []newCause) error {
	dated := func(r newCause) int {
		if r.eventMoment != 0 {
			return 0
		}
		return 1
	}
	slices.SortFunc(missing, func(x, y newCause) int {
		return cmp.Or(cmp.Compare(dated(x), dated(y)), cmp.Compare(x.atMicros, y.atMicros), cmp.Compare(x.causingPost(), y.causingPost()), x.Cause.compare(y.Cause))
	})
	// One statement reads the taken positions for all causes; takeNext then assigns positions in memory.
	past, err := b.readLastPositions(ctx, missing)
	if err != nil {
		return err
	}
	for i := range missing {
		r := &missing[i]
		h := b.recipients[r.Recipient]
		if r.eventMoment != 0 {
			r.position = past.takeNext(r.Recipient, r.eventMoment)
			if r.position > h.lastPosition {
				h.lastPosition, h.changed = r.position, true
			}
			continue
		}
		// A new cause comes after all positions of its recipient, and not before the first position of the present time.
		h.lastPosition, h.changed = max(h.lastPosition+1, services.FirstNotificationPosition(b.tx.Now, r.Recipient)), true
		r.position = h.lastPosition
	}
	return nil
}

// insert stores new causes with their positions.
func (b *lockedCounters) insert(ctx context.Context, placed []newCause) error {
	fresh := services.Map(placed, func(r newCause) []any {
		return []any{r.Recipient, r.Category, r.Subject, r.Actor, r.Object, r.position, halfDayOf(r.atMicros), r.atMicros, r.counts}
	})
	_, err := b.tx.Insert(ctx, insertCauses, fresh)
	return err
}

// changeGroups adds new groups and writes the changes of known ones, after the causes: the statement reads the newest cause that
// stands.
func (b *lockedCounters) changeGroups(ctx context.Context, moved map[group]*groupChange) error {
	if len(moved) == 0 {
		return nil
	}
	// The order does not matter: all of these groups are under the locks of their recipients.
	list := make(sql.RowsParameter, 0, len(moved))
	for g, by := range moved {
		list = append(list, []any{g.recipient, g.category, g.subject, g.halfDay, by.lowestPosition, by.highestPosition, by.causesDelta, by.readTo, int64(by.undoableMarkNumber), by.readToBeforeMark})
	}
	_, err := b.tx.Run(ctx, changeGroups, list)
	return err
}
