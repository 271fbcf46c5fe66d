package store

import (
	"context"
	"time"

	"tidings/services"
)

var (
	membershipsOf = newStatement("memberships in a conversation", `SELECT `+membershipColumns+`
		FROM conversations cv CROSS JOIN conversation_members m
		WHERE cv.id = $1 AND m.conversation = $1 AND {in m.user_number $2 BIGINT}`)

	activeMemberships = newStatement("memberships of the active", `SELECT `+membershipColumns+`
		FROM conversations cv CROSS JOIN conversation_members m JOIN users u ON u.number = m.user_number
		WHERE cv.id = $1 AND m.conversation = $1 AND m.user_number > $2 AND u.seen_at >= $3
		ORDER BY m.user_number LIMIT $4`)

	membershipsOfUser = newStatement("memberships of a user", `SELECT `+membershipColumns+`
		FROM conversation_members m CROSS JOIN conversations cv
		WHERE m.user_number = $1 AND m.conversation > $2 AND cv.id = m.conversation AND (m.left_at = 0 OR m.left_at > $3)
		ORDER BY m.conversation LIMIT $4`)

	headsOf = newStatement("heads of conversations", `SELECT id, head, last_at, way, revision FROM conversations WHERE {in id $1 BIGINT}`)

	conversationsOf = newStatement("conversations of a user", `SELECT `+conversationColumns+`, `+membershipColumns+`
		FROM conversation_members m CROSS JOIN conversations cv
		WHERE m.user_number = $1 AND cv.id = m.conversation AND m.left_at = 0 AND (cv.last_at < $2 OR cv.last_at = $2 AND cv.id < $3)
		ORDER BY cv.last_at DESC, cv.id DESC LIMIT $4`)

	conversationsByID = newStatement("conversations by id", `SELECT `+conversationColumns+`, `+membershipColumns+`
		FROM conversations cv CROSS JOIN conversation_members m
		WHERE {in cv.id $2 BIGINT} AND m.conversation = cv.id AND m.user_number = $1 AND m.left_at = 0`)

	membersOf = newStatement("members of a conversation", `SELECT user_number FROM conversation_members
		WHERE conversation = $1 AND user_number > $2 AND left_at = 0 ORDER BY user_number LIMIT $3`)

	messagesBefore = newStatement("messages of a conversation", `SELECT conversation, number, author, body, sent_at, recalled_at
		FROM conversation_messages WHERE conversation = $1 AND number < $2 ORDER BY number DESC LIMIT $3`)

	conversationMessagesByID = newStatement("messages by id", `SELECT m.conversation, m.number, m.author, m.body, m.sent_at, m.recalled_at
		FROM {rows $1 conversation BIGINT, number BIGINT} AS c CROSS JOIN conversation_messages m
		WHERE m.conversation = c.conversation AND m.number = c.number`)

	mentionsOf = newStatement("mentions of messages", `SELECT m.conversation, m.number, m.user_number
		FROM {rows $1 conversation BIGINT, number BIGINT} AS c CROSS JOIN conversation_mentions m
		WHERE m.conversation = c.conversation AND m.number = c.number ORDER BY m.conversation, m.number, m.user_number`)
)

// Head is how far a conversation has come.
type Head struct {
	Conversation services.ConversationID
	Number       int64
	At           time.Time // of the newest message
	Way          services.CountingWay
	Revision     int64 // of what its messages and members show
}

// Memberships reads the states of some users in one conversation, of one moment. Who never was a member is absent; who
// has left is not.
func (s *Store) Memberships(ctx context.Context, id services.ConversationID, users []services.UserNumber) ([]services.Membership, error) {
	return s.memberships(ctx, membershipsOf, id, users)
}

// ActiveMemberships reads the states of those in a conversation who were seen at activeSince or later, by their
// numbers, those greater than after, at most limit; those who have left too.
func (s *Store) ActiveMemberships(ctx context.Context, id services.ConversationID, after services.UserNumber, activeSince time.Time, limit int) ([]services.Membership, error) {
	return s.memberships(ctx, activeMemberships, id, after, activeSince, limit)
}

// MembershipsOf reads a user's states by conversation, those greater than after, at most limit: those that stand, and
// those left since a moment.
func (s *Store) MembershipsOf(ctx context.Context, user services.UserNumber, after services.ConversationID, leftSince time.Time, limit int) ([]services.Membership, error) {
	return s.memberships(ctx, membershipsOfUser, user, after, leftSince, limit)
}

func (s *Store) memberships(ctx context.Context, st statement, args ...any) (list []services.Membership, err error) {
	err = s.each(ctx, st, args, func(scan func(...any) error) error {
		m, err := scanMembership(scan)
		list = append(list, m)
		return err
	})
	return list, err
}

// Heads reads how far conversations have come. One that is not there is absent.
func (s *Store) Heads(ctx context.Context, ids []services.ConversationID) (heads []Head, err error) {
	err = s.each(ctx, headsOf, []any{ids}, func(scan func(...any) error) error {
		var head Head
		var at int64
		err := scan(&head.Conversation, &head.Number, &at, &head.Way, &head.Revision)
		head.At = fromMicros(at)
		heads = append(heads, head)
		return err
	})
	return heads, err
}

// ConversationsOf lists the conversations that a user is a member of, the last active first: those after a place, which
// is the time and the id of the last one listed, at most limit.
func (s *Store) ConversationsOf(ctx context.Context, user services.UserNumber, before time.Time, id services.ConversationID, limit int) ([]services.ConversationState, error) {
	return s.conversationStates(ctx, conversationsOf, user, before, id, limit)
}

// Conversations reads conversations by their ids, for a user: those that he is no member of are absent.
func (s *Store) Conversations(ctx context.Context, user services.UserNumber, ids []services.ConversationID) ([]services.ConversationState, error) {
	return s.conversationStates(ctx, conversationsByID, user, ids)
}

func (s *Store) conversationStates(ctx context.Context, st statement, args ...any) (list []services.ConversationState, err error) {
	err = s.each(ctx, st, args, func(scan func(...any) error) error {
		var state services.ConversationState
		m := &state.Own
		state.Conversation, err = scanConversation(scan, &m.Conversation, &m.User, &m.Head, &m.Base, &m.K, &m.Version, &m.Mentions,
			&m.Gen, &m.Left, &m.Muted, &m.Inside, &m.ReadSide, &m.WayVersion)
		list = append(list, state)
		return err
	})
	return list, err
}

// MembersOf lists the members of a conversation by their numbers, those greater than after, at most limit.
func (s *Store) MembersOf(ctx context.Context, id services.ConversationID, after services.UserNumber, limit int) (users []services.UserNumber, err error) {
	err = s.each(ctx, membersOf, []any{id, after, limit}, func(scan func(...any) error) error {
		var user services.UserNumber
		err := scan(&user)
		users = append(users, user)
		return err
	})
	return users, err
}

// MessagesBefore lists the messages of a conversation with numbers below before, the newest first, at most limit; the
// recalled ones too.
func (s *Store) MessagesBefore(ctx context.Context, id services.ConversationID, before int64, limit int) ([]services.Message, error) {
	return s.conversationMessages(ctx, messagesBefore, id, before, limit)
}

// Messages reads messages by their ids. One that never was is absent.
func (s *Store) Messages(ctx context.Context, ids []services.MessageID) (map[services.MessageID]services.Message, error) {
	list, err := s.conversationMessages(ctx, conversationMessagesByID, messageRows(ids))
	found := make(map[services.MessageID]services.Message, len(list))
	for _, message := range list {
		found[message.ID] = message
	}
	return found, err
}

// Mentioned reads whom messages mention, of those who are or were members.
func (s *Store) Mentioned(ctx context.Context, ids []services.MessageID) (map[services.MessageID][]services.UserNumber, error) {
	found := map[services.MessageID][]services.UserNumber{}
	err := s.each(ctx, mentionsOf, []any{messageRows(ids)}, func(scan func(...any) error) error {
		var conversation services.ConversationID
		var number int64
		var user services.UserNumber
		err := scan(&conversation, &number, &user)
		id := services.NewMessageID(conversation, number)
		found[id] = append(found[id], user)
		return err
	})
	return found, err
}

func messageRows(ids []services.MessageID) rows {
	list := make(rows, len(ids))
	for i, id := range ids {
		list[i] = []any{int64(id.Conversation()), id.Number()}
	}
	return list
}

func (s *Store) conversationMessages(ctx context.Context, st statement, args ...any) (list []services.Message, err error) {
	err = s.each(ctx, st, args, func(scan func(...any) error) error {
		var message services.Message
		var conversation services.ConversationID
		var number, sent, recalled int64
		err := scan(&conversation, &number, &message.Author, &message.Body, &sent, &recalled)
		message.ID, message.SentAt, message.Recalled = services.NewMessageID(conversation, number), fromMicros(sent), recalled > 0
		list = append(list, message)
		return err
	})
	return list, err
}
