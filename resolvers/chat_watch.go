package resolvers

import (
	"context"

	"tidings/dataloader"
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
	return relay(ctx, cancel, r.Log, changes, r.conversationChange), nil
}

// conversationChange reads what an event shows beside the state, with a loader of its own.
func (r *Resolver) conversationChange(ctx context.Context, change chat.Change) (*graph.ConversationChange, error) {
	list, err := r.graphConversations(dataloader.With(ctx, r.Chat.Mirror), []services.ConversationState{change.State})
	if err != nil {
		return nil, err
	}
	return &graph.ConversationChange{Conversation: list[0], Badges: *change.Badges}, nil
}
