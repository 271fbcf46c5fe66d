package resolvers

import (
	"context"

	"tidings/dataloader"
	"tidings/graph"
	"tidings/services"
	"tidings/services/store"
)

// What users did with a post is read once for all posts that are shown together, by one query a kind. Posts that are read as a
// part of another come with all of it, and from SQL: their page has used its round trips to Redis.

// engagement reads what the viewer is told of a post.
func (r *Resolver) engagement(ctx context.Context, post *graph.Post) (services.Engagement, error) {
	viewer, err := r.viewer(ctx)
	if err != nil {
		return services.Engagement{}, err
	}
	together := func() []services.PostID {
		ids := make([]services.PostID, len(post.Together))
		for i, other := range post.Together {
			ids[i] = other.ID
		}
		return ids
	}
	return dataloader.From(ctx).Engagement(ctx, post.Key, together, func(ctx context.Context, posts []services.PostID) (map[services.PostID]services.Engagement, error) {
		return r.Feed.Engagements(ctx, viewer.Number, posts)
	})
}

// parentOf reads the post that one answers; nil where the viewer may not see it.
func (r *Resolver) parentOf(ctx context.Context, post *graph.Post) (*graph.Post, error) {
	if post.Answers == 0 {
		return nil, nil
	}
	viewer, err := r.viewer(ctx)
	if err != nil {
		return nil, err
	}
	others := func() (ids []services.PostID) {
		for _, other := range post.Together {
			if other.Parent != 0 {
				ids = append(ids, other.Parent)
			}
		}
		return ids
	}
	parent, found, err := dataloader.From(ctx).Visible(ctx, post.Answers, others, func(ctx context.Context, posts []services.PostID) (map[services.PostID]store.ShownPost, error) {
		return r.Feed.Visible(ctx, viewer.Number, posts)
	})
	if err != nil || !found {
		return nil, err
	}
	shown := graphPost(parent.Post, parent.By, parent.Together)
	return &shown, nil
}

// commentsOf makes a page of the answers to a post.
func (r *Resolver) commentsOf(ctx context.Context, post *graph.Post, first *int, after *string) (*graph.CommentConnection, error) {
	viewer, err := r.viewer(ctx)
	if err != nil {
		return nil, err
	}
	size, err := pageSize(first)
	if err != nil {
		return nil, err
	}
	page := store.AnswersPage{Post: post.Key, Before: services.MaxPostID, Size: size}
	pages := []store.AnswersPage{page}
	if after != nil {
		if page.Before, err = parseCommentCursor(post.Key, *after); err != nil {
			return nil, err
		}
		pages[0] = page
	} else {
		for _, other := range post.Together {
			if other.ID != post.Key {
				pages = append(pages, store.AnswersPage{Post: other.ID, Before: page.Before, Size: size})
			}
		}
	}
	found, err := dataloader.From(ctx).Answers(ctx, pages, func(ctx context.Context, pages []store.AnswersPage) (map[store.AnswersPage]store.AnswerList, error) {
		return r.Feed.Answers(ctx, viewer.Number, pages)
	})
	if err != nil {
		return nil, err
	}
	list := found[page]
	result := &graph.CommentConnection{Edges: make([]graph.CommentEdge, len(list.Answers)), PageInfo: graph.PageInfo{HasNextPage: list.More}}
	for i, answer := range list.Answers {
		result.Edges[i] = graph.CommentEdge{Cursor: commentCursorText(post.Key, answer.ID), Node: graphPost(answer.Post, answer.By, list.Together)}
	}
	if len(result.Edges) > 0 {
		result.PageInfo.StartCursor, result.PageInfo.EndCursor = &result.Edges[0].Cursor, &result.Edges[len(result.Edges)-1].Cursor
	}
	if list.More {
		cursor := commentCursorText(post.Key, list.Next)
		result.PageInfo.EndCursor = &cursor
	}
	return result, nil
}

// likesOf makes a page of the likes of a post.
func (r *Resolver) likesOf(ctx context.Context, post *graph.Post, first *int, after *string) (*graph.LikeConnection, error) {
	viewer, err := r.viewer(ctx)
	if err != nil {
		return nil, err
	}
	size, err := pageSize(first)
	if err != nil {
		return nil, err
	}
	page := store.LikesPage{Post: post.Key, After: store.FirstLike, Size: size}
	pages := []store.LikesPage{page}
	if after != nil {
		if page.After, err = parseLikeCursor(post.Key, *after); err != nil {
			return nil, err
		}
		pages[0] = page
	} else {
		for _, other := range post.Together {
			if other.ID != post.Key {
				pages = append(pages, store.LikesPage{Post: other.ID, After: page.After, Size: size})
			}
		}
	}
	found, err := dataloader.From(ctx).Likes(ctx, pages, func(ctx context.Context, pages []store.LikesPage) (map[store.LikesPage]store.LikeList, error) {
		return r.Feed.Likes(ctx, viewer.Number, pages)
	})
	if err != nil {
		return nil, err
	}
	list := found[page]
	result := &graph.LikeConnection{Edges: make([]graph.LikeEdge, len(list.Likes)), PageInfo: graph.PageInfo{HasNextPage: list.More}}
	for i, like := range list.Likes {
		result.Edges[i] = graph.LikeEdge{Cursor: likeCursorText(post.Key, like.Place()), Node: graphUser(like.By), LikedAt: like.At}
	}
	if len(result.Edges) > 0 {
		result.PageInfo.StartCursor, result.PageInfo.EndCursor = &result.Edges[0].Cursor, &result.Edges[len(result.Edges)-1].Cursor
	}
	if list.More {
		cursor := likeCursorText(post.Key, list.Next)
		result.PageInfo.EndCursor = &cursor
	}
	return result, nil
}
