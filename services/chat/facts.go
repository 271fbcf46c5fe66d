package chat

import (
	"context"
	"fmt"

	"tidings/services"
	"tidings/services/sql"
)

const (
	// conversationColumns are the columns of a conversation, in the order of scanConversation. The last is MessagesPerMinute: the greater
	// of the messages of this minute and of the last one, because at the start of a minute the new count is always small.
	conversationColumns = `id, kind, title, creator, head, last_at, members, way, way_ver, revision,
	CASE WHEN in_minute > in_before THEN in_minute ELSE in_before END`

	// membershipColumns are the columns of a conversation cv and a member's row m, in the order of scanMembership. One statement reads
	// both, so that they are of one snapshot. In services.Membership, base is ReadUpTo, k is UnreadAdjustment, mv is Version, and gen is
	// MarkUnreadGeneration.
	membershipColumns = `m.conversation, m.user_number, cv.head, m.base, m.k, m.mv, m.mentions, m.gen,
	CASE WHEN m.left_at > 0 THEN 1 ELSE 0 END, m.muted, m.inside, m.marked, CASE WHEN cv.way = 'WRITE' THEN 0 ELSE 1 END, cv.way_ver`
)

var (
	roomsAmong = sql.NewStatement("rooms among conversations", `SELECT id FROM conversations WHERE {in id $1 BIGINT} AND kind = $2`)

	// insert holds the lock of the counter of conversation IDs, so no ID conflicts, except one that a batch has guessed: see package
	// sql.
	insertConversation = sql.NewStatement("insert a conversation", `INSERT INTO conversations
		(id, kind, pair, title, creator, head, last_at, members, way, way_ver, minute, in_minute, in_before)
		VALUES ($1, $2, $3, $4, $5, 0, $6, 0, 'WRITE', 0, 0, 0, 0) ON CONFLICT DO NOTHING`)

	// pair is unique. It is null unless the conversation is DIRECT, and becomes null when one of its users is erased.
	conversationByPair = sql.NewStatement("a direct conversation", `SELECT id FROM conversations WHERE pair = $1`)

	lockConversation = sql.NewStatement("lock a conversation", `SELECT `+conversationColumns+` FROM conversations WHERE id = $1 {for update}`)

	// When a former member comes back, the row's version and generation rise further, so that the new row is newer than any copy
	// of the old one.
	addMembers = sql.NewStatement("add members", `
INSERT INTO conversation_members AS m (conversation, user_number, base, k, mv, gen, mentions, muted, inside, joined_at, left_at)
SELECT DISTINCT CAST($2 AS BIGINT), user_number, CAST($3 AS BIGINT), 0, 1, 0, 0, FALSE, FALSE, CAST($4 AS BIGINT), 0
FROM {rows $1 user_number BIGINT} AS c WHERE TRUE ORDER BY user_number
ON CONFLICT (conversation, user_number) DO UPDATE SET base = excluded.base, k = 0, mv = m.mv + 1, gen = m.gen + 1, mentions = 0,
	muted = FALSE, inside = FALSE, marked = FALSE, joined_at = excluded.joined_at, left_at = 0
WHERE m.left_at > 0 RETURNING user_number`)

	// base, k and mentions do not change: a member who left counts by left_at alone, and joining again sets them.
	markMembersLeft = sql.NewStatement("take members out", `UPDATE conversation_members SET left_at = $3, mv = mv + 1, inside = FALSE
		WHERE conversation = $1 AND {in user_number $2 BIGINT} AND left_at = 0 RETURNING user_number`)

	dropLeases = sql.NewStatement("end the leases of members", `DELETE FROM conversation_leases WHERE conversation = $1 AND {in user_number $2 BIGINT}`)

	isDirect = sql.NewStatement("whether a conversation is direct", `SELECT kind = 'DIRECT' FROM conversations WHERE id = $1`)

	// The revision rises, so that watchers of the conversation read the new members.
	changeMemberCount = sql.NewStatement("count members", `UPDATE conversations SET members = members + $2, revision = revision + 1 WHERE id = $1`)

	// The version refuses a pass that began before another change of the way of counting.
	setCountingWay = sql.NewStatement("set a counting way", `UPDATE conversations SET way = $3, way_ver = way_ver + 1 WHERE id = $1 AND way = $2 AND way_ver = $4`)

	lockMember = sql.NewStatement("lock a member", `SELECT left_at FROM conversation_members WHERE conversation = $1 AND user_number = $2 {for update}`)

	// lockedMembership reads a row that lockMember has locked, and its conversation, as they are now.
	lockedMembership = sql.NewStatement("a locked member", `SELECT `+membershipColumns+`
		FROM conversations cv CROSS JOIN conversation_members m WHERE cv.id = $1 AND m.conversation = $1 AND m.user_number = $2`)
)

// conversationDraft is a conversation to create. Members may include the creator.
type conversationDraft struct {
	Kind    Kind
	Title   string
	Creator services.UserID
	Members []services.UserID
}

// insert creates a conversation with its members, who all have read everything. Two users have one DIRECT conversation:
// created is false if it exists already, perhaps closed by a block.
func insert(ctx context.Context, tx *sql.Tx, wanted conversationDraft) (id services.ConversationID, created bool, err error) {
	// The lock of the counter of conversation IDs also serializes two creations of the same pair.
	if err := tx.LockCounter(ctx, "conversations"); err != nil {
		return 0, false, err
	}
	var pair any
	if wanted.Kind == Direct {
		name := pairName(wanted.Members[0], wanted.Members[1])
		found, err := tx.One(ctx, conversationByPair, []any{name}, &id)
		if err != nil || found {
			return id, false, err
		}
		pair = name
	}
	// IDs are dense numbers from a counter, so that projections can pack them.
	last, err := tx.RaiseCounter(ctx, "conversations", 1)
	if err != nil {
		return 0, false, err
	}
	id = services.ConversationID(last)
	if _, err := tx.Run(ctx, insertConversation, id, wanted.Kind, pair, wanted.Title, wanted.Creator, tx.EventTime()); err != nil {
		return 0, false, err
	}
	_, err = insertMembers(ctx, tx, Conversation{ID: id}, wanted.Members)
	return id, true, err
}

// pairName is the unique key of the DIRECT conversation of two users.
func pairName(a, b services.UserID) string { return fmt.Sprintf("%d/%d", min(a, b), max(a, b)) }

// closeDirect removes both users from their DIRECT conversation, if there is one, and returns the users who were members.
// Creating it again reopens it. The rows of both stay, with their positions.
func closeDirect(ctx context.Context, tx *sql.Tx, a, b services.UserID) (id services.ConversationID, left []services.UserID, err error) {
	found, err := tx.One(ctx, conversationByPair, []any{pairName(a, b)}, &id)
	if err != nil || !found {
		return 0, nil, err
	}
	if _, err := lock(ctx, tx, id); err != nil {
		return 0, nil, err
	}
	left, err = removeMembers(ctx, tx, id, []services.UserID{a, b})
	return id, left, err
}

// lock reads a conversation and locks it until this transaction ends. NOT_FOUND if there is none.
func lock(ctx context.Context, tx *sql.Tx, id services.ConversationID) (conversation Conversation, err error) {
	found := false
	err = tx.Each(ctx, lockConversation, []any{id}, func(scan func(...any) error) error {
		found = true
		conversation, err = scanConversation(scan)
		return err
	})
	if err == nil && !found {
		err = conversationNotFound(id)
	}
	return conversation, err
}

// conversationNotFound is the error for a conversation that does not exist and for one that the viewer is not a member of. The
// texts are equal, so that a viewer cannot distinguish the two.
func conversationNotFound(id services.ConversationID) error {
	return services.Errorf(services.NotFound, "conversationId: there is no %s for you", id.GlobalID())
}

// scanConversation reads the columns of conversationColumns, and then more.
func scanConversation(scan func(...any) error, more ...any) (c Conversation, err error) {
	var last int64
	err = scan(append([]any{&c.ID, &c.Kind, &c.Title, &c.Creator, &c.NewestNumber, &last, &c.Members, &c.Way, &c.WayVersion, &c.Revision, &c.MessagesPerMinute}, more...)...)
	c.LastActiveAt = sql.FromMicros(last)
	return c, err
}

// insertMembers adds users to a locked conversation and returns the users who were not members before. New members have read all
// existing messages.
func insertMembers(ctx context.Context, tx *sql.Tx, c Conversation, users []services.UserID) (added []services.UserID, err error) {
	list := sql.ColumnParameter(users)
	if c.NewestNumber > 0 { // new members have read everything
		if err := checkEventOrder(tx, c, c.LastActiveAt); err != nil {
			return nil, err
		}
	}
	added, err = sql.ReadColumn[services.UserID](ctx, tx, addMembers, list, c.ID, c.NewestNumber, tx.EventTime())
	if err != nil || len(added) == 0 {
		return nil, err
	}
	_, err = tx.Run(ctx, changeMemberCount, c.ID, len(added))
	return added, err
}

// removeMembers removes users from a locked conversation and returns the users who were members. Their rows stay, marked as left.
func removeMembers(ctx context.Context, tx *sql.Tx, id services.ConversationID, users []services.UserID) (left []services.UserID, err error) {
	left, err = sql.ReadColumn[services.UserID](ctx, tx, markMembersLeft, id, users, tx.Now)
	if err != nil || len(left) == 0 {
		return nil, err
	}
	if _, err := tx.Run(ctx, dropLeases, id, left); err != nil {
		return nil, err
	}
	_, err = tx.Run(ctx, changeMemberCount, id, -len(left))
	return left, err
}

// changeCountingWay changes how a conversation counts unread messages. It returns false if the way has changed since c was read:
// then the job of that other change writes the new way to the members.
func changeCountingWay(ctx context.Context, tx *sql.Tx, c Conversation, way CountingWay) (bool, error) {
	changed, err := tx.Run(ctx, setCountingWay, c.ID, c.Way, way, c.WayVersion)
	return changed > 0, err
}

// lockState reads a user's own state in a conversation and locks it until this transaction ends. NOT_FOUND for a user who
// never was a member, CONFLICT for one who has left.
func lockState(ctx context.Context, tx *sql.Tx, id services.ConversationID, user services.UserID) (m services.Membership, err error) {
	// The row is locked by a statement that reads one column; its values are read below.
	var left int64
	found, err := tx.One(ctx, lockMember, []any{id, user}, &left)
	if err == nil && !found {
		err = conversationNotFound(id)
	}
	if err != nil {
		return m, err
	}
	// After a wait for the lock, the first statement has the new row but an old last sequence. The second statement reads the present
	// values of both.
	err = tx.Each(ctx, lockedMembership, []any{id, user}, func(scan sql.Scan) error { return scanMembership(scan, &m) })
	if err == nil && m.HasLeft {
		err = hasLeftError(ctx, tx, id)
	}
	return m, err
}

// hasLeftError is the error for a user who has left a conversation. A DIRECT conversation cannot be left: a block closes it for both
// users, and neither may learn of the block.
func hasLeftError(ctx context.Context, tx *sql.Tx, id services.ConversationID) error {
	var direct bool
	if _, err := tx.One(ctx, isDirect, []any{id}, &direct); err != nil {
		return err
	}
	if direct {
		return conversationNotFound(id)
	}
	return services.Errorf(services.Conflict, "conversationId: you have left %s", id.GlobalID())
}

// scanMembership reads the columns of membershipColumns.
func scanMembership(scan sql.Scan, m *services.Membership) error {
	return scan(&m.Conversation, &m.User, &m.NewestMessageNumber, &m.ReadUpTo, &m.UnreadAdjustment, &m.Version, &m.Mentions, &m.MarkUnreadGeneration, &m.HasLeft, &m.Muted, &m.IsOpen,
		&m.MarkedUnread, &m.CountedOnRead, &m.CountedOnReadVersion)
}
