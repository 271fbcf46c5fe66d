package notifications

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"tidings/services"
	"tidings/services/sql"
)

// undoAllReadPeriod is how long "mark all read" can be undone.
const undoAllReadPeriod = 30 * time.Second

// readMarkSelection selects the notifications that were read. Either IDs or UpToPositions (or both) are set, or Categories with
// UpTo; the other fields belong to both forms.
type readMarkSelection struct {
	IDs           []services.NotificationID // of notifications, each read as a whole
	UpToPositions []services.NotificationID // positions: each notification is read up to the given position
	Categories    []services.Category       // if IDs and UpToPositions are empty: these categories, up to UpTo
	UpTo          services.NotificationID   // 0: everything
	// MarkGeneration is the generation in which the reader saw the notifications: a notification that was marked unread in a later
	// generation stays unread. services.AnyMarkGeneration is the current one.
	MarkGeneration uint64
	AllCategories  []services.Category // every category: a named notification may be of any
}

// groupMatchesRow joins the rows c to the groups of the user $1.
const groupMatchesRow = `notification_groups.recipient = $1 AND notification_groups.category = c.category
	AND notification_groups.subject = c.subject AND notification_groups.bucket = c.bucket`

// groupRows are groups with the positions up to which they are read.
const groupRows = `{rows $2 category TEXT, subject BIGINT, bucket BIGINT, place BIGINT} AS c`

// markReadStatementText marks as read the groups that meet a condition (%s), which an index has. undo gets the number of the mark, and
// undo_to the previous read_to. $4 is 0 for a mark that cannot be undone: it leaves undo and undo_to as they are, because an undo
// of the mark before it may still come. unread_gen leaves out groups that were marked unread after the reader saw the list.
const markReadStatementText = `
UPDATE notification_groups SET undo = CASE WHEN CAST($4 AS BIGINT) = 0 THEN undo ELSE $4 END,
	undo_to = CASE WHEN $4 = 0 THEN undo_to ELSE read_to END, read_to = $3
WHERE recipient = $1 AND {in category $2 TEXT} AND %s AND read_to < $3 AND unread_gen <= $5
RETURNING category`

var (
	// groupsAtPositions finds the groups that contain some positions. A position is the n.place of a cause.
	groupsAtPositions = sql.NewStatement("notifications by position", `
SELECT n.category, n.subject, n.bucket, n.place, g.first, g.newest FROM notification_causes n CROSS JOIN notification_groups g
WHERE n.recipient = $1 AND {in n.place $2 BIGINT}
	AND g.recipient = n.recipient AND g.category = n.category AND g.subject = n.subject AND g.bucket = n.bucket`)

	// undo_to rises too, so that an undo does not make groups unread that were read individually since.
	markGroupsRead = sql.NewStatement("read notifications", `
UPDATE notification_groups SET read_to = CASE WHEN read_to < c.place THEN c.place ELSE read_to END,
	undo_to = CASE WHEN undo_to < c.place THEN c.place ELSE undo_to END
FROM `+groupRows+` WHERE `+groupMatchesRow+` AND unread_gen <= $3 AND (read_to < c.place OR undo_to < c.place AND undo <> 0)
RETURNING notification_groups.category`)

	// A mark of everything takes two statements. markUnreadGroupsRead marks the groups that are shown as unread; the versions of their
	// categories rise.
	markUnreadGroupsRead = sql.NewStatement("read all unread notifications", fmt.Sprintf(markReadStatementText, `newest > read_to`))
	// markUndoneGroupsRead marks the groups with an undone or hidden cause after the newest shown one, so that a cause that is
	// shown again later counts as read.
	markUndoneGroupsRead = sql.NewStatement("read all undone notifications", fmt.Sprintf(markReadStatementText, `top > newest AND top > read_to`))

	// With read_to 0 the whole group is unread, including causes that were read before.
	markGroupUnread = sql.NewStatement("mark a notification unread", `
UPDATE notification_groups SET read_to = 0, undo = 0, unread_gen = $3
FROM `+groupRows+` WHERE `+groupMatchesRow+` RETURNING notification_groups.category`)

	// undoMarkAllRead changes only groups that mark $2 changed, and that no later mark of everything or "mark unread" changed.
	undoMarkAllRead = sql.NewStatement("undo that all was read", `
UPDATE notification_groups SET read_to = undo_to, undo = 0, unread_gen = $3 WHERE recipient = $1 AND undo = $2 RETURNING category`)
)

// lockAllCounters locks all counters of one recipient. Marks take all of them, because they do not know which categories they change.
func lockAllCounters(ctx context.Context, tx *sql.Tx, user services.UserID, categories []services.Category) (*lockedCounters, *recipientRow, error) {
	b, err := lockCounters(ctx, tx, services.Map(categories, func(category services.Category) counter { return counter{user, category} }))
	if err != nil {
		return nil, nil, err
	}
	return b, b.recipients[user], nil
}

// runRecordingChanges runs a statement that returns the categories of the rows that it changed, and records that their versions must
// rise.
func (b *lockedCounters) runRecordingChanges(ctx context.Context, user services.UserID, st sql.Statement, args ...any) (changed int, err error) {
	err = b.tx.Each(ctx, st, args, func(scan func(...any) error) error {
		key := counter{recipient: user}
		if err := scan(&key.category); err != nil {
			return err
		}
		if m := b.rows[key]; m != nil { // else the category is being removed
			m.changed = true
		}
		changed++
		return nil
	})
	return changed, err
}

// resolveUpTo returns the position up to which a mark reaches; for upTo 0 it is that of recipientRow.markAllUpTo. The error is
// INVALID for a position beyond the newest, since such a mark would hide future notifications, and NOT_FOUND for a position that is
// not in this user's list. Any position up to the newest deleted one may have been in the list, so it is accepted without a check.
func resolveUpTo(ctx context.Context, tx *sql.Tx, user services.UserID, h *recipientRow, upTo services.NotificationID) (services.NotificationID, error) {
	if upTo == 0 {
		return h.markAllUpTo(tx, user), nil
	}
	text := services.FormatNotificationUpTo(upTo)
	newest, gone, err := readNewestShown(ctx, tx, user)
	if err != nil {
		return 0, err
	}
	if upTo > newest {
		return 0, services.Errorf(services.Invalid, "upTo: %s is beyond the newest notification", text)
	}
	// The newest position needs no row, and a position that may have been shown and deleted since has none.
	if upTo <= gone || upTo == newest {
		return upTo, nil
	}
	byPosition, err := readGroupsAt(ctx, tx.Runner, user, []services.NotificationID{upTo})
	if err == nil && len(byPosition) == 0 {
		err = services.Errorf(services.NotFound, "upTo: %s is not of a notification of yours", text)
	}
	return upTo, err
}

// selectNewestShown reads shown positions from the states. The positions in notification_heads are not used, because they may
// belong to hidden causes.
var selectNewestShown = sql.NewStatement("newest notification shown", `SELECT COALESCE(max(head), 0),
	COALESCE((SELECT gone FROM notification_heads WHERE recipient = $1), 0) FROM notification_state WHERE recipient = $1`)

// readNewestShown is the newest position that was ever shown to a user, and the newest shown position that was deleted. Unlike
// recipientRow.lastPosition, neither belongs to a hidden cause, so that an error does not reveal a hidden cause.
func readNewestShown(ctx context.Context, tx *sql.Tx, user services.UserID) (newest, gone services.NotificationID, err error) {
	_, err = tx.One(ctx, selectNewestShown, []any{user}, &newest, &gone)
	return max(newest, gone), gone, err
}

// placedGroup is the group that contains a position.
type placedGroup struct {
	group
	id services.NotificationID // see Notification.ID
	// newestPosition is 0 if none of the group's causes stands: the group is not shown.
	newestPosition services.NotificationID
}

// readGroupsAt finds the groups of some positions of a user. A position that is not in the user's list is absent.
func readGroupsAt(ctx context.Context, r sql.Runner, user services.UserID, positions []services.NotificationID) (map[services.NotificationID]placedGroup, error) {
	return sql.ReadByKey(ctx, r, groupsAtPositions, []any{user, sql.Numbers(positions)}, func(scan sql.Scan, position *services.NotificationID, p *placedGroup) error {
		p.recipient = user
		err := scan(&p.category, &p.subject, &p.halfDay, position, &p.id, &p.newestPosition)
		p.id = cmp.Or(p.id, p.newestPosition)
		return err
	})
}

// markSeen marks some categories seen up to a position, 0 for everything. Marks only rise, and the version of a category rises
// by one if its mark rises. The error is INVALID for a position beyond the newest, and NOT_FOUND for a position that is not in
// this user's list. No group is written: each category has one seen position.
func markSeen(ctx context.Context, tx *sql.Tx, user services.UserID, categories []services.Category, upTo services.NotificationID) ([]categoryState, error) {
	if len(categories) == 0 { // CategoryHost alone, and no host category is defined
		return nil, nil
	}
	b, h, err := lockAllCounters(ctx, tx, user, categories)
	if err != nil {
		return nil, err
	}
	if upTo, err = resolveUpTo(ctx, tx, user, h, upTo); err != nil {
		return nil, err
	}
	for _, m := range b.rows {
		// A late or repeated mark lowers nothing.
		if upTo > m.seenTo {
			m.seenTo, m.changed = upTo, true
		}
	}
	return b.save(ctx)
}

// markRead marks notifications read: either named ones, or all of some categories up to a position. A read notification no longer
// counts, seen or not. Causes that joined it after the given position stay unread. If a named notification is not in this user's
// list, the error is NOT_FOUND and nothing is marked.
func markRead(ctx context.Context, tx *sql.Tx, user services.UserID, read readMarkSelection) ([]categoryState, error) {
	b, h, err := lockAllCounters(ctx, tx, user, read.AllCategories)
	if err != nil {
		return nil, err
	}
	// This is a mark of categories, which cannot be undone.
	if len(read.IDs)+len(read.UpToPositions) == 0 {
		if _, err := b.markCategoriesRead(ctx, user, h, read, 0); err != nil {
			return nil, err
		}
		if h.undoableMarkMicros != 0 { // an undo would make groups unread that became read by this mark
			h.undoableMarkMicros, h.changed = 0, true
		}
		return b.save(ctx)
	}
	list, err := b.readMarkedGroups(ctx, user, h, read)
	if err != nil {
		return nil, err
	}
	// The statement leaves out groups that were read further already, so a repeated mark raises no version.
	if _, err := b.runRecordingChanges(ctx, user, markGroupsRead, user, list, int64(read.MarkGeneration)); err != nil {
		return nil, err
	}
	return b.save(ctx)
}

// readMarkedGroups reads the groups that a mark names, each with the position up to which it is read: the greatest position, if a
// mark names one group twice.
func (b *lockedCounters) readMarkedGroups(ctx context.Context, user services.UserID, h *recipientRow, read readMarkSelection) (sql.RowsParameter, error) {
	byPosition, err := readGroupsAt(ctx, b.tx.Runner, user, slices.Concat(read.IDs, read.UpToPositions))
	if err != nil {
		return nil, err
	}
	reach := map[group]services.NotificationID{}
	var groups []group // in the same order on every run, since the function may run again
	add := func(p placedGroup, upTo services.NotificationID) {
		if reach[p.group] == 0 {
			groups = append(groups, p.group)
		}
		reach[p.group] = max(reach[p.group], upTo)
	}
	for _, id := range read.IDs {
		p, found := byPosition[id]
		// An ID is the first position of its group; the other positions are no IDs. A category without an entry in b.rows is being
		// removed.
		if !found || p.id != id || b.rows[p.counter] == nil {
			return nil, notInListError("ids", id)
		}
		// The whole notification is read, including the causes that joined it after it was shown.
		add(p, h.markAllUpTo(b.tx, user))
	}
	for _, position := range read.UpToPositions {
		p, found := byPosition[position]
		if !found || b.rows[p.counter] == nil {
			return nil, services.Errorf(services.NotFound, "ids: %s is not of a notification of yours", services.FormatNotificationUpTo(position))
		}
		add(p, position)
	}
	return services.Map(groups, func(g group) []any { return []any{g.category, g.subject, g.halfDay, reach[g]} }), nil
}

// notInListError is the error for an ID that is not in the user's list. It is the same for another user's ID and for an unused one.
func notInListError(field string, id services.NotificationID) error {
	return services.Errorf(services.NotFound, "%s: %s is not a notification of yours", field, services.GlobalID(services.NotificationType, id.String()))
}

// markCategoriesRead marks all of some categories read. undo is the number of a mark that can be undone, else 0. It returns the
// number of changed groups.
func (b *lockedCounters) markCategoriesRead(ctx context.Context, user services.UserID, h *recipientRow, read readMarkSelection, undo uint64) (changed int, err error) {
	upTo, err := resolveUpTo(ctx, b.tx, user, h, read.UpTo)
	if err != nil {
		return 0, err
	}
	// Lists in SQL arguments are strings.
	categories := services.Map(read.Categories, func(category services.Category) string { return string(category) })
	// The groups that are shown come first: whether any of them changed decides whether there is something to undo.
	if changed, err = b.runRecordingChanges(ctx, user, markUnreadGroupsRead, user, categories, upTo, int64(undo), int64(read.MarkGeneration)); err != nil {
		return 0, err
	}
	// A mark that changed nothing cannot be undone, unless causes that it covers are reported later.
	if changed == 0 && !h.canUndoEmptyMark(b.tx) {
		undo = 0
	}
	for _, category := range read.Categories {
		m := b.rows[counter{user, category}]
		if undo != 0 && m.readToBeforeMark != m.readTo {
			m.readToBeforeMark, m.changedInvisibly = m.readTo, true
		}
		if upTo > m.readTo {
			m.readTo, m.changedInvisibly = upTo, true
		}
	}
	// Undone and hidden causes are marked too, so that they are read if they are shown again. No version rises: nothing
	// visible changed.
	_, err = b.tx.Run(ctx, markUndoneGroupsRead, user, categories, upTo, int64(undo), int64(read.MarkGeneration))
	return changed, err
}

// markAllRead marks everything up to a position read, in every category. It returns the time until which a mark can be undone, or
// zero if nothing was unread and no earlier mark can be undone. The changed groups have the mark's number, for an undo.
func markAllRead(ctx context.Context, tx *sql.Tx, user services.UserID, all []services.Category, upTo services.NotificationID, gen uint64) ([]categoryState, time.Time, error) {
	b, h, err := lockAllCounters(ctx, tx, user, all)
	if err != nil {
		return nil, time.Time{}, err
	}
	// The mark gets the next number, which is stored only if something changed.
	changed, err := b.markCategoriesRead(ctx, user, h, readMarkSelection{Categories: all, UpTo: upTo, MarkGeneration: gen}, h.lastMarkNumber+1)
	if err != nil {
		return nil, time.Time{}, err
	}
	// A mark that changed nothing leaves the undo of the mark before it: two taps on the button count as one.
	if changed > 0 || h.canUndoEmptyMark(tx) {
		h.lastMarkNumber, h.undoableMarkMicros, h.changed = h.lastMarkNumber+1, sql.Micros(tx.EventTime()), true
	}
	var until time.Time
	// A mark that changed nothing returns the time until which the mark before it can be undone.
	if h.undoableMarkMicros != 0 && !tx.Now.After(sql.FromMicros(h.undoableMarkMicros).Add(undoAllReadPeriod)) {
		until = sql.FromMicros(h.undoableMarkMicros).Add(undoAllReadPeriod)
	}
	states, err := b.save(ctx)
	return states, until, err
}

// canUndoEmptyMark reports whether a mark that changed nothing can be undone all the same. A mark of a past time can, because causes
// that it covers may be reported later. Within the undo time of another mark it cannot: it is a second tap on the button.
func (h *recipientRow) canUndoEmptyMark(tx *sql.Tx) bool {
	if tx.EventMoment() == 0 {
		return false
	}
	ago := tx.EventTime().Sub(sql.FromMicros(h.undoableMarkMicros))
	return h.undoableMarkMicros == 0 || ago < 0 || ago > undoAllReadPeriod
}

// undoAllRead makes unread again the notifications that the last "mark all read" marked, within 30 s. Notifications that were
// read individually since stay read. The error is CONFLICT if it is too late, or if there is nothing to undo.
func undoAllRead(ctx context.Context, tx *sql.Tx, user services.UserID, all []services.Category) ([]categoryState, error) {
	b, h, err := lockAllCounters(ctx, tx, user, all)
	if err != nil {
		return nil, err
	}
	// undoableMarkMicros is zero after an undo, and after a mark by category: see markRead.
	if h.undoableMarkMicros == 0 {
		return nil, services.Errorf(services.Conflict, "there is no markAllRead to undo; it can be undone once, within %d s, and until notifications are marked read by category or position",
			int(undoAllReadPeriod.Seconds()))
	}
	ago := tx.EventTime().Sub(sql.FromMicros(h.undoableMarkMicros))
	// An undo that happened earlier, and is reported only now, is not meant for a mark that came after it.
	if ago < 0 && tx.EventMoment() != 0 {
		return nil, services.Errorf(services.Conflict, "at: the last markAllRead came later, at %s", sql.FromMicros(h.undoableMarkMicros).UTC().Format("2006-01-02T15:04:05.000Z"))
	}
	if ago > undoAllReadPeriod {
		return nil, services.Errorf(services.Conflict, "markAllRead was %d s ago; it can be undone within %d s", int(ago.Seconds()), int(undoAllReadPeriod.Seconds()))
	}
	// The undo begins a new generation: a mark of a list that was read before the undo does not mark the notifications that are
	// unread now.
	h.markGeneration, h.undoableMarkMicros, h.changed = h.markGeneration+1, 0, true
	// Causes of the mark's time that are reported later are unread too.
	for _, m := range b.rows {
		m.readTo, m.changedInvisibly = m.readToBeforeMark, true
	}
	if _, err := b.runRecordingChanges(ctx, user, undoMarkAllRead, user, int64(h.lastMarkNumber), int64(h.markGeneration)); err != nil {
		return nil, err
	}
	return b.save(ctx)
}

// markUnread marks the notification with an ID unread, in a new generation. The notification counts again if it is after the seen
// position of its category, which never goes back. The error is NOT_FOUND if it is not in this user's list, or none of its causes
// stands.
func markUnread(ctx context.Context, tx *sql.Tx, user services.UserID, all []services.Category, id services.NotificationID) ([]categoryState, error) {
	b, h, err := lockAllCounters(ctx, tx, user, all)
	if err != nil {
		return nil, err
	}
	byPosition, err := readGroupsAt(ctx, tx.Runner, user, []services.NotificationID{id})
	if err != nil {
		return nil, err
	}
	p, found := byPosition[id]
	if !found || p.id != id || p.newestPosition == 0 || b.rows[p.counter] == nil {
		return nil, notInListError("id", id)
	}
	// The mark begins a new generation, as an undo does: a mark of an older list must not mark the notification read.
	h.markGeneration, h.changed = h.markGeneration+1, true
	list := sql.RowsParameter{{p.category, p.subject, p.halfDay, 0}}
	if _, err := b.runRecordingChanges(ctx, user, markGroupUnread, user, list, int64(h.markGeneration)); err != nil {
		return nil, err
	}
	return b.save(ctx)
}
