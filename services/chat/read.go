package chat

import (
	"context"
	"time"

	"tidings/services"
)

// Place is a position in the list of a user's conversations: after the one with this last message and this id.
type Place struct {
	At time.Time
	ID services.ConversationID
}

// First is the position before the first conversation.
var First = Place{At: time.UnixMicro(1<<62 - 1)}

// List lists the conversations that a user is a member of, the last active first, and says whether more follow.
func (s *Service) List(ctx context.Context, user services.UserID, after Place, size int) ([]services.ConversationState, bool, error) {
	list, err := s.Store.ConversationsOf(ctx, user, after.At, after.ID, size+1)
	if err == nil {
		err = s.age(ctx, list)
	}
	return page(list, size, err)
}

// ByID reads conversations for a user. Those that the user is not a member of are absent, as are unknown ones.
func (s *Service) ByID(ctx context.Context, user services.UserID, ids []services.ConversationID) (map[services.ConversationID]services.ConversationState, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	list, err := s.Store.Conversations(ctx, user, ids)
	if err == nil {
		err = s.age(ctx, list)
	}
	found := make(map[services.ConversationID]services.ConversationState, len(list))
	for _, state := range list {
		found[state.ID] = state
	}
	return found, err
}

// age removes from states the messages that are too old to count, as the badges do.
func (s *Service) age(ctx context.Context, states []services.ConversationState) error {
	return s.Fanout.AgeConversationStates(ctx, states, services.DayOf(s.Clock.Now()))
}

// One reads a conversation for a user. NOT_FOUND when the user is not a member.
func (s *Service) One(ctx context.Context, user services.UserID, id services.ConversationID) (services.ConversationState, error) {
	found, err := s.ByID(ctx, user, []services.ConversationID{id})
	state, ok := found[id]
	if err == nil && !ok {
		err = services.Errorf(services.NotFound, "conversationId: there is no %s for you", id.GlobalID())
	}
	return state, err
}

// MessagesBefore names the messages of a conversation before a number, the newest first, recalled ones too, as far as it
// had come in a state, and says whether older ones follow.
func MessagesBefore(state services.ConversationState, before int64, size int) (ids []services.MessageID, more bool) {
	newest := min(before-1, state.Head)
	oldest := max(newest-int64(size)+1, 1)
	for number := newest; number >= oldest; number-- {
		ids = append(ids, services.NewMessageID(state.ID, number))
	}
	return ids, oldest > 1 && len(ids) > 0
}

// ReadMessages reads messages for a user, each with its mentions. Messages of conversations that the user is not a member of
// are absent, as are unknown ones.
func (s *Service) ReadMessages(ctx context.Context, user services.UserID, ids []services.MessageID) (map[services.MessageID]services.Message, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	var conversations []services.ConversationID
	for _, id := range ids {
		conversations = append(conversations, id.Conversation())
	}
	mine, err := s.ByID(ctx, user, conversations)
	if err != nil {
		return nil, err
	}
	found, err := s.Store.Messages(ctx, ids)
	for id := range found {
		if _, member := mine[id.Conversation()]; !member {
			delete(found, id)
		}
	}
	return found, err
}

func page[T any](list []T, size int, err error) ([]T, bool, error) {
	if err != nil {
		return nil, false, err
	}
	return list[:min(size, len(list))], len(list) > size, nil
}
