package resolvers

import (
	"context"

	"tidings/graph"
	"tidings/services"
	"tidings/services/chat"
	"tidings/services/notifications"
)

// watchList opens a subscription to one of the viewer's lists, which changes together with the badges. open opens the channel of badges,
// watch turns badges into changes of the list, and show turns a change into an event. first and since are the arguments of the client.
// All arguments are checked before anything is opened, so that a refusal leaves nothing open. The context of the channels ends with the
// subscription, so that nothing more is read for a client that has left.
func watchList[C, E any](ctx context.Context, r *Resolver, first *int, since *string,
	open func(context.Context, services.UserID, string) (<-chan *services.Badges, error),
	watch func(ctx context.Context, viewer *graph.Viewer, size int, badges <-chan *services.Badges) <-chan C, show func(viewer *graph.Viewer, change C) E,
) (<-chan E, error) {
	viewer, known, err := r.viewerSince(ctx, since)
	if err != nil {
		return nil, err
	}
	size, err := pageSize(first)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(ctx)
	badges, err := open(ctx, viewer.UserID, known)
	if err != nil {
		cancel()
		return nil, err
	}
	return relay(ctx, cancel, r.Log, watch(ctx, viewer, size, badges), func(_ context.Context, change C) (E, error) { return show(viewer, change), nil }), nil
}

// watchNotifications opens a subscription to the first page of notifications. The posts and people on the page are read when an event
// is rendered, with the loader of the event, so that the names are those at that time.
func (r *Resolver) watchNotifications(ctx context.Context, first *int, since *string) (<-chan *graph.NotificationsChange, error) {
	return watchList(ctx, r, first, since, r.Hub.Watch, func(ctx context.Context, viewer *graph.Viewer, size int, badges <-chan *services.Badges) <-chan notifications.PageUpdate {
		return r.Notifications.Watch(ctx, viewer.UserID, notifications.PageQuery{First: size}, badges)
	}, func(viewer *graph.Viewer, change notifications.PageUpdate) *graph.NotificationsChange {
		return &graph.NotificationsChange{
			Badges: *change.Badges, Viewer: withBadges(viewer, change.Badges),
			Shown: change.Page.Notifications, More: change.Page.More, Next: change.Page.Next, Gen: change.Page.MarkGeneration,
		}
	})
}

// watchConversations opens a subscription to the first page of conversations. Its events have the newest conversations only. A
// client that shows more pages merges them by ID.
func (r *Resolver) watchConversations(ctx context.Context, first *int, since *string) (<-chan *graph.ConversationsChange, error) {
	// A message in a muted conversation need not change the badges, so the list is always read once at the start, whatever
	// version of the badges the client has.
	return watchList(ctx, r, first, since, r.Hub.WatchWithFirstState, func(ctx context.Context, viewer *graph.Viewer, size int, badges <-chan *services.Badges) <-chan chat.ListChange {
		return r.Chat.WatchList(ctx, viewer.UserID, size, badges)
	}, func(viewer *graph.Viewer, change chat.ListChange) *graph.ConversationsChange {
		return &graph.ConversationsChange{Badges: *change.Badges, Viewer: withBadges(viewer, change.Badges), Shown: change.States, More: change.More}
	})
}
