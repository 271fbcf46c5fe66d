package resolvers

import (
	"context"

	"tidings/dataloader"
	"tidings/graph"
	"tidings/services"
)

const maxNodes = 100

// nodes fetches by global id, all of a kind at once; nil where there is none. Notifications are nobody's node yet to
// fetch by id, and so are users who were never mentioned.
func (r *Resolver) nodes(ctx context.Context, ids []string) ([]graph.Node, error) {
	if _, err := r.viewer(ctx); err != nil {
		return nil, err
	}
	if len(ids) == 0 || len(ids) > maxNodes {
		return nil, services.Errorf(services.Invalid, "ids: 1 to %d are allowed, got %d", maxNodes, len(ids))
	}
	posts, numbers := make([]services.PostID, len(ids)), make([]services.UserNumber, len(ids))
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
		}
		if err != nil {
			return nil, err
		}
	}
	return r.readNodes(ctx, posts, numbers)
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
func (r *Resolver) readNodes(ctx context.Context, posts []services.PostID, numbers []services.UserNumber) ([]graph.Node, error) {
	loader := dataloader.From(ctx)
	foundPosts, authors, err := loader.Posts(ctx, nonZero(posts))
	if err != nil {
		return nil, err
	}
	users, err := loader.Users(ctx, nonZero(numbers))
	if err != nil {
		return nil, err
	}
	nodes := make([]graph.Node, len(posts))
	for i := range nodes {
		if post, ok := foundPosts[posts[i]]; ok {
			nodes[i] = graphPost(post, authors[post.Author])
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
