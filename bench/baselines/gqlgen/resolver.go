package main

import (
	"context"

	"github.com/redis/go-redis/v9"
)

// Resolver holds the state that the resolvers share.
type Resolver struct {
	redis  *redis.Client
	events *eventBroker
}

// Author is the resolver for the author field.
func (r *postResolver) Author(ctx context.Context, obj *Post) (*User, error) {
	return r.readUser(ctx, obj.author)
}

// Node is the resolver for the node field.
func (r *postEdgeResolver) Node(ctx context.Context, obj *PostEdge) (*Post, error) {
	return r.readPost(ctx, obj.inboxMember)
}

// Viewer is the resolver for the viewer field.
func (r *queryResolver) Viewer(ctx context.Context) (*Viewer, error) {
	id, err := viewerFrom(ctx)
	return &Viewer{userID: id}, err
}

// BadgesChanged is the resolver for the badgesChanged field.
func (r *subscriptionResolver) BadgesChanged(ctx context.Context) (<-chan *Badges, error) {
	id, err := viewerFrom(ctx)
	if err != nil {
		return nil, err
	}
	return r.events.subscribe(ctx, id), nil
}

// Badges is the resolver for the badges field.
func (r *viewerResolver) Badges(ctx context.Context, obj *Viewer) (*Badges, error) {
	return r.readBadges(ctx, obj.userID)
}

// HomeFeed is the resolver for the homeFeed field.
func (r *viewerResolver) HomeFeed(ctx context.Context, obj *Viewer, first *int) (*PostConnection, error) {
	return r.readFeed(ctx, obj.userID, *first)
}

// Post returns PostResolver implementation.
func (r *Resolver) Post() PostResolver { return &postResolver{r} }

// PostEdge returns PostEdgeResolver implementation.
func (r *Resolver) PostEdge() PostEdgeResolver { return &postEdgeResolver{r} }

// Query returns QueryResolver implementation.
func (r *Resolver) Query() QueryResolver { return &queryResolver{r} }

// Subscription returns SubscriptionResolver implementation.
func (r *Resolver) Subscription() SubscriptionResolver { return &subscriptionResolver{r} }

// Viewer returns ViewerResolver implementation.
func (r *Resolver) Viewer() ViewerResolver { return &viewerResolver{r} }

type (
	postResolver         struct{ *Resolver }
	postEdgeResolver     struct{ *Resolver }
	queryResolver        struct{ *Resolver }
	subscriptionResolver struct{ *Resolver }
	viewerResolver       struct{ *Resolver }
)
