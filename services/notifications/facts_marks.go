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

// undoWithin is how long "mark all read" can be undone.
const undoWithin = 30 * time.Second

// readMark selects the notifications that were read. Either IDs or Shown (or both) are set, or Categories with UpTo; the other
// fields belong to both forms.
type readMark struct {
	IDs        []services.PostID   // of notifications, each read as a whole
	Shown      []services.PostID   // positions: each notification is read up to the given position
	Categories []services.Category // if IDs and Shown are empty: these categories, up to UpTo
	UpTo       services.PostID     // 0: everything
	// Gen is the generation in which the reader saw the notifications: a notification that was marked unread in a later generation
	// stays unread. services.AnyGen is the current one.
	Gen           uint64
	AllCategories []services.Category // every category
}

// ofGroup joins the rows c to the groups of the user $1.
const ofGroup = `notification_groups.recipient = $1 AND notification_groups.category = c.category
	AND notification_groups.subject = c.subject AND notification_groups.bucket = c.bucket`

// groupRows are groups with the positions up to which they are read.
const groupRows = `{rows $2 category TEXT, subject BIGINT, bucket BIGINT, place BIGINT} AS c`

// markReadText marks as read the groups that meet a condition (%s), which an index has. undo gets the number of the mark, and
// undo_to the previous read_to. $4 is 0 for a mark that cannot be undone: it leaves undo and undo_to as they are, because an undo
// of the mark before it may still come. unread_gen leaves out groups that were marked unread after the reader saw the list.
const markReadText = `
UPDATE notification_groups SET undo = CASE WHEN CAST($4 AS BIGINT) = 0 THEN undo ELSE $4 END,
	undo_to = CASE WHEN $4 = 0 THEN undo_to ELSE read_to END, read_to = $3
WHERE recipient = $1 AND {in category $2 TEXT} AND %s AND read_to < $3 AND unread_gen <= $5
RETURNING category`

var (
	// n.place finds a cause. The other columns are of the cause's group.
	groupsAt = sql.NewStatement("notifications by place", `
SELECT n.category, n.subject, n.bucket, n.place, g.first, g.newest FROM notification_causes n CROSS JOIN notification_groups g
WHERE n.recipient = $1 AND {in n.place $2 BIGINT}
	AND g.recipient = n.recipient AND g.category = n.category AND g.subject = n.subject AND g.bucket = n.bucket`)

	// undo_to rises too, so that an undo does not make groups unread that were read individually since.
	markGroupsRead = sql.NewStatement("read notifications", `
UPDATE notification_groups SET read_to = CASE WHEN read_to < c.place THEN c.place ELSE read_to END,
	undo_to = CASE WHEN undo_to < c.place THEN c.place ELSE undo_to END
FROM `+groupRows+` WHERE `+ofGroup+` AND unread_gen <= $3 AND (read_to < c.place OR undo_to < c.place AND undo <> 0)
RETURNING notification_groups.category`)

	// A mark of everything takes two statements. markUnreadRead marks the groups that are shown as unread; the versions of their
	// categories rise.
	markUnreadRead = sql.NewStatement("read all unread notifications", fmt.Sprintf(markReadText, `newest > read_to`))
	// markUndoneRead marks the groups with an undone or hidden cause after the newest shown one, so that a cause that is shown again
	// later counts as read.
	markUndoneRead = sql.NewStatement("read all undone notifications", fmt.Sprintf(markReadText, `top > newest AND top > read_to`))

	// With read_to 0 the whole group is unread, including causes that were read before.
	markGroupUnread = sql.NewStatement("mark a notification unread", `
UPDATE notification_groups SET read_to = 0, undo = 0, unread_gen = $3
FROM `+groupRows+` WHERE `+ofGroup+` RETURNING notification_groups.category`)

	// undoRead changes only groups that mark $2 changed, and that no later mark of everything or "mark unread" changed.
	undoRead = sql.NewStatement("undo that all was read", `
UPDATE notification_groups SET read_to = undo_to, undo = 0, unread_gen = $3 WHERE recipient = $1 AND undo = $2 RETURNING category`)
)

// lockAll locks all counters of one recipient. Marks take all of them, because they do not know which categories they change.
func lockAll(ctx context.Context, tx *sql.Tx, user services.UserID, categories []services.Category) (*lockedCounters, *head, error) {
	named := make([]counter, len(categories))
	for i, category := range categories {
		named[i] = counter{user, category}
	}
	b, err := lockCounters(ctx, tx, named)
	if err != nil {
		return nil, nil, err
	}
	return b, b.heads[user], nil
}

// runChange runs a statement that returns the categories of the rows that it changed, and records that their versions must
// rise.
func (b *lockedCounters) runChange(ctx context.Context, user services.UserID, st sql.Statement, args ...any) (changed int, err error) {
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

// checkPlace returns the position up to which a mark reaches; for upTo 0 it is head.reachOfMark. The error is INVALID for a position
// beyond the newest, since such a mark would hide future notifications, and NOT_FOUND for a position that is not in this user's
// list. Any position up to the newest deleted one may have been in the list, so it is accepted without a check.
func checkPlace(ctx context.Context, tx *sql.Tx, user services.UserID, h *head, upTo services.PostID) (services.PostID, error) {
	if upTo == 0 {
		return h.reachOfMark(tx, user), nil
	}
	text := services.UpToText(upTo)
	newest, gone, err := newestShown(ctx, tx, user)
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
	places, err := readGroupsAt(ctx, tx.Runner, user, []services.PostID{upTo})
	if err == nil && len(places) == 0 {
		err = services.Errorf(services.NotFound, "upTo: %s is not of a notification of yours", text)
	}
	return upTo, err
}

// newestShownOf reads shown positions from the states. The positions of heads are not used, because they may belong to hidden causes.
var newestShownOf = sql.NewStatement("newest notification shown", `SELECT COALESCE(max(head), 0),
	COALESCE((SELECT gone FROM notification_heads WHERE recipient = $1), 0) FROM notification_state WHERE recipient = $1`)

// newestShown is the newest position that was ever shown to a user, and the newest shown position that was deleted. Unlike a
// head's position, neither belongs to a hidden cause, so that an error does not reveal a hidden cause.
func newestShown(ctx context.Context, tx *sql.Tx, user services.UserID) (newest, gone services.PostID, err error) {
	_, err = tx.One(ctx, newestShownOf, []any{user}, &newest, &gone)
	return max(newest, gone), gone, err
}

// placedGroup is the group that contains a position. first is its ID.
type placedGroup struct {
	group
	first services.PostID
	// newest is 0 if none of the group's causes stands: the group is not shown.
	newest services.PostID
}

// readGroupsAt finds the groups of some positions of a user. A position that is not in the user's list is absent.
func readGroupsAt(ctx context.Context, r sql.Runner, user services.UserID, places []services.PostID) (map[services.PostID]placedGroup, error) {
	found := make(map[services.PostID]placedGroup, len(places))
	err := r.Each(ctx, groupsAt, []any{user, places}, func(scan func(...any) error) error {
		p := placedGroup{group: group{counter: counter{recipient: user}}}
		var place services.PostID
		err := scan(&p.category, &p.subject, &p.bucket, &place, &p.first, &p.newest)
		p.first = cmp.Or(p.first, p.newest)
		found[place] = p
		return err
	})
	return found, err
}

// raiseSeen marks some categories seen up to a position, 0 for everything. Marks only rise, and the version of a category rises
// by one if its mark rises. The error is INVALID for a position beyond the newest, and NOT_FOUND for a position that is not in
// this user's list. No group is written: each category has one seen position.
func raiseSeen(ctx context.Context, tx *sql.Tx, user services.UserID, categories []services.Category, upTo services.PostID) ([]State, error) {
	if len(categories) == 0 { // CategoryHost alone, and no host category is defined
		return nil, nil
	}
	b, h, err := lockAll(ctx, tx, user, categories)
	if err != nil {
		return nil, err
	}
	if upTo, err = checkPlace(ctx, tx, user, h, upTo); err != nil {
		return nil, err
	}
	for _, m := range b.rows {
		// A late or repeated mark lowers nothing.
		if upTo > m.seen {
			m.seen, m.changed = upTo, true
		}
	}
	return b.save(ctx)
}

// markRead marks notifications read: either named ones, or all of some categories up to a position. A read notification no longer
// counts, seen or not. Causes that joined it after the given position stay unread. If a named notification is not in this user's
// list, the error is NOT_FOUND and nothing is marked.
func markRead(ctx context.Context, tx *sql.Tx, user services.UserID, read readMark) ([]State, error) {
	b, h, err := lockAll(ctx, tx, user, read.AllCategories)
	if err != nil {
		return nil, err
	}
	// This is a mark of categories, which cannot be undone.
	if len(read.IDs)+len(read.Shown) == 0 {
		if _, err := b.markCategoriesRead(ctx, user, h, read, 0); err != nil {
			return nil, err
		}
		if h.undoAt != 0 { // an undo would make groups unread that became read by this mark
			h.undoAt, h.changed = 0, true
		}
		return b.save(ctx)
	}
	list, err := b.readNamedGroups(ctx, user, h, read)
	if err != nil {
		return nil, err
	}
	// The statement leaves out groups that were read further already, so a repeated mark raises no version.
	if _, err := b.runChange(ctx, user, markGroupsRead, user, list, int64(read.Gen)); err != nil {
		return nil, err
	}
	return b.save(ctx)
}

// readNamedGroups reads the groups that a mark names, each with the position up to which it is read: the greatest position, if a mark names
// one group twice.
func (b *lockedCounters) readNamedGroups(ctx context.Context, user services.UserID, h *head, read readMark) (sql.Rows, error) {
	places, err := readGroupsAt(ctx, b.tx.Runner, user, slices.Concat(read.IDs, read.Shown))
	if err != nil {
		return nil, err
	}
	reach := map[group]services.PostID{}
	var groups []group // in the same order on every run, since the function may run again
	add := func(p placedGroup, upTo services.PostID) {
		if reach[p.group] == 0 {
			groups = append(groups, p.group)
		}
		reach[p.group] = max(reach[p.group], upTo)
	}
	for _, id := range read.IDs {
		p, found := places[id]
		// An ID is the first position of its group; the other positions are no IDs. A category without an entry in b.rows is being
		// removed.
		if !found || p.first != id || b.rows[p.counter] == nil {
			return nil, notInListError("ids", id)
		}
		// The whole notification is read, including the causes that joined it after it was shown.
		add(p, h.reachOfMark(b.tx, user))
	}
	for _, place := range read.Shown {
		p, found := places[place]
		if !found || b.rows[p.counter] == nil {
			return nil, services.Errorf(services.NotFound, "ids: %s is not of a notification of yours", services.UpToText(place))
		}
		add(p, place)
	}
	list := make(sql.Rows, len(groups))
	for i, g := range groups {
		list[i] = []any{g.category, g.subject, g.bucket, reach[g]}
	}
	return list, nil
}

// notInListError is the error for an ID that is not in the user's list. It is the same for another user's ID and for an unused one.
func notInListError(field string, id services.PostID) error {
	return services.Errorf(services.NotFound, "%s: %s is not a notification of yours", field, services.GlobalID(services.NotificationType, id.String()))
}

// markCategoriesRead marks all of some categories read. undo is the number of a mark that can be undone, else 0. It returns the number of
// changed groups.
func (b *lockedCounters) markCategoriesRead(ctx context.Context, user services.UserID, h *head, read readMark, undo uint64) (changed int, err error) {
	upTo, err := checkPlace(ctx, b.tx, user, h, read.UpTo)
	if err != nil {
		return 0, err
	}
	// Lists in SQL arguments are strings.
	categories := make([]string, len(read.Categories))
	for i, category := range read.Categories {
		categories[i] = string(category)
	}
	// The groups that are shown come first: whether any of them changed decides whether there is something to undo.
	if changed, err = b.runChange(ctx, user, markUnreadRead, user, categories, upTo, int64(undo), int64(read.Gen)); err != nil {
		return 0, err
	}
	// A mark that changed nothing cannot be undone, unless causes that it covers are reported later.
	if changed == 0 && !h.canUndoUnchanged(b.tx) {
		undo = 0
	}
	for _, category := range read.Categories {
		m := b.rows[counter{user, category}]
		if undo != 0 && m.undoTo != m.readTo {
			m.undoTo, m.changedInvisibly = m.readTo, true
		}
		if upTo > m.readTo {
			m.readTo, m.changedInvisibly = upTo, true
		}
	}
	// Undone and hidden causes are marked too, so that they are read if they are shown again. No version rises: nothing
	// visible changed.
	_, err = b.tx.Run(ctx, markUndoneRead, user, categories, upTo, int64(undo), int64(read.Gen))
	return changed, err
}

// markAllRead marks everything up to a position read, in every category. It returns the time until which a mark can be undone, or
// zero if nothing was unread and no earlier mark can be undone. The changed groups have the mark's number, for an undo.
func markAllRead(ctx context.Context, tx *sql.Tx, user services.UserID, all []services.Category, upTo services.PostID, gen uint64) ([]State, time.Time, error) {
	b, h, err := lockAll(ctx, tx, user, all)
	if err != nil {
		return nil, time.Time{}, err
	}
	// The mark gets the next number, which is stored only if something changed.
	changed, err := b.markCategoriesRead(ctx, user, h, readMark{Categories: all, UpTo: upTo, Gen: gen}, h.undo+1)
	if err != nil {
		return nil, time.Time{}, err
	}
	// A mark that changed nothing leaves the undo of the mark before it: two taps on the button count as one.
	if changed > 0 || h.canUndoUnchanged(tx) {
		h.undo, h.undoAt, h.changed = h.undo+1, sql.Micros(tx.HappenedAt()), true
	}
	var until time.Time
	// A mark that changed nothing returns the time until which the mark before it can be undone.
	if h.undoAt != 0 && !tx.Now.After(sql.FromMicros(h.undoAt).Add(undoWithin)) {
		until = sql.FromMicros(h.undoAt).Add(undoWithin)
	}
	states, err := b.save(ctx)
	return states, until, err
}

// canUndoUnchanged reports whether a mark that changed nothing can be undone all the same. A mark of a past time can, because causes
// that it covers may be reported later. Within the undo time of another mark it cannot: it is a second tap on the button.
func (h *head) canUndoUnchanged(tx *sql.Tx) bool {
	if tx.Dated() == 0 {
		return false
	}
	ago := tx.HappenedAt().Sub(sql.FromMicros(h.undoAt))
	return h.undoAt == 0 || ago < 0 || ago > undoWithin
}

// undoAllRead makes unread again the notifications that the last "mark all read" marked, within 30 s. Notifications that were
// read individually since stay read. The error is CONFLICT if it is too late, or if there is nothing to undo.
func undoAllRead(ctx context.Context, tx *sql.Tx, user services.UserID, all []services.Category) ([]State, error) {
	b, h, err := lockAll(ctx, tx, user, all)
	if err != nil {
		return nil, err
	}
	// undoAt is zero after an undo, and after a mark by category: see markRead.
	if h.undoAt == 0 {
		return nil, services.Errorf(services.Conflict, "there is no markAllRead to undo; it can be undone once, within %d s, and until notifications are marked read by category or position",
			int(undoWithin.Seconds()))
	}
	ago := tx.HappenedAt().Sub(sql.FromMicros(h.undoAt))
	// An undo that happened earlier, and is reported only now, is not meant for a mark that came after it.
	if ago < 0 && tx.Dated() != 0 {
		return nil, services.Errorf(services.Conflict, "at: the last markAllRead came later, at %s", sql.FromMicros(h.undoAt).UTC().Format("2006-01-02T15:04:05.000Z"))
	}
	if ago > undoWithin {
		return nil, services.Errorf(services.Conflict, "markAllRead was %d s ago; it can be undone within %d s", int(ago.Seconds()), int(undoWithin.Seconds()))
	}
	// The undo begins a new generation: a mark of a list that was read before the undo does not mark the notifications that are
	// unread now.
	h.gen, h.undoAt, h.changed = h.gen+1, 0, true
	// Causes of the mark's time that are reported later are unread too.
	for _, m := range b.rows {
		m.readTo, m.changedInvisibly = m.undoTo, true
	}
	if _, err := b.runChange(ctx, user, undoRead, user, int64(h.undo), int64(h.gen)); err != nil {
		return nil, err
	}
	return b.save(ctx)
}

// markUnread marks the notification with an ID unread, in a new generation. The notification counts again if it is after the seen
// position of its category, which never goes back. The error is NOT_FOUND if it is not in this user's list, or none of its causes
// stands.
func markUnread(ctx context.Context, tx *sql.Tx, user services.UserID, all []services.Category, id services.PostID) ([]State, error) {
	b, h, err := lockAll(ctx, tx, user, all)
	if err != nil {
		return nil, err
	}
	places, err := readGroupsAt(ctx, tx.Runner, user, []services.PostID{id})
	if err != nil {
		return nil, err
	}
	p, found := places[id]
	if !found || p.first != id || p.newest == 0 || b.rows[p.counter] == nil {
		return nil, notInListError("id", id)
	}
	// The mark begins a new generation, as an undo does: a mark of an older list must not mark the notification read.
	h.gen, h.changed = h.gen+1, true
	list := sql.Rows{{p.category, p.subject, p.bucket, 0}}
	if _, err := b.runChange(ctx, user, markGroupUnread, user, list, int64(h.gen)); err != nil {
		return nil, err
	}
	return b.save(ctx)
}
