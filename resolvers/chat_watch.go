package resolvers

import (
	"context"

	"tidings/graph"
	"tidings/services"
	"tidings/services/chat"
)

// watchConversation turns the changes of a conversation into events of a subscription. An event has the badges too, because most
// messages change them as well. An event has the whole state and no differences: a client that missed one event has everything
// from the next.
func (r *Resolver) watchConversation(ctx context.Context, viewer *graph.Viewer, id services.ConversationID) (<-chan *graph.ConversationChange, error) {
	ctx, cancel := context.WithCancel(ctx)
	// A viewer who is not a member gets the error before the channel of badges is opened.
	changes, err := r.Chat.Watch(ctx, viewer.UserID, id, func() (<-chan *services.Badges, error) { return r.Hub.Watch(ctx, viewer.UserID, "") })
	if err != nil {
		cancel()
		return nil, err
	}
	// The messages and members are read when an event is rendered, because the state does not contain them.
	return relay(ctx, cancel, r.Log, changes, func(_ context.Context, change chat.ConversationChange) (*graph.ConversationChange, error) {
		return &graph.ConversationChange{
			Conversation: graphConversation(change.State), Badges: *change.Badges, Viewer: withBadges(viewer, change.Badges),
		}, nil
	}), nil
}
