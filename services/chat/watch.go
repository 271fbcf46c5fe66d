package chat

import (
	"context"

	"tidings/services"
	"tidings/services/push"
)

// ConversationChange is a conversation as its watcher sees it, with the watcher's badges. It is comparable: a change that equals
// the last one is not sent.
type ConversationChange struct {
	State  MemberState
	Badges *services.Badges
}

// Watch opens a channel with a conversation's full state for a member, and then each further state, only the latest for a slow
// consumer: after each message, and when the member's own state or badges change. open opens the member's badges, at the hub (push.Hub);
// the first state is read after the first badges have come, so that it is no older than these. The channel is closed when ctx ends, when
// the badges end, and when the user is no longer a member. NOT_FOUND if they are no member at the start: then nothing is opened.
func (s *Service) Watch(ctx context.Context, user services.UserID, id services.ConversationID, open func() (<-chan *services.Badges, error)) (<-chan ConversationChange, error) {
	// Membership is checked before the badges are opened: a stranger's subscription costs one read.
	if _, err := s.ReadConversation(ctx, user, id); err != nil {
		return nil, err
	}
	badges, err := open()
	if err != nil {
		return nil, err
	}
	// The watch begins before the first state is read. So a message that arrives in between signals moved, and is not missed.
	// cacheMissing puts the last sequence of the conversation into the cache of this node, where refresh keeps it current. Without
	// it only conversations that are counted on read are there.
	moved, forget := s.Sequences.watchConversation(id)
	s.Sequences.cacheMissing(ctx, []services.CountedOnReadPosition{{Conversation: id}})
	look := func(ctx context.Context, badges *services.Badges) (ConversationChange, error) {
		// NOT_FOUND when the user was removed: then SendDerivedStates ends, and the channel is closed.
		state, err := s.ReadConversation(ctx, user, id)
		return ConversationChange{state, badges}, err
	}
	changes := make(chan ConversationChange)
	go func() {
		defer forget()
		defer close(changes)
		push.SendDerivedStates(ctx, changes, badges, moved, look, func(a, b ConversationChange) bool { return a == b })
	}()
	return changes, nil
}
