package resolvers

import (
	"context"
	"maps"
	"slices"

	"github.com/99designs/gqlgen/graphql"

	"tidings/graph"
	"tidings/services"
	"tidings/services/notifications"
)

// addConversationNodes adds the viewer's conversations. It returns what is still to be read: the members and messages of these
// conversations that fields select, and the messages in ids. A message is found only for a member of its conversation. All others are
// removed from ids.messages, because addMessageNodes, which runs later, does not check again.
func (r *Resolver) addConversationNodes(ctx context.Context, viewer *graph.Viewer, ids *nodeIDs, found map[string]graph.Node) (parts conversationParts, err error) {
	// The states tell which conversations the viewer is in, including the conversations of the messages.
	conversations := slices.Collect(maps.Values(ids.conversations))
	for _, id := range ids.messages {
		conversations = append(conversations, id.Conversation())
	}
	// A conversation that the viewer has left, or never was in, is absent.
	states, err := r.Chat.ByID(ctx, viewer.UserID, conversations)
	if err != nil {
		return parts, err
	}
	for id, key := range ids.messages {
		// The message is removed, so that addMessageNodes does not show it.
		if _, member := states[key.Conversation()]; !member {
			delete(ids.messages, id)
			continue
		}
		parts.messages = append(parts.messages, key)
	}
	variables := graphql.GetOperationContext(ctx).Variables
	for id, key := range ids.conversations {
		state, ok := states[key]
		if !ok {
			continue
		}
		// Several fields may ask for one conversation, each with a selection of its own.
		for _, asker := range ids.conversationFields[id] {
			parts.add(state, selectedFieldsBelow(asker.SelectionSet, variables), variables)
		}
		// The parts are in the loader when the fields of the conversation are resolved, so that these must not read them again.
		shown := graphConversation(state)
		shown.PartsRead = true
		found[id] = shown
	}
	return parts, nil
}

// addMessageNodes adds messages, which have all been read: graphMessages finds them in the loader. There is one call for each message,
// because this tells which ID the message belongs to. The call reads nothing.
func (r *Resolver) addMessageNodes(ctx context.Context, ids *nodeIDs, found map[string]graph.Node) error {
	for id, key := range ids.messages {
		list, err := r.graphMessages(ctx, []services.MessageID{key})
		if err != nil {
			return err
		}
		if len(list) > 0 {
			found[id] = list[0]
		}
	}
	return nil
}

// notificationsOf reads the viewer's own notifications by their IDs. A notification that has grown has several positions, and marks
// may name any of them. Only the first one is its ID: otherwise a client's store could have the notification twice.
func (r *Resolver) notificationsOf(ctx context.Context, viewer *graph.Viewer, ids []services.NotificationID) (list []notifications.Notification, err error) {
	found, err := r.Notifications.NotificationsAt(ctx, viewer.UserID, ids)
	// NotificationsAt also finds a notification by one of its later positions.
	for id, n := range found {
		if n.ID == id { // only the first position of a notification is its ID
			list = append(list, n)
		}
	}
	return list, err
}

// addNotificationNodes adds the viewer's own notifications. A notification whose causes were all undone is not found.
func (r *Resolver) addNotificationNodes(ctx context.Context, viewer *graph.Viewer, list []notifications.Notification, found map[string]graph.Node) error {
	shown, err := r.graphNotifications(ctx, viewer, list)
	for _, node := range shown {
		found[node.ID] = node
	}
	return err
}

// addViewerNodes adds the viewer and their badges, if an ID is theirs. The ID of another viewer is not found. The key in it is only
// compared and never looked up, so nobody learns whether another user exists.
func (r *Resolver) addViewerNodes(ctx context.Context, viewer *graph.Viewer, ids *nodeIDs, found map[string]graph.Node) error {
	for id, key := range ids.viewerKeys {
		if key == viewer.Key {
			found[id] = *viewer
		}
	}
	for id, key := range ids.badgesKeys {
		if key != viewer.Key {
			continue
		}
		badges, err := (&viewerResolver{r}).Badges(ctx, viewer)
		if err != nil {
			return err
		}
		found[id] = *badges
	}
	return nil
}

// addViewAndReportNodes adds the views of the viewer, and the reports of site messages if the token is of a host application or of an
// operator. A report counts the readers of a message, which its recipients must not see.
func (r *Resolver) addViewAndReportNodes(ctx context.Context, viewer *graph.Viewer, ids *nodeIDs, found map[string]graph.Node) error {
	// A view that the viewer never touched is not found, because it has no count for the viewer. Touches of other users do not matter.
	touched, err := r.Views.ByID(ctx, viewer.UserID, slices.Collect(maps.Values(ids.views)))
	if err != nil {
		return err
	}
	addNodes(found, ids.views, touched, graphView)
	// For any other token, a report does not exist.
	if bearer, err := services.ViewerFrom(ctx); err != nil || !bearer.Has(services.ScopeAdmin) && !bearer.Has(services.ScopeIngest) {
		return err
	}
	reports, err := r.Messages.Reports(ctx, slices.Collect(maps.Values(ids.reports)))
	addNodes(found, ids.reports, reports, graphReport)
	return err
}

// addOtherNodes adds the nodes that contain no post and no other person. They belong to the viewer, or all users share them. A kind
// that no ID names costs no statement.
func (r *Resolver) addOtherNodes(ctx context.Context, viewer *graph.Viewer, ids *nodeIDs, found map[string]graph.Node) error {
	if err := r.addViewerNodes(ctx, viewer, ids, found); err != nil {
		return err
	}
	if err := r.addViewAndReportNodes(ctx, viewer, ids, found); err != nil {
		return err
	}
	if err := r.addDeviceNodes(ctx, viewer, ids, found); err != nil {
		return err
	}
	// Which announcements are visible depends on the viewer's segments and on the time.
	if len(ids.announcements) > 0 {
		// They come from the node cache, like the list.
		items, err := r.Announcements.Visible(ctx, viewer.UserID, slices.Collect(maps.Values(ids.announcements)))
		if err != nil {
			return err
		}
		addNodes(found, ids.announcements, items, graphItem)
	}
	// Only the viewer's own copies of site messages are found.
	if len(ids.siteMessages) == 0 {
		return nil
	}
	siteMessages, err := r.Messages.ByID(ctx, viewer.UserID, slices.Collect(maps.Values(ids.siteMessages)))
	addNodes(found, ids.siteMessages, siteMessages, graphSiteMessage)
	return err
}
