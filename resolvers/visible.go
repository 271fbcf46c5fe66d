package resolvers

import (
	"context"

	"tidings/dataloader"
	"tidings/graph"
	"tidings/services"
)

// Every way from the id of a post or a show to the object leads through this file: it leaves out what its author hides from
// the viewer, as though it had never been.

// visiblePosts reads posts that the viewer may see, with their authors, and people besides; the others are absent, like
// those that are deleted or never were.
func (r *Resolver) visiblePosts(ctx context.Context, viewer services.UserNumber, ids []services.PostID, people []services.UserNumber) (map[services.PostID]services.Post, map[services.UserNumber]services.User, error) {
	posts, users, err := dataloader.From(ctx).Both(ctx, ids, people)
	if err != nil {
		return nil, nil, err
	}
	return posts, users, dropHidden(ctx, r, viewer, posts, func(post services.Post) services.UserNumber { return post.Author })
}

// visibleShows reads shows that the viewer may see, as they are now, with their hosts.
func (r *Resolver) visibleShows(ctx context.Context, viewer services.UserNumber, ids []services.PostID) (map[services.PostID]graph.Show, error) {
	if len(ids) == 0 {
		return nil, nil
	}
	shows, hosts, err := dataloader.From(ctx).Shows(ctx, ids)
	if err != nil {
		return nil, err
	}
	if err := dropHidden(ctx, r, viewer, shows, func(show services.Show) services.UserNumber { return show.Host }); err != nil {
		return nil, err
	}
	found := make(map[services.PostID]graph.Show, len(shows))
	for id, show := range shows {
		found[id] = r.graphShow(show, hosts[show.Host])
	}
	return found, nil
}

// dropHidden deletes what its author hides from the viewer: one statement for all authors that the response has not met.
func dropHidden[K comparable, V any](ctx context.Context, r *Resolver, viewer services.UserNumber, found map[K]V, author func(V) services.UserNumber) error {
	var authors []services.UserNumber
	for _, object := range found {
		if by := author(object); by != viewer {
			authors = append(authors, by)
		}
	}
	hidden, err := r.hidden(ctx, viewer, authors)
	if err != nil {
		return err
	}
	for key, object := range found {
		if hidden[author(object)] {
			delete(found, key)
		}
	}
	return nil
}

// hidden says which of some authors hide what they publish from the viewer.
func (r *Resolver) hidden(ctx context.Context, viewer services.UserNumber, authors []services.UserNumber) (map[services.UserNumber]bool, error) {
	return dataloader.From(ctx).Hidden(ctx, authors, func(ctx context.Context, authors []services.UserNumber) (map[services.UserNumber]bool, error) {
		return r.Social.Hidden(ctx, viewer, authors)
	})
}
