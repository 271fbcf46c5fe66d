package chat

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"tidings/services"
	"tidings/services/sql"
)

// membershipsPageSQL is the end of a statement that selects a page of at most $3 memberships of a user after a conversation, without
// conversations that the user left at $2 or before.
func membershipsPageSQL(user, past string) string {
	return `
		FROM conversation_members m CROSS JOIN conversations cv
		WHERE m.user_number = ` + user + ` AND m.conversation > ` + past + ` AND cv.id = m.conversation AND (m.left_at = 0 OR m.left_at > $2)
		ORDER BY m.conversation LIMIT $3`
}

// conversationsPageSQL is a statement that selects a page of at most $4 conversations of a member, the last active first, before a
// time and an ID. condition chooses among the conversations.
func conversationsPageSQL(condition string) string {
	return `SELECT ` + conversationColumns + `, ` + membershipColumns + `
		FROM conversation_members m CROSS JOIN conversations cv
		WHERE m.user_number = $1 AND cv.id = m.conversation AND m.left_at = 0 AND (cv.last_at < $2 OR cv.last_at = $2 AND cv.id < $3)` + condition + `
		ORDER BY cv.last_at DESC, cv.id DESC LIMIT $4`
}

// membershipColumnsAsText is membershipColumns as one text, from which fmt.Sscan reads them.
var membershipColumnsAsText = `CAST(` + strings.ReplaceAll(membershipColumns, `,`, ` AS TEXT) || ' ' || CAST(`) + ` AS TEXT)`

var (
	membershipsOf = sql.NewStatement("memberships in a conversation", `SELECT `+membershipColumns+`
		FROM conversations cv CROSS JOIN conversation_members m
		WHERE cv.id = $1 AND m.conversation = $1 AND {in m.user_number $2 BIGINT}`)

	// The last sequence and the rows are of one snapshot, so a document never gets a sequence without the row that belongs to it. Members who left are
	// included, because their documents must show that they left. Active here are all who are not dormant: see
	// Projector.DormantBefore.
	activeMemberships = sql.NewStatement("memberships of the active", `SELECT `+membershipColumns+`
		FROM conversations cv CROSS JOIN conversation_members m JOIN users u ON u.number = m.user_number
		WHERE cv.id = $1 AND m.conversation = $1 AND m.user_number > $2 AND u.seen_at >= $3
		ORDER BY m.user_number LIMIT $4`)

	// These are the dormant members. $4 leaves out members who left long ago: their badges changed then.
	dormantMembers = sql.NewStatement("members who are not active", `SELECT m.user_number
		FROM conversation_members m JOIN users u ON u.number = m.user_number
		WHERE m.conversation = $1 AND m.user_number > $2 AND (m.left_at = 0 OR m.left_at > $4) AND u.seen_at < $3
		ORDER BY m.user_number LIMIT $5`)

	membershipsOfUser = sql.NewStatement("memberships of a user", `SELECT `+membershipColumns+membershipsPageSQL("$1", "$4"))

	// One row is returned for each page, with the page's states as a text, so that the LIMIT applies to each page. Each page is read
	// like a page of membershipsOfUser.
	membershipsOfUsers = sql.NewStatement("memberships of users", `SELECT c.i, (
		SELECT string_agg(page.state, ';') FROM (SELECT `+membershipColumnsAsText+` AS state`+membershipsPageSQL("c.user_number", "c.past")+`) AS page)
		FROM {rows $1 i BIGINT, user_number BIGINT, past BIGINT} AS c`)

	lastSequencesOf = sql.NewStatement("last sequences of conversations", `SELECT id, head, last_at, way, revision FROM conversations WHERE {in id $1 BIGINT}`)

	// The list is sorted by the last activity of each conversation, so all of the user's memberships are read.
	conversationsOf = sql.NewStatement("conversations of a user", conversationsPageSQL(""))

	// The conditions are those of services.Membership.Unread and UnreadMentions.
	unreadConversationsOf = sql.NewStatement("unread conversations of a user", conversationsPageSQL(`
			AND NOT m.inside AND (m.mentions > 0 OR NOT m.muted AND cv.head - m.base + m.k > 0)`))

	conversationsByID = sql.NewStatement("conversations by id", `SELECT `+conversationColumns+`, `+membershipColumns+`
		FROM conversations cv CROSS JOIN conversation_members m
		WHERE {in cv.id $2 BIGINT} AND m.conversation = cv.id AND m.user_number = $1 AND m.left_at = 0`)

	// One row is returned for each page, with its members as a text, so that the LIMIT applies to each page and not to all rows.
	membersOf = sql.NewStatement("members of conversations", `SELECT c.i, (
		SELECT string_agg(CAST(page.user_number AS TEXT), ',') FROM (
			SELECT m.user_number FROM conversation_members m
			WHERE m.conversation = c.conversation AND m.user_number > c.past AND m.left_at = 0 ORDER BY m.user_number LIMIT $2
		) AS page)
		FROM {rows $1 i BIGINT, conversation BIGINT, past BIGINT} AS c`)

	// The messages are given as ranges of numbers without gaps: see messageRows.
	messagesInRanges = sql.NewStatement("messages by id", `SELECT m.conversation, m.number, m.author, m.body, m.sent_at, m.recalled_at
		FROM {rows $1 conversation BIGINT, low BIGINT, high BIGINT} AS c CROSS JOIN conversation_messages m
		WHERE m.conversation = c.conversation AND m.number BETWEEN c.low AND c.high`)

	// As in messagesInRanges, the messages are given as ranges of numbers without gaps.
	mentionsOf = sql.NewStatement("mentions of messages", `SELECT m.conversation, m.number, m.user_number
		FROM {rows $1 conversation BIGINT, low BIGINT, high BIGINT} AS c CROSS JOIN conversation_mentions m
		WHERE m.conversation = c.conversation AND m.number BETWEEN c.low AND c.high ORDER BY m.conversation, m.number, m.user_number`)
)

// LastSequence is a conversation's last message and its revision. A node uses it to count unread messages in a
// conversation that is counted on read, and to notify the conversation's watchers.
type LastSequence struct {
	Conversation services.ConversationID
	NewestNumber int64       // of the last message
	SentAt       time.Time   // of the last message
	Way          CountingWay // how unread messages are counted
	Revision     int64       // rises with every visible change other than a new message
}

// membershipsIn reads the states of some users in one conversation, in one snapshot. A user who never was a member is absent. A
// user who has left is included.
func membershipsIn(ctx context.Context, db *sql.DB, id services.ConversationID, users []services.UserID) ([]services.Membership, error) {
	return readMemberships(ctx, db, membershipsOf, id, users)
}

// activeMembershipsIn reads at most limit states in a conversation, of members who were last seen at activeSince or later and
// have user IDs greater than after, in the order of user ID. Members who have left are included.
func activeMembershipsIn(ctx context.Context, db *sql.DB, id services.ConversationID, after services.UserID, activeSince time.Time, limit int) ([]services.Membership, error) {
	return readMemberships(ctx, db, activeMemberships, id, after, activeSince, limit)
}

// MembershipsOf reads at most limit states of a user, in conversations greater than after and in their order: current ones, and
// the states of conversations that the user left since a time.
func MembershipsOf(ctx context.Context, db *sql.DB, user services.UserID, after services.ConversationID, leftSince time.Time, limit int) ([]services.Membership, error) {
	return readMemberships(ctx, db, membershipsOfUser, user, leftSince, limit, after)
}

// userMembershipsPageRequest is a page of a user's memberships, in the conversations with IDs greater than after.
type userMembershipsPageRequest struct {
	user  services.UserID
	after services.ConversationID
}

// membershipsOfEach reads a page of the memberships of each of several users, at most limit states in each: current ones, and those
// of conversations that the user left since a time. The result is in the order of pages.
func membershipsOfEach(ctx context.Context, db *sql.DB, pages []userMembershipsPageRequest, leftSince time.Time, limit int) ([][]services.Membership, error) {
	asked, found := make(sql.RowsParameter, len(pages)), make([][]services.Membership, len(pages))
	// MembershipsOf takes half the time for one user, and most reads are of one user.
	if len(pages) == 1 {
		var err error
		found[0], err = MembershipsOf(ctx, db, pages[0].user, pages[0].after, leftSince, limit)
		return found, err
	}
	for i, page := range pages {
		asked[i] = []any{i, int64(page.user), int64(page.after)}
	}
	return found, db.Each(ctx, membershipsOfUsers, []any{asked, leftSince, limit}, func(scan func(...any) error) error {
		var i int
		var joined sql.NullString
		// There is no further membership: string_agg of no row is null.
		if err := scan(&i, &joined); err != nil || !joined.Valid {
			return err
		}
		for text := range strings.SplitSeq(joined.String, ";") {
			var state services.Membership
			err := scanMembership(func(into ...any) error {
				_, err := fmt.Sscan(text, into...)
				return err
			}, &state)
			if err != nil {
				return err
			}
			found[i] = append(found[i], state)
		}
		// The engines guarantee no order of a join.
		slices.SortFunc(found[i], func(a, b services.Membership) int { return cmp.Compare(a.Conversation, b.Conversation) })
		return nil
	})
}

// readMemberships runs a statement that selects membershipColumns.
func readMemberships(ctx context.Context, db *sql.DB, st sql.Statement, args ...any) ([]services.Membership, error) {
	return sql.ReadRows(ctx, db, st, args, scanMembership)
}

// SequencesOf reads the last sequences of conversations. An unknown conversation is absent.
func SequencesOf(ctx context.Context, db *sql.DB, ids []services.ConversationID) ([]LastSequence, error) {
	return sql.ReadRows(ctx, db, lastSequencesOf, []any{sql.Numbers(ids)}, func(scan sql.Scan, last *LastSequence) error {
		var at int64
		err := scan(&last.Conversation, &last.NewestNumber, &at, &last.Way, &last.Revision)
		last.SentAt = sql.FromMicros(at)
		return err
	})
}

// statesOf lists at most limit conversations of a member, the last active first. It begins after a position: the time and the ID
// of the last conversation that was listed.
func statesOf(ctx context.Context, db *sql.DB, user services.UserID, before time.Time, id services.ConversationID, limit int) ([]MemberState, error) {
	return readStates(ctx, db, conversationsOf, user, before, id, limit)
}

// unreadStatesOf is statesOf without the conversations that have nothing unread. Messages that are too old to count are unread here.
func unreadStatesOf(ctx context.Context, db *sql.DB, user services.UserID, before time.Time, id services.ConversationID, limit int) ([]MemberState, error) {
	return readStates(ctx, db, unreadConversationsOf, user, before, id, limit)
}

// statesByID reads conversations by ID, for a user. Conversations that the user is not a member of are absent.
func statesByID(ctx context.Context, db *sql.DB, user services.UserID, ids []services.ConversationID) ([]MemberState, error) {
	return readStates(ctx, db, conversationsByID, user, sql.Numbers(ids))
}

// readStates runs a statement that selects a conversation and one member's row of it, together.
func readStates(ctx context.Context, db *sql.DB, st sql.Statement, args ...any) ([]MemberState, error) {
	return sql.ReadRows(ctx, db, st, args, func(scan sql.Scan, state *MemberState) (err error) {
		m := &state.Membership
		state.Conversation, err = scanConversation(scan, &m.Conversation, &m.User, &m.NewestMessageNumber, &m.ReadUpTo, &m.UnreadAdjustment, &m.Version, &m.Mentions,
			&m.MarkUnreadGeneration, &m.HasLeft, &m.Muted, &m.IsOpen, &m.MarkedUnread, &m.CountedOnRead, &m.CountedOnReadVersion)
		return err
	})
}

// readMembers lists pages of members, all by one query.
func readMembers(ctx context.Context, db *sql.DB, pages []MembersPage) (map[MembersPage][]services.UserID, error) {
	asked, longest := make(sql.RowsParameter, len(pages)), 0
	for i, page := range pages {
		asked[i] = []any{i, int64(page.Conversation), int64(page.After)}
		// All pages of the statement have one limit; each is cut to its own size below.
		longest = max(longest, page.Size)
	}
	found := make(map[MembersPage][]services.UserID, len(pages))
	err := db.Each(ctx, membersOf, []any{asked, longest}, func(scan func(...any) error) error {
		var i int
		var joined sql.NullString
		// There is no member after that position: string_agg of no row is null.
		if err := scan(&i, &joined); err != nil || !joined.Valid {
			return err
		}
		var users []services.UserID
		for text := range strings.SplitSeq(joined.String, ",") {
			id, err := strconv.ParseUint(text, 10, 32)
			if err != nil {
				return err
			}
			users = append(users, services.UserID(id))
		}
		slices.Sort(users) // the engines guarantee no order of a join
		found[pages[i]] = users[:min(pages[i].Size, len(users))]
		return nil
	})
	return found, err
}

// messagesByID reads messages by ID. An unknown message is absent.
func messagesByID(ctx context.Context, db *sql.DB, ids []services.MessageID) (map[services.MessageID]Message, error) {
	list, err := readMessages(ctx, db, messagesInRanges, messageRows(ids))
	return services.KeyBy(list, func(message Message) services.MessageID { return message.ID }), err
}

// mentionedIn reads the users that messages mention, if they are or were members.
func mentionedIn(ctx context.Context, db *sql.DB, ids []services.MessageID) (map[services.MessageID][]services.UserID, error) {
	found := map[services.MessageID][]services.UserID{}
	err := db.Each(ctx, mentionsOf, []any{messageRows(ids)}, func(scan func(...any) error) error {
		var conversation services.ConversationID
		var number int64
		var user services.UserID
		err := scan(&conversation, &number, &user)
		id := services.NewMessageID(conversation, number)
		found[id] = append(found[id], user)
		return err
	})
	return found, err
}

// messageRows turns the ids of messages into rows of a conversation and the least and greatest number of a range without gaps. A page
// of one conversation is one range.
func messageRows(ids []services.MessageID) (ranges sql.RowsParameter) {
	ids = slices.Clone(ids)
	slices.Sort(ids)
	for i, id := range ids {
		// The IDs are sorted, so this is the last ID again, or its neighbour in the same conversation.
		if i > 0 && id <= ids[i-1]+1 && id.Conversation() == ids[i-1].Conversation() {
			ranges[len(ranges)-1][2] = id.Number()
			continue
		}
		ranges = append(ranges, []any{int64(id.Conversation()), id.Number(), id.Number()})
	}
	return ranges
}

// readMessages runs a statement that selects messages. A recalled message comes without its text, which SQL has deleted.
func readMessages(ctx context.Context, db *sql.DB, st sql.Statement, args ...any) ([]Message, error) {
	return sql.ReadRows(ctx, db, st, args, func(scan sql.Scan, message *Message) error {
		var conversation services.ConversationID
		var number, sent, recalled int64
		err := scan(&conversation, &number, &message.Author, &message.Body, &sent, &recalled)
		message.ID, message.SentAt, message.Recalled = services.NewMessageID(conversation, number), sql.FromMicros(sent), recalled > 0
		return err
	})
}
