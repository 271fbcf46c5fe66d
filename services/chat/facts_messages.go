package chat

import (
	"context"
	"slices"
	"time"

	"tidings/services"
	"tidings/services/people"
	"tidings/services/sql"
)

var (
	// The update locks the conversation: of two messages one waits, and numbers have no gaps. last_at rises even if the clock was
	// set back, since lists and expiry rely on times that rise with numbers. in_minute counts the messages of the minute whose
	// number is in the column minute, and in_before those of the minute before it.
	nextNumber = sql.NewStatement("next message number", `UPDATE conversations SET head = head + 1,
			last_at = CASE WHEN $2 > last_at THEN $2 ELSE last_at + 1 END,
			in_before = CASE WHEN minute = $3 THEN in_before WHEN minute = $3 - 1 THEN in_minute ELSE 0 END,
			in_minute = CASE WHEN minute = $3 THEN in_minute + 1 ELSE 1 END, minute = $3
		WHERE id = $1 RETURNING `+conversationColumns)

	appendMessage = sql.NewStatement("insert a message", `INSERT INTO conversation_messages (conversation, number, author, body, sent_at, recalled_at)
		VALUES ($1, $2, $3, $4, $5, 0)`)

	// A mention of a user who is no member, or of the author, is dropped without an error: an error would reveal who is a member.
	mentionMembers = sql.NewStatement("mention members", `UPDATE conversation_members SET mentions = mentions + 1, mv = mv + 1
		WHERE conversation = $1 AND {in user_number $2 BIGINT} AND left_at = 0 AND user_number <> $3 RETURNING user_number`)

	insertMentions = sql.NewInsertion("insert mentions", "conversation_mentions", "conversation BIGINT, user_number BIGINT, number BIGINT", "")

	lockMessage = sql.NewStatement("lock a message", `SELECT author, sent_at, recalled_at FROM conversation_messages
		WHERE conversation = $1 AND number = $2 {for update}`)

	// The row stays, because numbers have no gaps. Its text is gone.
	recallMessages = sql.NewStatement("recall messages", `UPDATE conversation_messages SET body = '', recalled_at = $3
		WHERE conversation = $1 AND {in number $2 BIGINT}`)

	raiseRevision = sql.NewStatement("revise a conversation", `UPDATE conversations SET revision = revision + 1 WHERE id = $1`)

	dropMentions = sql.NewStatement("drop mentions", `DELETE FROM conversation_mentions WHERE conversation = $1 AND {in number $2 BIGINT}
		RETURNING user_number, number`)

	// unmentionMembers takes mentions in recalled messages out of the members' counts. Only mentions above a member's position are in
	// their count. The version is left to lowerUnreadCounts, which changes the same rows.
	unmentionMembers = sql.NewStatement("unmention members", `UPDATE conversation_members AS m
		SET mentions = mentions - (SELECT count(*) FROM {rows $3 user_number BIGINT, number BIGINT} AS c WHERE c.user_number = m.user_number AND c.number > m.base)
		WHERE conversation = $1 AND {in user_number $2 BIGINT} AND left_at = 0`)

	// lowerUnreadCounts takes recalled messages out of the unread counts of the members who have not read them. One statement takes
	// all messages: a ROOM has many members, and most of them have not read the messages.
	lowerUnreadCounts = sql.NewStatement("lower members", `UPDATE conversation_members AS m
		SET k = k - (SELECT count(*) FROM {rows $2 number BIGINT} AS c WHERE c.number > m.base), mv = mv + 1
		WHERE conversation = $1 AND base < $3 AND left_at = 0 AND user_number <> $4`)

	// raiseOtherMemberVersions changes the members that lowerUnreadCounts leaves out: those who have read the messages, and the
	// author. After both, every member's row has a new version.
	raiseOtherMemberVersions = sql.NewStatement("raise the versions of other members", `UPDATE conversation_members SET mv = mv + 1
		WHERE conversation = $1 AND (base >= $2 OR user_number = $3) AND left_at = 0`)
)

// insertMessage adds a message to a conversation. It returns the message, the conversation, and the users that the mentions
// reach. The author has read up to the message. A mention counts only for members other than the author who have no block with
// the author. NOT_FOUND or CONFLICT if the author is not a member.
func insertMessage(ctx context.Context, tx *sql.Tx, id services.ConversationID, author services.UserID, body string, mentioned []services.UserID) (message Message, c Conversation, reached []services.UserID, err error) {
	found := false
	// The minute is by the program's clock, also for an event of the past: the load is the present work of the server.
	minute := sql.Micros(tx.Now) / time.Minute.Microseconds()
	err = tx.Each(ctx, nextNumber, []any{id, tx.EventTime(), minute}, func(scan func(...any) error) error {
		found = true
		c, err = scanConversation(scan)
		return err
	})
	if err == nil && !found {
		err = conversationNotFound(id)
	}
	if err != nil {
		return message, c, nil, err
	}
	// LastActiveAt is already the time of this message, and at least a microsecond after the time of the message before.
	if err := checkEventOrder(tx, c, c.LastActiveAt.Add(-time.Microsecond)); err != nil {
		return message, c, nil, err
	}
	// The conversation has two billion messages: the next number would not fit into a message's ID.
	if c.NewestNumber > services.MaxMessageNumber {
		return message, c, nil, services.Errorf(services.Conflict, "conversationId: %s has %d messages and accepts no more", id.GlobalID(), services.MaxMessageNumber)
	}
	// Membership is checked after the number was taken: for a user who is no member, the error rolls the number back.
	m, err := lockState(ctx, tx, id, author)
	if err != nil {
		return message, c, nil, err
	}
	message = Message{ID: services.NewMessageID(id, c.NewestNumber), Author: author, Body: body, SentAt: c.LastActiveAt}
	if _, err := tx.Run(ctx, appendMessage, id, c.NewestNumber, author, body, c.LastActiveAt); err != nil {
		return message, c, nil, err
	}
	before := m
	// The author has read all messages before this one.
	m.ReadUpTo, m.UnreadAdjustment, m.Mentions = c.NewestNumber, 0, 0
	if err := endUnreadMark(ctx, tx, &m); err != nil {
		return message, c, nil, err
	}
	if err := putState(ctx, tx, before, m); err != nil {
		return message, c, nil, err
	}
	if len(mentioned) > 0 {
		reached, err = storeMentions(ctx, tx, message, mentioned)
	}
	return message, c, reached, err
}

// checkEventOrder refuses an event of a past time that is before the conversation's last message or its creation. Messages are
// numbered in the order of their arrival, and read positions are numbers, so no message can be inserted between two others.
func checkEventOrder(tx *sql.Tx, c Conversation, last time.Time) error {
	if tx.EventMoment() == 0 || !last.Truncate(time.Millisecond).After(tx.EventTime()) {
		return nil
	}
	return services.Errorf(services.Conflict, "at: %s went on later, at %s: send the events of a conversation in order, or this one without at",
		c.ID.GlobalID(), last.UTC().Format("2006-01-02T15:04:05.000Z"))
}

// storeMentions stores a message's mentions, and returns the users that they reach: present members without a block between them and
// the author. Their rows get a new version here, so the pass over the conversation projects the message and its mention together.
func storeMentions(ctx context.Context, tx *sql.Tx, message Message, users []services.UserID) ([]services.UserID, error) {
	conversation, number := message.ID.Conversation(), message.ID.Number()
	apart, err := people.ListBlockedEitherWay(ctx, tx, message.Author, users)
	if err != nil {
		return nil, err
	}
	// A mention does not reach users who have a block with the author, even though the text still names them.
	users = slices.DeleteFunc(slices.Clone(users), func(user services.UserID) bool { return slices.Contains(apart, user) })
	reached, err := sql.ReadColumn[services.UserID](ctx, tx, mentionMembers, conversation, users, message.Author)
	if err != nil {
		return nil, err
	}
	_, err = tx.Insert(ctx, insertMentions, services.Map(reached, func(user services.UserID) []any { return []any{int64(conversation), user, number} }))
	return reached, err
}

// recall recalls a message: its text is deleted, and it stops counting as unread for every member. NOT_FOUND for an
// unknown message or when the author is no member, FORBIDDEN for another user's message, CONFLICT if the author has left.
// recalled is false when it was recalled before.
func recall(ctx context.Context, tx *sql.Tx, id services.MessageID, author services.UserID) (c Conversation, recalled bool, err error) {
	conversation, number := id.Conversation(), id.Number()
	// No position may move back while the message is taken out of counts. So markUnread, which moves positions back, takes this lock too.
	if c, err = lock(ctx, tx, conversation); err != nil {
		return c, false, services.WithArgument("messageId", err)
	}
	if _, err := lockState(ctx, tx, conversation, author); err != nil {
		return c, false, services.WithArgument("messageId", err)
	}
	var writer services.UserID
	var sent, at int64
	found, err := tx.One(ctx, lockMessage, []any{conversation, number}, &writer, &sent, &at)
	switch {
	case err != nil:
		return c, false, err
	case !found:
		return c, false, services.Errorf(services.NotFound, "messageId: there is no %s", id.GlobalID())
	// The author is a member, so other members' messages are no secret to them.
	case writer != author:
		return c, false, services.Errorf(services.Forbidden, "messageId: %s is not your message", id.GlobalID())
	case at > 0:
		return c, false, nil
	}
	if err := withdrawMessages(ctx, tx, c, []int64{number}, author); err != nil {
		return c, false, err
	}
	// withdrawMessages has raised the revision in SQL. The caller notifies this node's watchers with the new value.
	c.Revision++
	return c, true, nil
}

// withdrawMessages deletes the texts of messages of one author that are not recalled yet, in the locked conversation c, and stops
// counting them. The lists of all members show the last message, so all their states get a new version when it is withdrawn.
func withdrawMessages(ctx context.Context, tx *sql.Tx, c Conversation, numbers []int64, author services.UserID) error {
	if _, err := tx.Run(ctx, recallMessages, c.ID, numbers, tx.EventTime()); err != nil {
		return err
	}
	if _, err := tx.Run(ctx, raiseRevision, c.ID); err != nil {
		return err
	}
	var mentioned []services.UserID
	var mentions sql.RowsParameter
	err := tx.Each(ctx, dropMentions, []any{c.ID, numbers}, func(scan func(...any) error) error {
		var user services.UserID
		var number int64
		err := scan(&user, &number)
		mentioned, mentions = append(mentioned, user), append(mentions, []any{user, number})
		return err
	})
	if err != nil {
		return err
	}
	if len(mentioned) > 0 { // the version rises below
		if _, err := tx.Run(ctx, unmentionMembers, c.ID, mentioned, mentions); err != nil {
			return err
		}
	}
	// lowerUnreadCounts skips members who have read all of the messages: for them nothing was counted.
	newest := slices.Max(numbers)
	if _, err = tx.Run(ctx, lowerUnreadCounts, c.ID, sql.ColumnParameter(numbers), newest, author); err == nil && newest == c.NewestNumber {
		_, err = tx.Run(ctx, raiseOtherMemberVersions, c.ID, newest, author)
	}
	return err
}
