package resolvers

import (
	"context"

	"tidings/graph"
	"tidings/services"
)

const maxNodes = 100

// nodes fetches by global id, all of a kind at once; nil where there is none for the viewer: users who were never mentioned,
// what is hidden from them, and notifications of others.
func (r *Resolver) nodes(ctx context.Context, ids []string) ([]graph.Node, error) {
	viewer, err := r.viewer(ctx)
	if err != nil {
		return nil, err
	}
	if len(ids) == 0 || len(ids) > maxNodes {
		return nil, services.Errorf(services.Invalid, "ids: 1 to %d are allowed, got %d", maxNodes, len(ids))
	}
	posts, numbers := make([]services.PostID, len(ids)), make([]services.UserNumber, len(ids))
	announcements := make([]services.PostID, len(ids))
	places := make([]services.PostID, len(ids))
	messages := make([]services.PostID, len(ids))
	shows := make([]services.PostID, len(ids))
	for i, id := range ids {
		kind, _, err := services.SplitGlobalID(id)
		if err != nil {
			return nil, err
		}
		switch kind {
		case services.PostType:
			posts[i], err = services.ParsePostGlobalID("id", id)
		case services.UserType:
			numbers[i], err = r.knownUser(ctx, id)
		case services.AnnouncementType:
			announcements[i], err = services.ParseAnnouncementID("id", id)
		case services.NotificationType:
			places[i], err = services.ParseNotificationID("id", id)
		case services.SiteMessageType:
			messages[i], err = services.ParseSiteMessageID("id", id)
		case services.ShowType:
			shows[i], err = services.ParseShowID("id", id)
		}
		if err != nil {
			return nil, err
		}
	}
	nodes, err := r.readNodes(ctx, viewer.Number, posts, numbers)
	if err != nil {
		return nil, err
	}
	if err := r.readAnnouncements(ctx, viewer.Number, announcements, nodes); err != nil {
		return nil, err
	}
	if err := r.readSiteMessages(ctx, viewer.Number, messages, nodes); err != nil {
		return nil, err
	}
	if err := r.readShows(ctx, viewer.Number, shows, nodes); err != nil {
		return nil, err
	}
	notifications, err := r.notificationNodes(ctx, viewer, nonZero(places))
	for i, place := range places {
		if node, ok := notifications[place]; ok {
			nodes[i] = node
		}
	}
	if err != nil {
		return nil, err
	}
	talks, err := r.chatNodes(ctx, viewer, ids)
	if err != nil {
		return nil, err
	}
	for i, node := range talks {
		if node != nil {
			nodes[i] = node
		}
	}
	return nodes, nil
}

// readAnnouncements puts the announcements that the viewer sees into their places.
func (r *Resolver) readAnnouncements(ctx context.Context, viewer services.UserNumber, ids []services.PostID, nodes []graph.Node) error {
	named := nonZero(ids)
	if len(named) == 0 {
		return nil
	}
	found, err := r.Notice.Visible(ctx, viewer, named)
	for i, id := range ids {
		if item, ok := found[id]; ok {
			nodes[i] = graphItem(item)
		}
	}
	return err
}

// readShows puts the shows that the viewer may see into their places, as they are now.
func (r *Resolver) readShows(ctx context.Context, viewer services.UserNumber, ids []services.PostID, nodes []graph.Node) error {
	found, err := r.visibleShows(ctx, viewer, nonZero(ids))
	for i, id := range ids {
		if show, ok := found[id]; ok {
			nodes[i] = show
		}
	}
	return err
}

func (r *Resolver) knownUser(ctx context.Context, id string) (services.UserNumber, error) {
	key, err := services.ParseUserID("id", id)
	if err != nil {
		return 0, err
	}
	number, _, err := r.Social.Known(ctx, key)
	return number, err
}

// readNodes reads what stands at each place: a post, a user, or nothing.
func (r *Resolver) readNodes(ctx context.Context, viewer services.UserNumber, posts []services.PostID, numbers []services.UserNumber) ([]graph.Node, error) {
	foundPosts, users, err := r.visiblePosts(ctx, viewer, nonZero(posts), nonZero(numbers))
	if err != nil {
		return nil, err
	}
	nodes := make([]graph.Node, len(posts))
	for i := range nodes {
		if post, ok := foundPosts[posts[i]]; ok {
			nodes[i] = graphPost(post, users[post.Author])
		} else if user, ok := users[numbers[i]]; ok {
			nodes[i] = graphUser(user)
		}
	}
	return nodes, nil
}

func nonZero[T comparable](list []T) []T {
	var zero T
	kept := make([]T, 0, len(list))
	for _, item := range list {
		if item != zero {
			kept = append(kept, item)
		}
	}
	return kept
}
