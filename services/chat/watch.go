package chat

import (
	"context"

	"tidings/services"
	"tidings/services/push"
)

// Change is a conversation as its watcher sees it, with his badges.
type Change struct {
	State  services.ConversationState
	Badges *services.Badges
}

// Watch opens a channel with a conversation's full state for a member, and then with each further one, the latest only
// where the consumer is slow: when something is said in it, and when his own state or his badges change. badges are his, as
// the hub brings them; the first of them is waited for. The channel is closed when ctx ends, when badges is closed, and when
// he is a member no longer. NOT_FOUND when he never was.
func (s *Service) Watch(ctx context.Context, user services.UserID, id services.ConversationID, badges <-chan *services.Badges) (<-chan Change, error) {
	if _, err := s.One(ctx, user, id); err != nil {
		return nil, err
	}
	moved, forget := s.Conversations.Watch(id)
	s.Conversations.Learn(ctx, []services.ReadSidePlace{{Conversation: id}})
	look := func(ctx context.Context, badges *services.Badges) (Change, error) {
		state, err := s.One(ctx, user, id)
		return Change{state, badges}, err
	}
	changes := make(chan Change)
	go func() {
		defer forget()
		defer close(changes)
		push.Derive(ctx, changes, badges, moved, look, func(a, b Change) bool { return a == b })
	}()
	return changes, nil
}
