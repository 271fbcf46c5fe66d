package resolvers

import (
	"context"

	"github.com/vektah/gqlparser/v2/ast"

	"tidings/dataloader"
	"tidings/graph"
	"tidings/services"
	"tidings/services/feed"
)

// feedArguments has the arguments of a page of a home feed. homeFeedAbove, newerThanPosition and startPosition check which of them
// can be combined. first is a pointer, because it matters whether the client has given it: then it is an error to give last too.
type feedArguments struct {
	first                    *int    // the number of posts
	after, lastID, newerThan *string // below the cursor after or the post lastID, or above the post newerThan
	last                     *int    // the number of posts directly above the cursor in before
	before                   *string // a cursor
}

// withoutDefaultFirst returns the arguments, with first only if the client has given it: the default of first must not count if
// last is given. The executor fills the default in, so only the document tells whether the client has given first. A variable that
// the request leaves out counts as absent, as in the executor.
func (a feedArguments) withoutDefaultFirst(field *ast.Field, variables map[string]any) feedArguments {
	first := field.Arguments.ForName("first")
	if first == nil || first.Value.Kind == ast.Variable && variables[first.Value.Raw] == nil {
		a.first = nil
	}
	return a
}

// asksForPageAbove reports whether the client asks for a page above a cursor.
func (a feedArguments) asksForPageAbove() bool { return a.last != nil || a.before != nil }

// homeFeed reads a page of a home feed, below a position or above one. The field's resolver and homeFeedPart both call it.
// A page goes downwards (after, lastId, or none of them), upwards from the newest post that a client has (newerThan), or upwards
// from a cursor (before).
func (r *Resolver) homeFeed(ctx context.Context, viewer services.UserID, ask feedArguments) (feed.Page, error) {
	if ask.asksForPageAbove() {
		return r.homeFeedAbove(ctx, viewer, ask)
	}
	size, err := pageSize(ask.first)
	if err != nil {
		return feed.Page{}, err
	}
	// An ID may be an ID by ref, with the host application's own ID. resolveOptionalID replaces it by Tidings' ID.
	lastID, err := r.resolveOptionalID(ctx, viewer, "lastId", ask.lastID)
	if err != nil {
		return feed.Page{}, err
	}
	newerThan, err := r.resolveOptionalID(ctx, viewer, "newerThan", ask.newerThan)
	if err != nil {
		return feed.Page{}, err
	}
	after := ask.after
	than, given, err := newerThanPosition(after, lastID, newerThan)
	if err != nil {
		return feed.Page{}, err
	}
	// PageNewerOldestFirst returns the posts above the newest post that the client has, the oldest first.
	if given {
		return r.Feed.PageNewerOldestFirst(ctx, viewer, than, size)
	}
	before, err := startPosition(viewer, after, lastID)
	if err != nil {
		return feed.Page{}, err
	}
	// lastId must name a post that existed; a cursor is only a position. A deleted post keeps its position.
	if lastID != nil {
		return r.Feed.PageBelow(ctx, viewer, before, size)
	}
	return r.Feed.Page(ctx, viewer, before, size)
}

// homeFeedAbove reads the page directly above a position, for a client that scrolls back up. Its posts are chosen and sorted as on the
// pages for scrolling down, so that a client that scrolls both ways sees one list.
func (r *Resolver) homeFeedAbove(ctx context.Context, viewer services.UserID, ask feedArguments) (feed.Page, error) {
	// Every wrong combination has an error of its own, for developers who are writing a client.
	switch {
	case ask.last == nil:
		return feed.Page{}, services.Errorf(services.Invalid, "before: it needs last")
	case ask.before == nil:
		return feed.Page{}, services.Errorf(services.Invalid, "last: it needs before")
	case ask.first != nil:
		return feed.Page{}, services.Errorf(services.Invalid, "last: it cannot be given together with first")
	case ask.after != nil || ask.lastID != nil || ask.newerThan != nil:
		return feed.Page{}, services.Errorf(services.Invalid, "before: it cannot be given together with after, lastId or newerThan")
	case *ask.last < 1 || *ask.last > maxFirst:
		return feed.Page{}, services.Errorf(services.Invalid, "last: 1 to %d are allowed, got %d", maxFirst, *ask.last)
	}
	position, err := feedCursor.parse("before", viewer, *ask.before)
	if err != nil {
		return feed.Page{}, err
	}
	return r.Feed.PageAbove(ctx, viewer, services.PostID(position), *ask.last)
}

// viewerSince returns the viewer, and the version of badges that the client has, or "". A version of another user or from the future is
// accepted: it is only compared, and at worst the client gets an event that it did not need.
func (r *Resolver) viewerSince(ctx context.Context, since *string) (viewer *graph.Viewer, known string, err error) {
	if viewer, err = r.viewer(ctx); err != nil || since == nil {
		return viewer, "", err
	}
	return viewer, *since, services.CheckVersion("since", *since)
}

// watchHomeFeed turns the changes of a viewer's badges into events about the viewer's feed. The feed needs no channel of its own:
// every change of the feed changes its count, and so the version of the badges.
func (r *Resolver) watchHomeFeed(ctx context.Context, viewer *graph.Viewer, since string) (<-chan *graph.HomeFeedChange, error) {
	ctx, cancel := context.WithCancel(ctx)
	badges, err := r.Hub.Watch(ctx, viewer.UserID, since)
	if err != nil {
		cancel()
		return nil, err
	}
	return relay(ctx, cancel, r.Log, r.Feed.Watch(ctx, viewer.UserID, badges), func(ctx context.Context, change feed.FeedChange) (*graph.HomeFeedChange, error) {
		return r.homeFeedChange(ctx, viewer, change)
	}), nil
}

// homeFeedChange reads the authors of an event, with a loader of its own: a loader that lives as long as the subscription would keep
// old names. The event has no posts. A client shows the number of new posts, and reads them when its user wants to.
func (r *Resolver) homeFeedChange(ctx context.Context, viewer *graph.Viewer, change feed.FeedChange) (*graph.HomeFeedChange, error) {
	users, err := dataloader.New(r.Readers).Users(ctx, change.NewestAuthors)
	if err != nil {
		return nil, err
	}
	event := &graph.HomeFeedChange{
		NewPosts: change.NewPosts, Authors: graphUsers(users, change.NewestAuthors), Badges: *change.Badges, Viewer: withBadges(viewer, change.Badges),
	}
	for i := range event.Authors {
		event.Authors[i].Together = change.NewestAuthors
	}
	if change.NewestUnseen != 0 {
		id := services.GlobalID(services.PostType, change.NewestUnseen.String())
		event.NewestID = &id
	}
	return event, nil
}
