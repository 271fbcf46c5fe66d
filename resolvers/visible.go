package resolvers

import (
	"context"
	"maps"
	"slices"

	"tidings/dataloader"
	"tidings/services"
)

// Every way from the id of a post or a show to the object leads through this file: it leaves out what its author hides from
// the viewer, as though it had never been.

// visibleKeys are the keys of what a response shows.
type visibleKeys struct {
	posts, shows []services.PostID
	people       []services.UserID
	actors       []services.UserID // whose acts are shown: see hidden
}

// visible is what the viewer may see of them, with the authors and hosts; the others are absent, like those that are deleted
// or never were.
type visible struct {
	posts  map[services.PostID]services.Post
	shows  map[services.PostID]services.Show
	people map[services.UserID]services.User
	hidden map[services.UserID]bool // authors, hosts and actors who hide from the viewer or block them
}

// visible reads posts and shows that the viewer may see, shows as they are now, and people besides: one batch for all.
func (r *Resolver) visible(ctx context.Context, viewer services.UserID, keys visibleKeys) (seen visible, err error) {
	loader := dataloader.From(ctx)
	if seen.shows, err = loader.Shows(ctx, keys.shows); err != nil {
		return seen, err
	}
	people := slices.Concat(keys.people, keys.actors)
	for _, show := range seen.shows {
		people = append(people, show.Host)
	}
	if seen.posts, seen.people, err = loader.Both(ctx, keys.posts, people); err != nil {
		return seen, err
	}
	authors := slices.Clone(keys.actors)
	for _, post := range seen.posts {
		authors = append(authors, post.Author)
	}
	for _, show := range seen.shows {
		authors = append(authors, show.Host)
	}
	if seen.hidden, err = r.hidden(ctx, viewer, authors); err != nil {
		return seen, err
	}
	maps.DeleteFunc(seen.posts, func(_ services.PostID, post services.Post) bool { return seen.hidden[post.Author] })
	maps.DeleteFunc(seen.shows, func(_ services.PostID, show services.Show) bool { return seen.hidden[show.Host] })
	return seen, nil
}

// hidden says which of some authors hide what they publish from the viewer.
func (r *Resolver) hidden(ctx context.Context, viewer services.UserID, authors []services.UserID) (map[services.UserID]bool, error) {
	authors = slices.DeleteFunc(authors, func(author services.UserID) bool { return author == viewer })
	return dataloader.From(ctx).Hidden(ctx, authors, func(ctx context.Context, authors []services.UserID) (map[services.UserID]bool, error) {
		return r.Social.Hidden(ctx, viewer, authors)
	})
}
