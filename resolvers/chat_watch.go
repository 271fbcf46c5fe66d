package resolvers

import (
	"context"

	"tidings/graph"
	"tidings/services"
	"tidings/services/chat"
)

// watchConversation makes of the changes of a conversation what is shown of them.
func (r *Resolver) watchConversation(ctx context.Context, viewer *graph.Viewer, id services.ConversationID) (<-chan *graph.ConversationChange, error) {
	// Who is no member is told so before anything is opened for him.
	if _, err := r.Chat.One(ctx, viewer.Number, id); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	badges, err := r.Hub.Watch(ctx, viewer.Number, "")
	if err != nil {
		cancel()
		return nil, err
	}
	changes, err := r.Chat.Watch(ctx, viewer.Number, id, badges)
	if err != nil {
		cancel()
		return nil, err
	}
	return relay(ctx, cancel, r.Log, changes, conversationChange), nil
}

// conversationChange makes an event of a change; what it shows beside the state is read when the event is.
func conversationChange(_ context.Context, change chat.Change) (*graph.ConversationChange, error) {
	return &graph.ConversationChange{Conversation: graphConversation(change.State), Badges: *change.Badges}, nil
}
