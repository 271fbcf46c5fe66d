package messages

import (
	"cmp"
	"context"
	"slices"
	"strconv"
	"strings"

	"tidings/services"
	"tidings/services/sql"
)

// messageSelection selects a user's messages: the messages in IDs or, if IDs is empty, the messages of Types up to UpTo.
type messageSelection struct {
	IDs   []ID
	Types []string
	UpTo  ID // the newest message that is selected; 0: all that exist now
	// Generation is the generation of the list that showed the messages as unread: a message that was marked unread in a later
	// generation stays unread. services.AnyMarkGeneration is the current one.
	Generation uint64
}

// onConflictRaiseReadTo is the end of raiseReadTo and raiseReadToNewest, which store up to which message a user has marked types read
// (a mark). read_to only rises, whatever the order of the marks. The column marks has at least the last 16 marks for firstMarkTime; a
// mark at the position of the last one is not added. RETURNING names every type, raised or not: the rows of all of them are locked.
const onConflictRaiseReadTo = `
ON CONFLICT (user_number, type) DO UPDATE SET read_to = CASE WHEN excluded.read_to > s.read_to THEN excluded.read_to ELSE s.read_to END,
	marks = CASE WHEN s.marks LIKE CAST(excluded.read_to AS TEXT) || '@%' THEN s.marks ELSE substr(excluded.marks || s.marks, 1, 600) END
RETURNING type`

var (
	insertMessage = sql.NewStatement("insert a site message", `
INSERT INTO site_messages (id, type, title, content, created_at, updated_at) VALUES ($1, $2, $3, $4, $5, $5)`)

	// A null text leaves the former one. updated_at does not fall when an edit of a past moment comes late.
	editMessage = sql.NewStatement("edit a site message", `
UPDATE site_messages SET title = COALESCE(CAST($2 AS TEXT), title), content = COALESCE(CAST($3 AS TEXT), content),
	updated_at = CASE WHEN $4 > updated_at THEN $4 ELSE updated_at END WHERE id = $1`)

	newestOfMillisecond = sql.NewestIDOfMillisecond("site_messages") // for tx.NewIDInTable

	// A mark also covers messages that were sent at a past time and are delivered after the mark. Storing the mark locks the user's
	// states of its types too.
	raiseReadTo = sql.NewStatement("keep how far types of site messages were read", `
INSERT INTO site_message_state AS s (user_number, type, ver, read_to, marks)
SELECT CAST($1 AS BIGINT), type, 1, CAST($3 AS BIGINT), CAST($3 AS TEXT) || CAST($4 AS TEXT) FROM {rows $2 type TEXT} AS c WHERE TRUE ORDER BY type`+onConflictRaiseReadTo)

	// A mark of all messages ends at the newest message and not at the present time: a newer message that is delivered later was not
	// seen.
	raiseReadToNewest = sql.NewStatement("keep that types of site messages were read", `
INSERT INTO site_message_state AS s (user_number, type, ver, read_to, marks)
SELECT CAST($1 AS BIGINT), c.type, 1, r.message, CAST(r.message AS TEXT) || CAST($4 AS TEXT) FROM {rows $2 type TEXT} AS c CROSS JOIN (
	SELECT message FROM site_message_recipients WHERE user_number = $1 AND {in type $3 TEXT} ORDER BY message DESC LIMIT 1
) AS r WHERE TRUE ORDER BY c.type`+onConflictRaiseReadTo)

	// markLateDeliveredRead marks a message read for users who get it after a mark that covers it.
	markLateDeliveredRead = sql.NewStatement("mark what was delivered late read", `
UPDATE site_message_recipients SET read_at = r.read_at FROM {rows $2 user_number BIGINT, read_at BIGINT} AS r
WHERE site_message_recipients.user_number = r.user_number AND message = $1 AND site_message_recipients.read_at IS NULL`)

	// readToOf finds the users of $1 who have marked messages of a type read up to the message $3 or a later one.
	readToOf = sql.NewStatement("how far site messages of a type were read", `
SELECT user_number, read_to, marks FROM site_message_state WHERE {in user_number $1 BIGINT} AND type = $2 AND read_to >= $3`)

	typeOf = sql.NewStatement("the type of a site message", `SELECT type FROM site_messages WHERE id = $1`)

	textOf = sql.NewStatement("the text of a site message", `SELECT type, title, content FROM site_messages WHERE id = $1`)

	// An upsert locks the row whether it is there or not, in the order of the rows given.
	lockStates = sql.NewStatement("lock states of site messages", `
INSERT INTO site_message_state AS s (user_number, type, ver)
SELECT user_number, type, 0 FROM {rows $1 n BIGINT, user_number BIGINT, type TEXT} AS c WHERE TRUE ORDER BY n
ON CONFLICT (user_number, type) DO UPDATE SET ver = s.ver`)

	// The rows are locked in the order of types, so that two marks of one user take their locks in one order.
	lockTypes = sql.NewStatement("lock a user's states of site messages", `
SELECT type FROM site_message_state WHERE user_number = $1 AND {in type $2 TEXT} ORDER BY type {for update}`)

	// existingRecipients finds those of some users who have the message already.
	existingRecipients = sql.NewStatement("recipients of a site message", `
SELECT user_number FROM site_message_recipients WHERE message = $1 AND {in user_number $2 BIGINT}`)

	// The insertion has no ON CONFLICT: deliver knows under its locks who has the message, and an error here is a bug.
	insertRecipients = sql.NewInsertion("insert recipients", "site_message_recipients", "user_number BIGINT, message BIGINT, type TEXT", "")

	typesOfMessages = sql.NewStatement("types of a user's site messages", `
SELECT message, type FROM site_message_recipients WHERE user_number = $1 AND {in message $2 BIGINT}`)

	// unread_gen is the generation in which the message was last marked unread. A mark of an older list leaves it unread.
	markReadByID = sql.NewStatement("mark site messages read", `
UPDATE site_message_recipients SET read_at = $3 WHERE user_number = $1 AND {in message $2 BIGINT} AND read_at IS NULL AND unread_gen <= $4 RETURNING type`)

	markUnreadByID = sql.NewStatement("mark site messages unread", `
UPDATE site_message_recipients SET read_at = NULL, unread_gen = $3 WHERE user_number = $1 AND {in message $2 BIGINT} AND read_at IS NOT NULL RETURNING type`)

	markReadByType = sql.NewStatement("mark site messages of types read", `
UPDATE site_message_recipients SET read_at = $4 WHERE user_number = $1 AND {in type $2 TEXT} AND message <= $3 AND read_at IS NULL AND unread_gen <= $5 RETURNING type`)

	// keepUnread raises the generation of messages that are unread already, so that a mark of an older list leaves them unread.
	keepUnread = sql.NewStatement("keep site messages unread", `
UPDATE site_message_recipients SET unread_gen = $3 WHERE user_number = $1 AND {in message $2 BIGINT} AND read_at IS NULL AND unread_gen < $3`)

	// A user's generation of site messages rises with each command that marks some of them unread.
	nextGeneration = sql.NewStatement("next generation of site messages", `
INSERT INTO site_message_gens AS g (user_number, gen) VALUES ($1, 1) ON CONFLICT (user_number) DO UPDATE SET gen = g.gen + 1 RETURNING gen`)

	raiseVersions = sql.NewStatement("raise versions of site messages", `
UPDATE site_message_state AS s SET ver = s.ver + 1
FROM {rows $1 user_number BIGINT, type TEXT} AS c WHERE s.user_number = c.user_number AND s.type = c.type`)
)

// Insert inserts a message without recipients: the jobs of DeliverJobs add these.
func Insert(ctx context.Context, tx *sql.Tx, id ID, text Text) error {
	_, err := tx.Run(ctx, insertMessage, id, text.Type, text.Title, text.Content, tx.EventTime())
	return err
}

// readText reads the text of a message.
func readText(ctx context.Context, r sql.Reader, id ID) (text Text, found bool, err error) {
	found, err = r.One(ctx, textOf, []any{id}, &text.Type, &text.Title, &text.Content)
	return text, found, err
}

// edit changes the text for every recipient and leaves their read states; nil leaves a text as it is. The error is NOT_FOUND if
// there is no such message.
func edit(ctx context.Context, tx *sql.Tx, id ID, title, content *string) error {
	changed, err := tx.Run(ctx, editMessage, id, sql.TextOrNull(title), sql.TextOrNull(content), tx.EventTime())
	if err == nil && changed == 0 {
		err = notFound("siteMessageId", id)
	}
	return err
}

// notFound is the error for a message that does not exist, or that the user does not have: both get the same error.
func notFound(field string, id ID) error {
	return services.Errorf(services.NotFound, "%s: there is no %s", field, id.GlobalID())
}

// deliver gives users a message, unread. A user who has it already keeps their read state. A message that was sent at a past time
// (dated) is read for users who have made a mark that covers it. deliver returns the states of all given users, in order of user
// ID, so that a repeated delivery projects them again.
func deliver(ctx context.Context, tx *sql.Tx, id ID, users []services.UserID, dated bool) ([]unreadState, error) {
	var kind string
	found, err := tx.One(ctx, typeOf, []any{id}, &kind)
	if err != nil || len(users) == 0 {
		return nil, err
	}
	if !found {
		return nil, notFound("id", id)
	}
	users = slices.Compact(slices.Sorted(slices.Values(users))) // all lock in one order
	// lock orders the upsert by its first column; which names the states that are read at the end.
	lock, which := make(sql.RowsParameter, len(users)), make(sql.RowsParameter, len(users))
	for i, user := range users {
		lock[i], which[i] = []any{i, user, kind}, []any{user, kind}
	}
	if _, err := tx.Run(ctx, lockStates, lock); err != nil {
		return nil, err
	}
	// While the locks are held, no other transaction gives these users a message of this type, or takes one from them.
	has, err := sql.ReadSet[services.UserID](ctx, tx, existingRecipients, id, users)
	if err != nil {
		return nil, err
	}
	var fresh [][]any
	var changed sql.RowsParameter
	for _, user := range users {
		if !has[user] {
			fresh = append(fresh, []any{user, id, kind})
			changed = append(changed, []any{user, kind})
		}
	}
	if _, err := tx.Insert(ctx, insertRecipients, fresh); err != nil {
		return nil, err
	}
	if dated && len(fresh) > 0 {
		if err := markLateRowsRead(ctx, tx, id, kind, fresh); err != nil {
			return nil, err
		}
	}
	// Only users who got the message now have a new version. The states of the others are unchanged, and are projected again.
	if err := raiseStateVersions(ctx, tx, changed); err != nil {
		return nil, err
	}
	return readStates(ctx, tx.Runner, statesOf, which)
}

// markLateRowsRead marks new rows of a message read for users whose earlier marks cover it, at the time of the first such mark.
// Otherwise a message that was reported late would appear as unread, although its user had marked all messages of that time read.
func markLateRowsRead(ctx context.Context, tx *sql.Tx, id ID, kind string, fresh [][]any) error {
	users := services.Map(fresh, func(row []any) services.UserID { return row[0].(services.UserID) })
	var read sql.RowsParameter
	err := tx.Each(ctx, readToOf, []any{users, kind, id}, func(scan func(...any) error) error {
		var user services.UserID
		var upTo services.SortableID
		var marks string
		err := scan(&user, &upTo, &marks)
		// If no kept mark covers the message, the time of the position up to which the user has read is used instead.
		read = append(read, []any{user, firstMarkTime(marks, id, upTo.OrderedTime().UnixMicro())})
		return err
	})
	// Most users have no such mark.
	if err != nil || len(read) == 0 {
		return err
	}
	_, err = tx.Run(ctx, markLateDeliveredRead, id, read)
	return err
}

// markTimeSuffix is the end of an entry in the column marks: the time of the mark. The statement puts the last ID that the mark covers
// before it.
func markTimeSuffix(at int64) string { return "@" + strconv.FormatInt(at, 10) + " " }

// firstMarkTime returns the time, in microseconds, of the first mark that covers a message, among a user's last marks. If none covers
// it, the result is otherwise. The last mark of the text may be cut off: it is whole only if it ends with a space.
func firstMarkTime(marks string, id ID, otherwise int64) int64 {
	first := int64(0)
	for mark := range strings.SplitAfterSeq(marks, " ") {
		upToText, moment, _ := strings.Cut(mark, "@")
		moment, whole := strings.CutSuffix(moment, " ")
		upTo, _ := strconv.ParseUint(upToText, 10, 64)
		at, err := strconv.ParseInt(moment, 10, 64)
		if whole && err == nil && ID(upTo) >= id && (first == 0 || at < first) {
			first = at
		}
	}
	return cmp.Or(first, otherwise)
}

// raiseStateVersions raises the versions of states, given by user and type. The caller has locked their rows, so no other transaction
// takes these versions.
func raiseStateVersions(ctx context.Context, tx *sql.Tx, changed sql.RowsParameter) error {
	if len(changed) == 0 {
		return nil
	}
	_, err := tx.Run(ctx, raiseVersions, changed)
	return err
}

// markRead marks a user's messages read and returns the states of the types concerned, changed or not. The error is NOT_FOUND for
// a message that was not sent to the user, also if that message is UpTo.
func markRead(ctx context.Context, tx *sql.Tx, user services.UserID, chosen messageSelection) ([]unreadState, error) {
	// A mark by IDs locks the types of these messages, and is not kept for later deliveries.
	if len(chosen.IDs) > 0 {
		return updateStatesByID(ctx, tx, user, chosen.IDs, markReadByID, tx.EventTime(), int64(chosen.Generation))
	}
	types := sql.ColumnParameter(chosen.Types)
	// The mark covers all present messages, unless UpTo or a past moment says where it ends.
	mark := markTimeSuffix(tx.EventTime().UnixMicro())
	upTo, keep, args := MaxID, raiseReadToNewest, []any{user, types, chosen.Types, mark}
	if reach := cmp.Or(chosen.UpTo, ID(tx.EventMoment())); reach != 0 {
		upTo, keep, args = reach, raiseReadTo, []any{user, types, reach, mark}
	}
	// UpTo has to be one of the user's messages: otherwise the answer would reveal whether a message of others exists.
	if chosen.UpTo != 0 {
		if _, err := typesOfOwnMessages(ctx, tx, user, []ID{upTo}, chosen.Types...); err != nil {
			return nil, err
		}
	}
	// Storing the mark locks the user's states of the types as well.
	which, err := lockUserTypes(ctx, tx, user, keep, args...)
	if err != nil {
		return nil, err
	}
	return updateStates(ctx, tx, which, markReadByType, user, chosen.Types, upTo, tx.EventTime(), int64(chosen.Generation))
}

// markUnread marks a user's messages unread again and returns the states of their types, changed or not. The error is NOT_FOUND
// for a message that the user does not have.
func markUnread(ctx context.Context, tx *sql.Tx, user services.UserID, ids []ID) ([]unreadState, error) {
	var gen int64
	// Marks as unread lock the row of generations first. Marks as read do not touch that row.
	if _, err := tx.One(ctx, nextGeneration, []any{user}, &gen); err != nil {
		return nil, err
	}
	states, err := updateStatesByID(ctx, tx, user, ids, markUnreadByID, gen) // it locks the types first, as every mark does
	if err != nil {
		return nil, err
	}
	// A message that was unread already gets the new generation too, so that marks of older lists leave it unread. The count does
	// not change.
	_, err = tx.Run(ctx, keepUnread, user, sql.Numbers(ids), gen)
	return states, err
}

// updateStatesByID runs an update of some of a user's messages, whose first parameters are the user and the ids, and returns the states
// of the messages' types. It locks these types first. If the user does not have one of the messages, it fails before anything is
// changed.
func updateStatesByID(ctx context.Context, tx *sql.Tx, user services.UserID, ids []ID, st sql.Statement, more ...any) ([]unreadState, error) {
	types, err := typesOfOwnMessages(ctx, tx, user, ids)
	if err != nil {
		return nil, err
	}
	which, err := lockUserTypes(ctx, tx, user, lockTypes, user, types)
	if err != nil {
		return nil, err
	}
	return updateStates(ctx, tx, which, st, append([]any{user, sql.Numbers(ids)}, more...)...)
}

// lockUserTypes runs a statement that locks a user's states of some types and returns the types. The result has a row of the user and
// each type, in order. A user without a state of a type has no message of that type, so there is nothing to lock and nothing to mark.
func lockUserTypes(ctx context.Context, tx *sql.Tx, user services.UserID, st sql.Statement, args ...any) (sql.RowsParameter, error) {
	return sql.ReadRows(ctx, tx, st, args, func(scan sql.Scan, row *[]any) error {
		var kind string
		err := scan(&kind)
		*row = []any{user, kind}
		return err
	})
}

// updateStates runs an update of a user's rows that returns their types. The caller has locked all types that it may touch: the
// rows of locked are the user and each of these types. The result has the states of all of them, changed or not: if an earlier mark
// was not projected, its repetition projects the states.
func updateStates(ctx context.Context, tx *sql.Tx, locked sql.RowsParameter, st sql.Statement, args ...any) ([]unreadState, error) {
	if len(locked) == 0 {
		return nil, nil
	}
	changed, err := sql.ReadSet[string](ctx, tx, st, args...)
	if err != nil {
		return nil, err
	}
	var raised sql.RowsParameter
	for _, one := range locked {
		// A type of which no row changed keeps its version: a newer version with the same count would wake devices for nothing.
		if changed[one[1].(string)] {
			raised = append(raised, one)
		}
	}
	if err := raiseStateVersions(ctx, tx, raised); err != nil {
		return nil, err
	}
	return readStates(ctx, tx.Runner, statesOf, locked)
}
