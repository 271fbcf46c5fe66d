package resolvers

import (
	"context"
	"maps"
	"slices"

	"github.com/99designs/gqlgen/graphql"
	"github.com/vektah/gqlparser/v2/ast"

	"tidings/dataloader"
	"tidings/graph"
	"tidings/services"
	"tidings/services/announcements"
	"tidings/services/devices"
	"tidings/services/live"
	"tidings/services/messages"
	"tidings/services/views"
)

// maxNodeIDs bounds the IDs of one field `nodes`. The objects of each kind are read by one statement, so the bound keeps statements and
// answers at the size of a page. A document can have several such fields: its cost bounds these.
const maxNodeIDs = 100

// nodes fetches objects by their global IDs; nil for an object that the viewer cannot see: an unknown user, hidden content, another
// user's notification. argument is the name of the argument with the IDs, for errors. All objects that the fields of an operation request
// are read together. Every type that is a Node in the schema has its case in nodeIDs.add and in readNodesByID. An object that exists and
// is not visible to the viewer looks like one that does not exist, so an ID reveals nothing.
func (r *Resolver) nodes(ctx context.Context, argument string, ids []string) ([]graph.Node, error) {
	viewer, err := r.viewer(ctx)
	if err != nil {
		return nil, err
	}
	if len(ids) == 0 || len(ids) > maxNodeIDs {
		return nil, services.Errorf(services.Invalid, "ids: 1 to %d are allowed, got %d", maxNodeIDs, len(ids))
	}
	// If an ID is malformed, its own field fails, before the read that all fields share.
	if err := newNodeIDs().add(ids, nil); err != nil {
		return nil, services.WithArgument(argument, err)
	}
	// The first field reads for all fields. They share its error too. It can only be the error of an engine.
	found, err := dataloader.ReadShared(ctx, nodesKey{}, func(ctx context.Context) (map[string]graph.Node, error) {
		return r.readNodes(ctx, viewer, allNodeIDs(ctx))
	})
	if err != nil {
		return nil, err
	}
	// The nodes are in the order of the argument. A node is null if nothing was found.
	nodes := make([]graph.Node, len(ids))
	for i, id := range ids {
		if node, ok := found[id]; ok {
			nodes[i] = node
		}
	}
	return nodes, nil
}

// nodeIDs are parsed global IDs, by type. The keys of the maps are the texts of the IDs, because two texts may name one object, and
// each field finds its object by its own text. A nodeIDs belongs to one read and is not shared.
type nodeIDs struct {
	// Each type has a map of its own, so that a read gets its keys in the type that it needs.
	siteMessages, reports  map[string]messages.ID // reports are those of the delivery of site messages
	views                  map[string]views.View
	userKeys               map[string]string // ID to key
	posts                  map[string]services.PostID
	notifications          map[string]services.NotificationID
	announcements          map[string]services.AnnouncementID
	shows                  map[string]services.ShowID
	conversations          map[string]services.ConversationID
	messages               map[string]services.MessageID
	viewerKeys, badgesKeys map[string]string // ID to key
	devices                map[string]string // ID to itself
	// The selections of the fields that ask for an ID decide which parts of a conversation are read. A field is nil when add only
	// checks the form of IDs.
	conversationFields map[string][]*ast.Field // the fields that ask for each conversation
	refFields          map[string][]*ast.Field // the fields that ask for each ID by ref
}

// newNodeIDs returns empty maps, which add fills.
func newNodeIDs() *nodeIDs {
	return &nodeIDs{
		userKeys: map[string]string{}, posts: map[string]services.PostID{}, shows: map[string]services.ShowID{},
		announcements: map[string]services.AnnouncementID{}, notifications: map[string]services.NotificationID{}, siteMessages: map[string]messages.ID{},
		conversations: map[string]services.ConversationID{}, messages: map[string]services.MessageID{}, conversationFields: map[string][]*ast.Field{},
		viewerKeys: map[string]string{}, badgesKeys: map[string]string{}, views: map[string]views.View{}, reports: map[string]messages.ID{},
		refFields: map[string][]*ast.Field{}, devices: map[string]string{},
	}
}

// add adds the IDs that a field asks for, up to the first malformed one. An ID of any type without a case here is never found. The IDs
// before a malformed one stay, so callers first check the IDs of a field in a set of their own.
func (n *nodeIDs) add(ids []string, field *ast.Field) error {
	for _, id := range ids {
		// The object of a ref is known only after a read: see readNodes.
		if services.IsRef(id) {
			if _, err := services.ParseRef("id", id); err != nil {
				return err
			}
			n.refFields[id] = append(n.refFields[id], field)
			continue
		}
		// A malformed ID is an error. A well-formed ID that no object can have is not an error, but is not found.
		kind, key, err := services.SplitGlobalID(id)
		if err != nil {
			return err
		}
		switch kind {
		case services.PostType:
			err = parseInto(n.posts, id, services.ParsePostGlobalID)
		case services.UserType:
			err = parseInto(n.userKeys, id, services.ParseUserID)
		// The ID of a viewer contains the key of a user. addViewerNodes checks whether it is the key of this viewer.
		case services.ViewerType:
			n.viewerKeys[id] = key
		case services.BadgesType:
			n.badgesKeys[id] = key
		case services.AnnouncementType:
			err = parseInto(n.announcements, id, announcements.ParseID)
		case services.NotificationType:
			err = parseInto(n.notifications, id, services.ParseNotificationID)
		case services.SiteMessageType:
			err = parseInto(n.siteMessages, id, messages.ParseID)
		case services.ReportType:
			err = parseInto(n.reports, id, messages.ParseDeliveryReportID)
		case services.ViewType:
			err = parseInto(n.views, id, views.ParseID)
		case services.DeviceType:
			err = parseInto(n.devices, id, devices.ParseID)
		case services.ShowType:
			err = parseInto(n.shows, id, live.ParseShowID)
		// The field that asks for a conversation decides which of its messages and members are read with it.
		case services.ConversationType:
			n.conversationFields[id] = append(n.conversationFields[id], field)
			err = parseInto(n.conversations, id, services.ParseConversationID)
		case services.MessageType:
			err = parseInto(n.messages, id, services.ParseMessageID)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// parseInto adds an ID, unless no object can have it. For such an ID, if its form is right, parse returns NOT_FOUND. This is no error
// here: its node is null, as for any object that does not exist.
func parseInto[K comparable](into map[string]K, id string, parse func(field, id string) (K, error)) error {
	key, err := parse("id", id)
	if err == nil {
		into[id] = key
	} else if services.CodeOf(err) == services.NotFound {
		return nil
	}
	return err
}

// allNodeIDs returns the IDs that the fields of an operation ask for, without those of a field that has a malformed ID. Such a field
// fails as a whole, so nothing is read for it.
func allNodeIDs(ctx context.Context) *nodeIDs {
	all, fields, variables := newNodeIDs(), selectedFieldsOf(ctx), graphql.GetOperationContext(ctx).Variables
	add := func(field *ast.Field, ids []string) {
		if len(ids) <= maxNodeIDs && newNodeIDs().add(ids, nil) == nil {
			_ = all.add(ids, field)
		}
	}
	// Arguments are read as the executor does, variables and defaults included.
	for _, field := range fields["Query.node"] {
		if id, err := graphql.UnmarshalID(field.ArgumentMap(variables)["id"]); err == nil {
			add(field, []string{id})
		}
	}
	for _, field := range fields["Query.nodes"] {
		var ids []string
		list, _ := field.ArgumentMap(variables)["ids"].([]any)
		for _, one := range list {
			if id, err := graphql.UnmarshalID(one); err == nil {
				ids = append(ids, id)
			}
		}
		add(field, ids)
	}
	return all
}

// readNodesByID reads the objects of IDs, with one read for each kind, and one for the posts, shows and people in all of them.
// First it reads objects that contain only IDs of posts, shows and people. Then it reads these. Then it makes the nodes from both.
// A new kind that shows posts or people must add their keys before readVisibleObjects is called. Otherwise each of its objects
// would cause a read of its own.
func (r *Resolver) readNodesByID(ctx context.Context, viewer *graph.Viewer, ids *nodeIDs) (map[string]graph.Node, error) {
	found := map[string]graph.Node{}
	// First read the users' IDs by their keys, and the viewer's conversations and notifications. The users in these are read below.
	userIDs, err := r.Social.FindUsers(ctx, slices.Collect(maps.Values(ids.userKeys)))
	if err != nil {
		return nil, err
	}
	talks, err := r.addConversationNodes(ctx, viewer, ids, found)
	if err != nil {
		return nil, err
	}
	people, err := r.readConversationParts(ctx, talks)
	if err != nil {
		return nil, err
	}
	notified, err := r.notificationsOf(ctx, viewer, slices.Collect(maps.Values(ids.notifications)))
	if err != nil {
		return nil, err
	}
	// The causes of the notifications are read here, if a field shows any, because they have posts and people too.
	actions, err := r.readCauses(ctx, viewer, notified)
	if err != nil {
		return nil, err
	}
	// Here all posts, shows and people are known, whichever kind needs them.
	keys := keysIn(notified, actions)
	keys.people = slices.AppendSeq(append(keys.people, people...), maps.Values(userIDs))
	keys.posts = slices.AppendSeq(keys.posts, maps.Values(ids.posts))
	keys.shows = slices.AppendSeq(keys.shows, maps.Values(ids.shows))
	// readVisibleObjects reads all these posts, shows and people at once, and the loader keeps them: nothing below reads one of
	// them again.
	visible, err := r.readVisibleObjects(ctx, viewer.UserID, keys)
	if err != nil {
		return nil, err
	}
	// userIDs has no entry for a key that no user has. Then the ID is 0, which no user has.
	for id, key := range ids.userKeys {
		if user, ok := visible.people[userIDs[key]]; ok {
			found[id] = graphUser(user)
		}
	}
	// Each post gets the list of all posts: when a field of one of them is requested, it is read for all.
	together := slices.Collect(maps.Values(visible.posts))
	addNodes(found, ids.posts, visible.posts, func(post services.Post) graph.Post { return graphPost(post, visible.people[post.Author], together) })
	// The nodes are the shows as they are now: what a session has frozen is only on its board.
	addNodes(found, ids.shows, visible.shows, func(show live.Show) graph.Show { return r.graphShow(show, visible.people[show.Host]) })
	if err := r.addMessageNodes(ctx, ids, found); err != nil {
		return nil, err
	}
	if err := r.addNotificationNodes(ctx, viewer, notified, found); err != nil {
		return nil, err
	}
	return found, r.addOtherNodes(ctx, viewer, ids, found)
}

// addNodes adds the objects of one kind that were read. ids has the global IDs, with the keys of objects.
func addNodes[K comparable, T any, N graph.Node](found map[string]graph.Node, ids map[string]K, read map[K]T, node func(T) N) {
	for id, key := range ids {
		if object, ok := read[key]; ok {
			found[id] = node(object)
		}
	}
}

// badgeItemNodes returns the objects behind the viewer's counts, by their IDs. All are read together, because each source lists
// many items, which would take hundreds of reads one by one. badgeItemNodes needs the explanations of the counts, which the field
// badgeExplained has read already.
func (r *Resolver) badgeItemNodes(ctx context.Context) (map[string]graph.Node, error) {
	return dataloader.ReadShared(ctx, itemsKey{}, func(ctx context.Context) (map[string]graph.Node, error) {
		viewer, err := r.viewer(ctx)
		if err != nil {
			return nil, err
		}
		// The field badgeExplained makes the same call, and shares its read with this one.
		explanations, err := (&viewerResolver{r}).BadgeExplained(ctx, viewer)
		if err != nil {
			return nil, err
		}
		var behind []string
		for _, explanation := range explanations {
			for _, item := range explanation.Items {
				behind = append(behind, item.ID)
			}
		}
		ids := newNodeIDs()
		// Each field `node` of the document is added with all items of all sources.
		for _, field := range selectedFieldsOf(ctx)["BadgeItem.node"] {
			if err := ids.add(behind, field); err != nil {
				return nil, err
			}
		}
		return r.readNodes(ctx, viewer, ids)
	})
}
