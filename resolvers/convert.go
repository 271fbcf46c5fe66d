package resolvers

import (
	"context"

	"tidings/dataloader"
	"tidings/graph"
	"tidings/services"
	"tidings/services/feed"
)

// graphUser is a user as anybody sees them. Fields that depend on the viewer are read when they are asked for. graphUser reads
// nothing, so that it can be called for each item of a list. A user who is being erased has no key: lists leave them out.
func graphUser(user services.User) graph.User {
	return graph.User{ID: user.GlobalID(), UserID: user.ID, Key: user.Key, Name: orNull(user.Name), AvatarURL: orNull(user.AvatarURL)}
}

// graphUsers makes users that a loader has read, in the order of their IDs. It leaves out users without a key, who are being
// erased.
func graphUsers(read map[services.UserID]services.User, ids []services.UserID) []graph.User {
	users := make([]graph.User, 0, len(ids))
	for _, id := range ids {
		if user := read[id]; user.Key != "" {
			users = append(users, graphUser(user))
		}
	}
	return users
}

// graphPost makes one of several posts that are shown together. When a field of one post is requested, the field is read for all.
// together must be the same slice for all of them: the loader reads the counts of all its posts when the counts of the first are
// requested.
func graphPost(post services.Post, author services.User, together []services.Post) graph.Post {
	// The time of publication is in the ID and needs no column of its own.
	shown := graph.Post{
		ID: post.GlobalID(), Kind: post.Kind, Author: graphUser(author), Body: post.Body, PublishedAt: post.ID.Time(),
		Number: post.ID, AuthorID: post.Author, ParentNumber: post.Parent, Together: together,
	}
	if !post.EditedAt.IsZero() {
		shown.EditedAt = &post.EditedAt
	}
	if post.Parent != 0 {
		parent := services.GlobalID(services.PostType, post.Parent.String())
		shown.ParentID = &parent
	}
	return shown
}

// orNull returns a pointer to the text; nil for an empty text.
func orNull(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// readUser reads one user for a payload.
func (r *Resolver) readUser(ctx context.Context, id services.UserID) (graph.User, error) {
	users, err := dataloader.From(ctx).Users(ctx, []services.UserID{id})
	if err != nil {
		return graph.User{}, err
	}
	return graphUser(users[id]), nil
}

// readPost reads the post of an operation for its payload. The error is NOT_FOUND if the post has been deleted or hidden since. It
// calls readVisibleObjects, although the viewer has just written: the author may have blocked a user who likes the post between the
// commit and this read.
func (r *Resolver) readPost(ctx context.Context, done *committedOperation) (graph.Post, error) {
	id, err := services.ParsePostGlobalID("postId", done.objectID)
	if err != nil {
		return graph.Post{}, err
	}
	seen, err := r.readVisibleObjects(ctx, done.viewer.UserID, shownObjectIDs{posts: []services.PostID{id}})
	if err != nil {
		return graph.Post{}, err
	}
	post, ok := seen.posts[id]
	if !ok {
		return graph.Post{}, services.Errorf(services.NotFound, "there is no %s", services.GlobalID(services.PostType, id.String()))
	}
	return graphPost(post, seen.people[post.Author], []services.Post{post}), nil
}

// authorsOf returns the authors of the posts of a page, in their order.
func authorsOf(page feed.Page) []services.User {
	return services.Map(page.Items, func(item feed.Item) services.User { return item.Author })
}

// postConnection makes a page of a feed for its viewer. The end cursor is the page's own position and not that of its last post: a
// page may be short, or empty, although more posts follow. shownFeed.fill makes the same page for hot operations. A test compares
// both answers, byte for byte.
func postConnection(viewer *graph.Viewer, page feed.Page) *graph.PostConnection {
	result := &graph.PostConnection{
		Edges: make([]graph.PostEdge, len(page.Items)), PageInfo: graph.PageInfo{HasNextPage: page.HasNext, HasPreviousPage: page.HasPrevious}, Building: page.InboxBuilding,
	}
	together := make([]services.Post, len(page.Items))
	for i, item := range page.Items {
		together[i] = item.Post
		result.Edges[i] = graph.PostEdge{Cursor: feedCursorText(viewer.UserID, item.Post.ID), Node: graphPost(item.Post, item.Author, together)}
	}
	if len(result.Edges) > 0 {
		result.PageInfo.StartCursor = &result.Edges[0].Cursor
	}
	// Next is the last position that was looked at. Posts between the last edge and Next are hidden or deleted, and the next page
	// must not read them again.
	if page.NextPageAfter != 0 {
		cursor, lastID := feedCursorText(viewer.UserID, page.NextPageAfter), services.GlobalID(services.PostType, page.NextPageAfter.String())
		result.PageInfo.EndCursor, result.LastID = &cursor, &lastID
	}
	if page.End != "" {
		result.End = &page.End
	}
	return result
}
