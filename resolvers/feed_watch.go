package resolvers

import (
	"context"

	"tidings/dataloader"
	"tidings/graph"
	"tidings/services"
	"tidings/services/feed"
)

// homeFeed reads a page of a home feed: below a place, or above one.
func (r *Resolver) homeFeed(ctx context.Context, viewer services.UserID, first *int, after, lastID, newerThan *string) (feed.Page, error) {
	size, err := pageSize(first)
	if err != nil {
		return feed.Page{}, err
	}
	than, given, err := newerOf(after, lastID, newerThan)
	if err != nil {
		return feed.Page{}, err
	}
	if given {
		return r.Feed.Newer(ctx, viewer, than, size)
	}
	before, err := startOf(viewer, after, lastID)
	if err != nil {
		return feed.Page{}, err
	}
	if lastID != nil {
		return r.Feed.PageBelow(ctx, viewer, before, size)
	}
	return r.Feed.Page(ctx, viewer, before, size)
}

// versionOf is the version of badges that a client holds, "" for none.
func versionOf(since *string) (string, error) {
	if since == nil {
		return "", nil
	}
	return *since, services.CheckVersion("since", *since)
}

// watchHomeFeed makes of the changes of a viewer's badges what is shown of his feed.
func (r *Resolver) watchHomeFeed(ctx context.Context, viewer *graph.Viewer, since string) (<-chan *graph.HomeFeedChange, error) {
	ctx, cancel := context.WithCancel(ctx)
	badges, err := r.Hub.Watch(ctx, viewer.Number, since)
	if err != nil {
		cancel()
		return nil, err
	}
	return relay(ctx, cancel, r.Log, r.Feed.Watch(ctx, viewer.Number, badges), func(ctx context.Context, change feed.Change) (*graph.HomeFeedChange, error) {
		return r.homeFeedChange(ctx, viewer, change)
	}), nil
}

// homeFeedChange reads the authors of an event, with a loader of its own.
func (r *Resolver) homeFeedChange(ctx context.Context, viewer *graph.Viewer, change feed.Change) (*graph.HomeFeedChange, error) {
	users, err := dataloader.New(r.Sources).Users(ctx, change.Authors)
	if err != nil {
		return nil, err
	}
	event := &graph.HomeFeedChange{
		NewPosts: change.New, Authors: make([]graph.User, len(change.Authors)), Badges: *change.Badges, Viewer: withBadges(viewer, change.Badges),
	}
	for i, author := range change.Authors {
		event.Authors[i] = graphUser(users[author])
	}
	if change.Newest != 0 {
		id := services.GlobalID(services.PostType, change.Newest.String())
		event.NewestID = &id
	}
	return event, nil
}
