package chat

import (
	"context"
	"time"

	"tidings/services"
	"tidings/services/sql"
)

// ListPosition is a position in the list of a user's conversations, which is ordered by the time of the last message and the ID,
// both descending. It is the position after the conversation with the ID, whose last message was sent at LastMessageAt. A
// conversation that moves up while a user pages is not repeated below, and may be missed until they begin anew.
type ListPosition struct {
	LastMessageAt time.Time
	ID            services.ConversationID
}

// ListStart is the position before the first conversation: later than any time that a message can have.
var ListStart = ListPosition{LastMessageAt: time.UnixMicro(1<<62 - 1)}

// List lists the conversations that a user is a member of, the last active first, and reports whether more follow.
func (s *Service) List(ctx context.Context, user services.UserID, after ListPosition, size int) ([]MemberState, bool, error) {
	// One more than size is read, to find out whether more follow.
	list, err := statesOf(ctx, s.DB, user, after.LastMessageAt, after.ID, size+1)
	if err == nil {
		err = s.removeExpiredFromStates(ctx, list, services.DayOf(s.Clock.Now()))
	}
	return trimPage(list, size, err)
}

// ByID reads conversations for a user. Conversations that the user is not a member of are absent, and so are unknown ones.
func (s *Service) ByID(ctx context.Context, user services.UserID, ids []services.ConversationID) (map[services.ConversationID]MemberState, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	list, err := statesByID(ctx, s.DB, user, ids)
	if err == nil {
		err = s.removeExpiredFromStates(ctx, list, services.DayOf(s.Clock.Now()))
	}
	return services.KeyBy(list, func(state MemberState) services.ConversationID { return state.ID }), err
}

// Rooms returns the conversations, among the given ones, that are ROOMs. Every user can join a ROOM.
func (s *Service) Rooms(ctx context.Context, ids []services.ConversationID) (map[services.ConversationID]bool, error) {
	return sql.ReadSet[services.ConversationID](ctx, s.DB, roomsAmong, sql.Numbers(ids), string(Room))
}

// ReadConversation reads a conversation for a user. NOT_FOUND if the user is not a member, with the same text as for an unknown ID.
func (s *Service) ReadConversation(ctx context.Context, user services.UserID, id services.ConversationID) (MemberState, error) {
	found, err := s.ByID(ctx, user, []services.ConversationID{id})
	state, ok := found[id]
	if err == nil && !ok {
		err = conversationNotFound(id)
	}
	return state, err
}

// MessagesBefore lists the IDs of a conversation's messages with numbers below before, the newest first, recalled ones too. Messages
// after the last one of the state are left out. more reports whether older messages follow.
func MessagesBefore(state MemberState, before int64, size int) (ids []services.MessageID, more bool) {
	// Numbers have no gaps and no message is deleted, so the page is known without a read.
	newest := min(before-1, state.NewestNumber)
	oldest := max(newest-int64(size)+1, 1)
	for number := newest; number >= oldest; number-- {
		ids = append(ids, services.NewMessageID(state.ID, number))
	}
	return ids, oldest > 1 && len(ids) > 0
}

// ReadMessages reads messages for a user, without the users that they mention: MentionedUsers reads these. Messages of conversations
// that the user is not a member of are absent, as are unknown ones.
func (s *Service) ReadMessages(ctx context.Context, user services.UserID, ids []services.MessageID) (map[services.MessageID]Message, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	var conversations []services.ConversationID
	for _, id := range ids {
		conversations = append(conversations, id.Conversation())
	}
	// The facts decide who may read, and not a projection: a user who was removed a moment ago reads nothing any more.
	mine, err := s.ByID(ctx, user, conversations)
	if err != nil {
		return nil, err
	}
	// All messages are read, and then messages in conversations without a membership are dropped: mostly there are none.
	found, err := messagesByID(ctx, s.DB, ids)
	for id := range found {
		if _, member := mine[id.Conversation()]; !member {
			delete(found, id)
		}
	}
	return found, err
}

// MessagesByID reads messages, for a caller who may see them. An unknown message is absent.
func (s *Service) MessagesByID(ctx context.Context, ids []services.MessageID) (map[services.MessageID]Message, error) {
	return messagesByID(ctx, s.DB, ids)
}

// MentionedUsers reads the users that messages mention. A mentioned user who never was a member of the conversation is left out.
func (s *Service) MentionedUsers(ctx context.Context, ids []services.MessageID) (map[services.MessageID][]services.UserID, error) {
	return mentionedIn(ctx, s.DB, ids)
}

// Members lists pages of members, all by one query.
func (s *Service) Members(ctx context.Context, pages []MembersPage) (map[MembersPage][]services.UserID, error) {
	return readMembers(ctx, s.DB, pages)
}

// trimPage drops the extra element that was read to find out whether more follow, and reports whether they do.
func trimPage[T any](list []T, size int, err error) ([]T, bool, error) {
	if err != nil {
		return nil, false, err
	}
	return list[:min(size, len(list))], len(list) > size, nil
}
