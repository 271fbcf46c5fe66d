package resolvers

import (
	"context"

	"tidings/graph"
	"tidings/services"
	"tidings/services/jobs"
	"tidings/services/notify"
)

// markNotifications makes the command of a mark happen for the viewer and answers his badges after it.
func (r *Resolver) markNotifications(ctx context.Context, key *string, make func(user services.UserNumber) (*jobs.Command, error)) (services.Badges, *jobs.Command, error) {
	viewer, err := r.viewer(ctx)
	if err != nil {
		return services.Badges{}, nil, err
	}
	cmd, err := make(viewer.Number)
	if err != nil {
		return services.Badges{}, nil, err
	}
	badges, err := r.commit(ctx, viewer, key, cmd)
	return badges, cmd, err
}

// notificationPlace is the place up to which a mark reaches that names a notification in upTo, 0 without one.
func notificationPlace(upTo *string) (services.PostID, error) {
	if upTo == nil {
		return 0, nil
	}
	place, reach, err := services.ParseNotificationReach("upTo", *upTo)
	if err == nil && place == 0 {
		err = services.Errorf(services.NotFound, "upTo: %s is not a notification of yours", *upTo)
	}
	return reach, err
}

func (r *Resolver) notificationsSeen(user services.UserNumber, categories []services.Category, upTo *string) (*jobs.Command, error) {
	place, err := notificationPlace(upTo)
	if err != nil {
		return nil, err
	}
	return r.Notify.MarkSeen(user, categories, place)
}

// reading is what a client says that was read, by a mutation or by an event.
type reading struct {
	ids        []string
	upTo       *string
	categories []services.Category
	all        *bool
	token      *string
}

func (r *Resolver) notificationsRead(user services.UserNumber, said reading) (*jobs.Command, error) {
	read := notify.Reading{Categories: said.categories, All: said.all != nil && *said.all, Token: orEmpty(said.token)}
	for _, id := range said.ids {
		place, err := services.ParseNotificationID("ids", id)
		if err != nil {
			return nil, err
		}
		read.IDs = append(read.IDs, place)
	}
	var err error
	if read.UpTo, err = notificationPlace(said.upTo); err != nil {
		return nil, err
	}
	return r.Notify.MarkRead(user, read)
}

func (r *Resolver) notificationUnread(user services.UserNumber, id string) (*jobs.Command, error) {
	place, err := services.ParseNotificationID("id", id)
	if err != nil {
		return nil, err
	}
	return r.Notify.MarkUnread(user, place), nil
}

func (r *Resolver) allRead(user services.UserNumber, upTo, token *string) (*jobs.Command, error) {
	place, err := notificationPlace(upTo)
	if err != nil {
		return nil, err
	}
	return r.Notify.MarkAllRead(user, place, orEmpty(token))
}

func orEmpty(text *string) string {
	if text == nil {
		return ""
	}
	return *text
}

// notificationMarkEvent are the marks of notifications that a host application reports.
func (r *Resolver) notificationMarkEvent(ctx context.Context, event graph.IngestEvent) (*happening, error) {
	switch {
	case event.MarkNotificationsRead != nil:
		mark := event.MarkNotificationsRead
		cmd, err := as(ctx, r, mark.As, func(actor services.UserNumber) (*jobs.Command, error) {
			return r.notificationsRead(actor, reading{mark.Ids, mark.UpTo, mark.Categories, mark.All, mark.ReadToken})
		})
		return &happening{cmd, "", mark.Key}, err
	case event.MarkNotificationUnread != nil:
		mark := event.MarkNotificationUnread
		cmd, err := as(ctx, r, mark.As, func(actor services.UserNumber) (*jobs.Command, error) {
			return r.notificationUnread(actor, mark.ID)
		})
		return &happening{cmd, mark.ID, mark.Key}, err
	case event.MarkAllRead != nil:
		mark := event.MarkAllRead
		cmd, err := as(ctx, r, mark.As, func(actor services.UserNumber) (*jobs.Command, error) {
			return r.allRead(actor, mark.UpTo, mark.ReadToken)
		})
		return &happening{cmd, "", mark.Key}, err
	case event.UndoMarkAllRead != nil:
		cmd, err := as(ctx, r, event.UndoMarkAllRead.As, func(actor services.UserNumber) (*jobs.Command, error) {
			return r.Notify.UndoAllRead(actor), nil
		})
		return &happening{cmd, "", event.UndoMarkAllRead.Key}, err
	}
	return nil, nil
}

// notification reads one of the viewer's notifications for a payload; nil when nothing of it stands any more.
func (r *Resolver) notification(ctx context.Context, id string) (*graph.Notification, error) {
	viewer, err := r.viewer(ctx)
	if err != nil {
		return nil, err
	}
	place, err := services.ParseNotificationID("id", id)
	if err != nil || place == 0 {
		return nil, err
	}
	list, err := r.Notify.At(ctx, viewer.Number, []services.PostID{place})
	if err != nil || len(list) == 0 {
		return nil, err
	}
	shown, err := r.graphNotifications(ctx, viewer, list)
	if err != nil {
		return nil, err
	}
	shown[0].ID = id
	return &shown[0], nil
}

// keysIn are the keys of what notifications are about, and of the people in them.
func keysIn(list []services.Notification) (keys visibleKeys) {
	for _, n := range list {
		switch {
		case n.Category == services.CategoryReminder:
			keys.shows = append(keys.shows, n.Subject)
		case n.Subject != 0:
			keys.posts = append(keys.posts, n.Subject)
		}
		keys.people = append(keys.people, n.Sample...)
	}
	return keys
}

// graphNotifications fills in what notifications are about and who was in them: one batch for all.
func (r *Resolver) graphNotifications(ctx context.Context, viewer *graph.Viewer, list []services.Notification) ([]graph.Notification, error) {
	visible, err := r.visible(ctx, viewer.Number, keysIn(list))
	if err != nil {
		return nil, err
	}
	shown := make([]graph.Notification, len(list))
	for i, n := range list {
		shown[i] = graph.Notification{
			ID: n.GlobalID(), Category: n.Category, ActorCount: n.Actors, At: n.At, Seen: n.Seen, Read: n.Read, Older: n.Older,
			Actors: []graph.User{},
		}
		if post, ok := visible.posts[n.Subject]; ok {
			subject := graphPost(post, visible.people[post.Author])
			shown[i].Subject = &subject
		}
		if show, ok := visible.shows[n.Subject]; ok && n.Category == services.CategoryReminder {
			started := r.graphShow(show, visible.people[show.Host])
			shown[i].Show = &started
		}
		for _, actor := range n.Sample {
			if user, ok := visible.people[actor]; ok {
				shown[i].Actors = append(shown[i].Actors, graphUser(user))
			}
		}
	}
	return shown, nil
}

// readNotifications makes a page of the viewer's notifications.
func (r *Resolver) readNotifications(ctx context.Context, viewer *graph.Viewer, after *string, query notify.Query) (*graph.NotificationConnection, error) {
	if after != nil {
		before, err := parseNotificationPosition(viewer.Number, *after)
		if err != nil {
			return nil, err
		}
		query.Before = before
	}
	page, err := r.Notify.Page(ctx, viewer.Number, query)
	if err != nil {
		return nil, err
	}
	shown, err := r.graphNotifications(ctx, viewer, page.Notifications)
	if err != nil {
		return nil, err
	}
	result := &graph.NotificationConnection{
		Edges: make([]graph.NotificationEdge, len(shown)), ReadToken: notify.Token(page.Gen), PageInfo: graph.PageInfo{HasNextPage: page.More},
	}
	for i, node := range shown {
		cursor := notificationPositionText(viewer.Number, page.Notifications[i].Position())
		result.Edges[i] = graph.NotificationEdge{Cursor: cursor, Node: node}
	}
	if len(shown) > 0 {
		result.PageInfo.StartCursor = &result.Edges[0].Cursor
	}
	if !page.Next.At.IsZero() {
		cursor := notificationPositionText(viewer.Number, page.Next)
		result.PageInfo.EndCursor = &cursor
	}
	return result, nil
}
