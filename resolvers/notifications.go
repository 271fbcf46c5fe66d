package resolvers

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/99designs/gqlgen/graphql"

	"tidings/dataloader"
	"tidings/graph"
	"tidings/services"
	"tidings/services/notifications"
)

// orEmpty returns an optional text; "" if it is absent or null.
func orEmpty(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

// notificationsByID reads some of the viewer's notifications for a payload, by their IDs or by positions in them, each once. A
// notification is omitted if all its causes were undone. Other users' notifications are not found, because NotificationsAt reads
// only the viewer's own.
func (r *Resolver) notificationsByID(ctx context.Context, viewer *graph.Viewer, ids []string) ([]graph.Notification, error) {
	positions := make([]services.NotificationID, 0, len(ids))
	for _, id := range ids {
		// The mark may name a notification by its ID or by its upTo.
		position, err := services.ParseNotificationID("id", id)
		if services.IsNotificationUpTo(id) {
			position, _, err = services.ParseNotificationUpTo("id", id)
		}
		if err != nil {
			return nil, err
		}
		positions = append(positions, position)
	}
	found, err := r.Notifications.NotificationsAt(ctx, viewer.UserID, positions)
	if err != nil {
		return nil, err
	}
	// A mark may name one notification twice. The payload shows it once.
	list, known := make([]notifications.Notification, 0, len(found)), map[services.NotificationID]bool{}
	for _, position := range positions {
		if n, ok := found[position]; ok && !known[n.ID] {
			known[n.ID] = true
			list = append(list, n)
		}
	}
	return r.graphNotifications(ctx, viewer, list)
}

// markedNotifications reads the notifications for the payload of a mark, if the payload selects them: the notifications that the
// mark named, or else the newest ones of its categories. The result is nil, which is null to the client, if they are not selected
// or could not be read. The mark itself is committed.
func (r *Resolver) markedNotifications(ctx context.Context, done *committedOperation, payload string, ids []string, categories []services.Category) []graph.Notification {
	if len(selectedFieldsOf(ctx)[payload+".notifications"]) == 0 {
		return nil
	}
	// The payload has the notifications that the client has marked, so that the client's store updates them.
	if len(ids) > 0 {
		if list := nilOnError[[]graph.Notification](r)(r.notificationsByID(ctx, done.viewer, ids)); list != nil {
			return *list
		}
		return nil
	}
	// After a mark without IDs, the payload shows at most one page.
	page := nilOnError[*graph.NotificationConnection](r)(r.readNotifications(ctx, done.viewer, nil, notifications.PageQuery{Categories: categories, First: maxNodeIDs}))
	if page == nil {
		return nil
	}
	return nodesOf((*page).Edges, func(edge *graph.NotificationEdge) *graph.Notification { return &edge.Node })
}

// markedCategories returns the categories that a mark named, for its payload. hosts are the categories of the host application.
func markedCategories(categories []services.Category, hosts []string) []services.Category {
	of, _ := mergeCategories(categories, hosts) // no error is possible: the mark was done with them
	return of
}

// keysIn returns the keys of the objects that notifications contain: their subjects, their actors and the objects of their causes. The
// meaning of a subject depends on the category. actions are the causes of each notification; nil if none are shown. Every object
// that a notification shows must be among the keys, so that all of a page are read in one batch.
func keysIn(list []notifications.Notification, actions [][]notifications.Action) (keys shownObjectIDs) {
	for i, n := range list {
		switch {
		// In a category of Tidings, the category determines the type of the subject. In a category of the application, About
		// determines it.
		case n.Category == services.CategoryReminder:
			keys.shows = append(keys.shows, services.ShowID(n.Subject))
		case n.Host != nil && n.Host.About.Type == services.PostType:
			keys.posts = append(keys.posts, services.PostID(n.Host.About.Number))
		case n.Host != nil && n.Host.About.Type == services.ShowType:
			keys.shows = append(keys.shows, services.ShowID(n.Host.About.Number))
		// A notification of the host application that is about no object needs no key.
		case n.Host != nil:
		// A follow has no subject; all other notifications are about a post.
		case n.Subject != 0:
			keys.posts = append(keys.posts, services.PostID(n.Subject))
		}
		keys.people = append(keys.people, n.SampleActors...)
		if actions == nil {
			continue
		}
		// The causes of comments are shown as posts, those of likes and follows as people. The cause of a mention or a reminder is its
		// subject, which has its key already.
		for _, action := range actions[i] {
			switch n.Category {
			case services.CategoryComment:
				keys.posts = append(keys.posts, services.PostID(action.Object))
			case services.CategoryLike, services.CategoryFollow:
				keys.people = append(keys.people, action.Actor)
			}
		}
	}
	return keys
}

// sharedCausesKey is a key for dataloader.ReadShared. It identifies the notifications of one list in the state in which they were
// read: a new cause of one of them makes another key. It is a text and not a list, because a key must be comparable.
type sharedCausesKey string

// readCauses reads the causes of notifications, at most as many as the operation requests; nil if it requests none. Fields
// with different sizes share one read, and each shows its first ones. The answer has one list for each notification, in their
// order.
func (r *Resolver) readCauses(ctx context.Context, viewer *graph.Viewer, list []notifications.Notification) ([][]notifications.Action, error) {
	// most is the greatest number that any field asks for. A field with a wrong argument reports it itself.
	most, variables := 0, graphql.GetOperationContext(ctx).Variables
	for _, field := range selectedFieldsOf(ctx)["Notification.causes"] {
		if size, err := requestedSize(field, variables); err == nil {
			most = max(most, size)
		}
	}
	if most == 0 || len(list) == 0 {
		return nil, nil
	}
	// UpTo changes with each new cause, so a list that was read later, with new causes, has another key.
	var key strings.Builder
	for _, n := range list {
		key.WriteString(n.UpTo())
	}
	return dataloader.ReadShared(ctx, sharedCausesKey(key.String()), func(ctx context.Context) ([][]notifications.Action, error) {
		return r.Notifications.Actions(ctx, viewer.UserID, list, most)
	})
}

// causesOf returns the objects of a notification's causes, as far as the viewer may see them. A user who likes or follows is among the
// causes, as among the actors, even if that user blocks the viewer or hides from the viewer: to leave the user out would reveal this.
// causesOf reads nothing, because visible has everything whose keys keysIn has returned.
func causesOf(n notifications.Notification, shown graph.Notification, actions []notifications.Action, visible visibleObjects, together []services.Post) []graph.NotificationCause {
	causes := []graph.NotificationCause{} // null would mean that the causes could not be read
	switch n.Category {
	case services.CategoryMention:
		if shown.Subject != nil {
			causes = append(causes, *shown.Subject)
		}
	case services.CategoryReminder:
		if shown.Show != nil {
			causes = append(causes, *shown.Show)
		}
	case services.CategoryComment:
		for _, action := range actions {
			if post, ok := visible.posts[services.PostID(action.Object)]; ok {
				causes = append(causes, graphPost(post, visible.people[post.Author], together))
			}
		}
	case services.CategoryLike, services.CategoryFollow:
		for _, action := range actions {
			if user, ok := visible.people[action.Actor]; ok {
				causes = append(causes, graphUser(user))
			}
		}
	// The only cause is the object that the notification is about.
	default: // of the host application
		if shown.Subject != nil {
			causes = append(causes, *shown.Subject)
		}
		if shown.Show != nil {
			causes = append(causes, *shown.Show)
		}
	}
	return causes
}

// graphNotifications makes notifications for the API, with their subjects, actors and selected causes, which it reads in one batch.
// Lists, nodes, payloads and events all use it. The number of its reads does not depend on the length of the list.
func (r *Resolver) graphNotifications(ctx context.Context, viewer *graph.Viewer, list []notifications.Notification) ([]graph.Notification, error) {
	// The causes are read first. Then everything that causes, subjects and actors refer to is read at once.
	actions, err := r.readCauses(ctx, viewer, list)
	if err != nil {
		return nil, err
	}
	visible, err := r.readVisibleObjects(ctx, viewer.UserID, keysIn(list, actions))
	if err != nil {
		return nil, err
	}
	shown, together := make([]graph.Notification, len(list)), slices.Collect(maps.Values(visible.posts))
	for i, n := range list {
		shown[i] = graph.Notification{
			ID: n.GlobalID(), UpTo: n.UpTo(), Category: n.Category, ActorCount: n.ActorCount, At: n.At, Seen: n.Seen, Read: n.Read, Older: n.ExpiredUnseen,
			Actors: []graph.User{},
		}
		// A subject that the viewer may not see, or that is gone, is null; the notification stays. A follow has neither: both IDs are
		// 0, and visible never has the ID 0.
		postID, showID := services.PostID(n.Subject), services.ShowID(0)
		if n.Category == services.CategoryReminder {
			postID, showID = 0, services.ShowID(n.Subject)
		}
		// A category of the application is HOST to clients that do not know its name.
		if n.Host != nil {
			postID, showID = addHostContent(&shown[i], n.Host)
			shown[i].HostCategory = new(string(n.Category))
			shown[i].Category = services.CategoryHost
		}
		// The posts were read at once for the whole list, also a post that several notifications are about.
		if post, ok := visible.posts[postID]; ok {
			subject := graphPost(post, visible.people[post.Author], together)
			shown[i].Subject = &subject
		}
		if show, ok := visible.shows[showID]; ok {
			started := r.graphShow(show, visible.people[show.Host])
			shown[i].Show = &started
		}
		// Actors has the newest actors. ActorCount also counts the users who are not in SampleActors.
		for _, actor := range n.SampleActors {
			if user, ok := visible.people[actor]; ok {
				shown[i].Actors = append(shown[i].Actors, graphUser(user))
			}
		}
		// FoundCauses stays nil if no field requests causes.
		if actions != nil {
			shown[i].FoundCauses = causesOf(n, shown[i], actions[i], visible, together)
		}
	}
	return shown, nil
}

// addHostContent adds the content that the host application gave, and returns the post or the show that it is about; 0 is none. About
// was checked when the application notified, but the object may have been deleted since: then it is null, like any subject that is
// gone.
func addHostContent(shown *graph.Notification, host *notifications.HostNotificationContent) (post services.PostID, show services.ShowID) {
	shown.Title, shown.Body, shown.GroupKey = orNull(host.Title), orNull(host.Body), orNull(host.GroupKey)
	shown.URL, shown.Data = orNull(host.Label.URL), orNull(host.Label.Data)
	switch host.About.Type {
	case services.PostType:
		return services.PostID(host.About.Number), 0
	case services.ShowType:
		return 0, services.ShowID(host.About.Number)
	}
	return 0, 0
}

// readNotifications makes a page of the viewer's notifications. The size and the filters are in query already.
func (r *Resolver) readNotifications(ctx context.Context, viewer *graph.Viewer, after *string, query notifications.PageQuery) (*graph.NotificationConnection, error) {
	if after != nil {
		before, err := r.parseNotificationPosition(viewer.UserID, *after)
		if err != nil {
			return nil, err
		}
		query.Before = before
	}
	page, err := r.Notifications.Page(ctx, viewer.UserID, query)
	if err != nil {
		return nil, err
	}
	return r.notificationPage(ctx, viewer, page)
}

// notificationPage makes a page of notifications, and reads their subjects and actors. The end cursor is the page's own position:
// notifications whose causes were undone are left out, so a page may be short although more follow. The read token belongs to the
// page: a mark with this token does not change what was marked unread after the page was read.
func (r *Resolver) notificationPage(ctx context.Context, viewer *graph.Viewer, page notifications.Page) (*graph.NotificationConnection, error) {
	shown, err := r.graphNotifications(ctx, viewer, page.Notifications)
	if err != nil {
		return nil, err
	}
	result := &graph.NotificationConnection{
		Edges: make([]graph.NotificationEdge, len(shown)), ReadToken: services.FormatReadToken(page.MarkGeneration), PageInfo: graph.PageInfo{HasNextPage: page.More},
	}
	for i, node := range shown {
		cursor := r.notificationPositionText(viewer.UserID, page.Notifications[i].Position())
		result.Edges[i] = graph.NotificationEdge{Cursor: cursor, Node: node}
	}
	if len(shown) > 0 {
		result.PageInfo.StartCursor = &result.Edges[0].Cursor
	}
	// Next is zero at the end of the list.
	if !page.Next.At.IsZero() {
		cursor := r.notificationPositionText(viewer.UserID, page.Next)
		result.PageInfo.EndCursor = &cursor
	}
	return result, nil
}
