package resolvers

import (
	"context"

	"tidings/dataloader"
	"tidings/graph"
	"tidings/services"
	"tidings/services/posts"
)

// Fields about users' actions on posts are read for all posts that are shown together, by one query for each kind of field. The
// parent of a post and its answers are read from SQL with all these fields, because a page may take no further round trip to
// Redis.

// engagement reads the counts of a post and whether the viewer likes it. The fields of several posts call it at the same time.
// The loader lets the first one read the counts of all posts that are shown together.
func (r *Resolver) engagement(ctx context.Context, post *graph.Post) (services.Engagement, error) {
	viewer, err := r.viewer(ctx)
	if err != nil {
		return services.Engagement{}, err
	}
	// together is called only if the counts of this post were not read yet.
	together := func() []services.PostID {
		return services.Map(post.Together, func(other services.Post) services.PostID { return other.ID })
	}
	return dataloader.From(ctx).Engagement(ctx, post.Number, together, func(ctx context.Context, ids []services.PostID) (map[services.PostID]services.Engagement, error) {
		return r.Feed.Engagements(ctx, viewer.UserID, ids)
	})
}

// parentOf reads the post that a post answers; nil if the viewer may not see it. If the author of a post hides from the viewer,
// a reply to the post stays visible, and its parent is null.
func (r *Resolver) parentOf(ctx context.Context, post *graph.Post) (*graph.Post, error) {
	if post.ParentNumber == 0 {
		return nil, nil
	}
	viewer, err := r.viewer(ctx)
	if err != nil {
		return nil, err
	}
	// Posts without a parent add nothing, and the parent of several posts is read once.
	others := func() (ids []services.PostID) {
		for _, other := range post.Together {
			if other.Parent != 0 {
				ids = append(ids, other.Parent)
			}
		}
		return ids
	}
	parent, found, err := dataloader.From(ctx).VisiblePost(ctx, post.ParentNumber, others, func(ctx context.Context, ids []services.PostID) (map[services.PostID]posts.ShownPost, error) {
		return r.Feed.VisiblePosts(ctx, viewer.UserID, ids)
	})
	if err != nil || !found {
		return nil, err
	}
	// parent.ReadTogether has the parents of the same read: a field that is requested of one parent is read for all.
	shown := graphPost(parent.Post, parent.By, parent.ReadTogether)
	return &shown, nil
}

// parentOfDeleted reads, for a payload, the post that a deleted post answered, as the viewer may see it.
func (r *Resolver) parentOfDeleted(ctx context.Context, done *committedOperation) (parent graph.Post, err error) {
	id, err := services.ParsePostGlobalID("postId", done.objectID)
	if err != nil {
		return parent, err
	}
	answered, err := r.Feed.ParentOf(ctx, id)
	if err != nil {
		return parent, err
	}
	shown, err := r.parentOf(ctx, &graph.Post{ParentNumber: answered})
	if err == nil && shown == nil {
		err = services.Errorf(services.NotFound, "%s has no parent that the viewer may see", done.objectID)
	}
	if err != nil {
		return parent, err
	}
	return *shown, nil
}

// commentsOf returns a page of the comments on a post. If several posts are shown together, the comments on all of them are read at
// once.
func (r *Resolver) commentsOf(ctx context.Context, post *graph.Post, first *int, after *string) (*graph.CommentConnection, error) {
	// The comments on all these posts, so that a field that is requested of one comment is read for all. The function read below sets
	// it before the function edge is called.
	var together []services.Post
	edges, info, err := postListPage(ctx, r, post, first, after, postListSpec[services.PostID, posts.ShownPost, graph.CommentEdge]{
		from: services.MaxPostID, text: commentCursorText, parse: parseCommentCursor,
		read: func(ctx context.Context, viewer services.UserID, page posts.AnswersPage, others func() []posts.AnswersPage) (posts.AnswerList, error) {
			found, err := dataloader.From(ctx).Answers(ctx, page, others, func(ctx context.Context, pages []posts.AnswersPage) (map[posts.AnswersPage]posts.AnswerList, error) {
				return r.Feed.Answers(ctx, viewer, pages)
			})
			// ReadTogether has all answers on all posts of the page, and not only the answers on this post.
			together = found.ReadTogether
			return found.AnswerList, err
		},
		position: func(answer posts.ShownPost) services.PostID { return answer.ID },
		edge: func(cursor string, answer posts.ShownPost) graph.CommentEdge {
			return graph.CommentEdge{Cursor: cursor, Node: graphPost(answer.Post, answer.By, together)}
		},
	})
	if err != nil {
		return nil, err
	}
	return &graph.CommentConnection{Edges: edges, PageInfo: info}, nil
}

// likesOf makes a page of the likes of a post. The statement leaves out the likes that the viewer may not see, and the next page
// begins after them: see postListPage.
func (r *Resolver) likesOf(ctx context.Context, post *graph.Post, first *int, after *string) (*graph.LikeConnection, error) {
	edges, info, err := postListPage(ctx, r, post, first, after, postListSpec[posts.LikePosition, posts.Like, graph.LikeEdge]{
		from: posts.BeforeFirstLike, text: likeCursorText, parse: parseLikeCursor,
		read: func(ctx context.Context, viewer services.UserID, page posts.LikesPage, others func() []posts.LikesPage) (posts.LikeList, error) {
			return dataloader.From(ctx).Likes(ctx, page, others, func(ctx context.Context, pages []posts.LikesPage) (map[posts.LikesPage]posts.LikeList, error) {
				return r.Feed.Likes(ctx, viewer, pages)
			})
		},
		position: posts.Like.Position,
		edge: func(cursor string, like posts.Like) graph.LikeEdge {
			return graph.LikeEdge{Cursor: cursor, Node: graphUser(like.By), LikedAt: like.At}
		},
	})
	if err != nil {
		return nil, err
	}
	return &graph.LikeConnection{Edges: edges, PageInfo: info}, nil
}

// postListSpec describes one kind of list below a post. P is a position, T an item and E its edge. Comments and likes page in the same
// way and differ only in these six fields.
type postListSpec[P comparable, T, E any] struct {
	from P // the position before all items
	// text prints a position as a cursor, and parse reads a cursor.
	text  func(post services.PostID, position P) string
	parse func(post services.PostID, cursor string) (P, error)
	// read reads a page. others has the pages of the other posts that are shown together, so that one statement reads all of them.
	read     func(ctx context.Context, viewer services.UserID, page posts.ListPageRequest[P], others func() []posts.ListPageRequest[P]) (posts.List[P, T], error)
	position func(item T) P                // the position of an item
	edge     func(cursor string, item T) E // the edge of an item
}

// postListPage makes a page of a list below a post. First pages are read for all posts that are shown together: a client that opens
// the comments of each post of a feed costs one statement. All these pages have the same size and start, so that one statement can
// read them. Later pages are of one post, because each has a position of its own.
func postListPage[P comparable, T, E any](ctx context.Context, r *Resolver, post *graph.Post, first *int, after *string, of postListSpec[P, T, E]) (edges []E, info graph.PageInfo, err error) {
	viewer, err := r.viewer(ctx)
	if err != nil {
		return nil, info, err
	}
	size, err := pageSize(first)
	if err != nil {
		return nil, info, err
	}
	// The page is also the key under which the loader keeps its list.
	page := posts.ListPageRequest[P]{Post: post.Number, After: of.from, Size: size}
	if after != nil {
		if page.After, err = of.parse(post.Number, *after); err != nil {
			return nil, info, err
		}
	}
	list, err := of.read(ctx, viewer.UserID, page, func() (pages []posts.ListPageRequest[P]) {
		if after == nil {
			for _, other := range post.Together {
				pages = append(pages, posts.ListPageRequest[P]{Post: other.ID, After: of.from, Size: size})
			}
		}
		return pages
	})
	if err != nil {
		return nil, info, err
	}
	// The cursors have their own slice, because the type E has no cursor that postListPage knows.
	edges, cursors := make([]E, len(list.Items)), make([]string, len(list.Items))
	for i, item := range list.Items {
		cursors[i] = of.text(post.Number, of.position(item))
		edges[i] = of.edge(cursors[i], item)
	}
	info.HasNextPage = list.More
	if len(cursors) > 0 {
		info.StartCursor, info.EndCursor = &cursors[0], &cursors[len(cursors)-1]
	}
	// The end cursor is the position of the last row that was read, which may be hidden from the viewer. Otherwise the next page
	// would begin at the same rows.
	if list.More {
		cursor := of.text(post.Number, list.Next)
		info.EndCursor = &cursor
	}
	return edges, info, nil
}
