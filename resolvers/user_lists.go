package resolvers

import (
	"context"

	"tidings/dataloader"
	"tidings/graph"
	"tidings/services"
	"tidings/services/live"
	"tidings/services/posts"
)

// These are the kinds of the cursors of a user's lists. Conversations, the viewer's lists and posts have cursors of other kinds.
// A cursor belongs to one user: it has the kind, the user and the position. Clients keep cursors, so the order here never
// changes. The kinds are bytes and not of type cursorKind, because these cursors are longer: they hold 64 bits of the list's
// owner.
const (
	followersCursorKind = 40 + iota
	followeesCursorKind
	publishedPostsCursorKind
	hostedShowsCursorKind
)

// userListPageRequest is the page of a list of a user that a field requests. It checks that the cursor belongs to the user's list: a
// cursor of alice's followers in bob's list would be a valid position, and the wrong page would look right.
func userListPageRequest(kind byte, user *graph.User, first *int, after *string) (page services.UserPageRequest, err error) {
	page = services.UserPageRequest{Owner: user.UserID, Before: services.ListStart}
	if page.Size, err = pageSize(first); err != nil || after == nil {
		return page, err
	}
	of, before, err := parseListCursor(kind, *after)
	if err == nil && of != uint64(user.UserID) {
		err = services.Errorf(services.Invalid, "after: the cursor is of another user's list")
	}
	page.Before = before
	return page, err
}

// userListPageInfo is the position of a page in its list. cursor returns the cursor of the i-th item of the page. If more rows
// follow, the page ends at the last row that was read, which may be hidden from the viewer. If the page ended at the last visible
// item, a page of hidden rows would have no end cursor, and a client could never get past these rows.
func userListPageInfo[T any](kind byte, page services.UserPageRequest, list services.UserListPage[T], cursor func(i int) *string) graph.PageInfo {
	info := graph.PageInfo{HasNextPage: list.More}
	if n := len(list.Items); n > 0 {
		info.StartCursor, info.EndCursor = cursor(0), cursor(n-1)
	}
	if list.More {
		end := listCursorText(kind, uint64(page.Owner), list.Next)
		info.EndCursor = &end
	}
	return info
}

// followersOrFollowees makes a page of users in a list of a user: their followers or followees. Pages of several users are read
// together. The statement leaves out users that the viewer may not see. So the result depends on the viewer, and viewers must not
// share the loader: it lives for one response.
func (r *Resolver) followersOrFollowees(ctx context.Context, kind byte, user *graph.User, first *int, after *string) (*graph.UserConnection, error) {
	viewer, err := r.viewer(ctx)
	if err != nil {
		return nil, err
	}
	page, err := userListPageRequest(kind, user, first, after)
	if err != nil {
		return nil, err
	}
	loader := dataloader.From(ctx)
	// Both lists have the same form and different statements.
	load, read := loader.Followers, r.Social.Followers
	if kind == followeesCursorKind {
		load, read = loader.Followees, r.Social.Followees
	}
	list, err := load(ctx, page, func(ctx context.Context, pages []services.UserPageRequest) (map[services.UserPageRequest]services.UserListPage[services.User], error) {
		return read(ctx, viewer.UserID, pages)
	})
	if err != nil {
		return nil, err
	}
	// The position is the user ID, in the order of the index. A follow that is made between two pages moves no other row.
	cursorAt := func(i int) *string {
		cursor := listCursorText(kind, uint64(page.Owner), uint64(list.Items[i].ID))
		return &cursor
	}
	shown := &graph.UserConnection{Edges: make([]graph.UserEdge, 0, len(list.Items)), PageInfo: userListPageInfo(kind, page, list, cursorAt)}
	for i, other := range list.Items {
		if other.Key != "" { // a user without a key is being erased
			shown.Edges = append(shown.Edges, graph.UserEdge{Cursor: *cursorAt(i), Node: graphUser(other)})
		}
	}
	return shown, nil
}

// postsOf makes a page of a user's posts, as far as the viewer may see them. The page comes from SQL alone. Redis has no outbox
// of a user, because an index by author is faster.
func (r *Resolver) postsOf(ctx context.Context, user *graph.User, first *int, after *string) (*graph.PostConnection, error) {
	viewer, err := r.viewer(ctx)
	if err != nil {
		return nil, err
	}
	page, err := userListPageRequest(publishedPostsCursorKind, user, first, after)
	if err != nil {
		return nil, err
	}
	// The statement leaves out the posts that the viewer may not see, and reads the counts of the posts too.
	list, err := dataloader.From(ctx).PublishedPosts(ctx, page, func(ctx context.Context, pages []services.UserPageRequest) (map[services.UserPageRequest]services.UserListPage[posts.ShownPost], error) {
		return r.Feed.PublishedPosts(ctx, viewer.UserID, pages)
	})
	if err != nil {
		return nil, err
	}
	shown := &graph.PostConnection{Edges: make([]graph.PostEdge, len(list.Items))}
	for i, post := range list.Items {
		shown.Edges[i] = graph.PostEdge{Cursor: listCursorText(publishedPostsCursorKind, uint64(page.Owner), uint64(post.ID)), Node: graphPost(post.Post, post.By, list.ReadTogether)}
	}
	shown.PageInfo = userListPageInfo(publishedPostsCursorKind, page, list.UserListPage, func(i int) *string { return &shown.Edges[i].Cursor })
	// A feed says why it ends; this list ends because there are no more posts.
	if !list.More {
		end := services.EndOfFeed
		shown.End = &end
	}
	return shown, nil
}

// showsOf makes a page of the shows that a user hosts: all shows, also shows that are over or cancelled, the newest ID first.
func (r *Resolver) showsOf(ctx context.Context, user *graph.User, first *int, after *string) (*graph.ShowConnection, error) {
	viewer, err := r.viewer(ctx)
	if err != nil {
		return nil, err
	}
	page, err := userListPageRequest(hostedShowsCursorKind, user, first, after)
	if err != nil {
		return nil, err
	}
	list, err := dataloader.From(ctx).HostedShows(ctx, page, func(ctx context.Context, pages []services.UserPageRequest) (map[services.UserPageRequest]services.UserListPage[live.Show], error) {
		return r.Live.HostedBy(ctx, viewer.UserID, pages)
	})
	if err != nil {
		return nil, err
	}
	shown := &graph.ShowConnection{Edges: make([]graph.ShowEdge, len(list.Items))}
	for i, show := range list.Items {
		// The host is the owner of the list, and is not read again.
		node := r.graphShow(show, services.User{})
		node.Host = *user
		shown.Edges[i] = graph.ShowEdge{Cursor: listCursorText(hostedShowsCursorKind, uint64(page.Owner), uint64(show.ID)), Node: node}
	}
	shown.PageInfo = userListPageInfo(hostedShowsCursorKind, page, list, func(i int) *string { return &shown.Edges[i].Cursor })
	return shown, nil
}
