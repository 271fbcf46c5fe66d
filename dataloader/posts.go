package dataloader

import (
	"context"
	"iter"
	"maps"

	"tidings/services"
	"tidings/services/posts"
)

// ShownPost is a post that was read as the parent of another post. ReadTogether has all posts of the same read, so that a field of
// one of them is read for all.
type ShownPost struct {
	posts.ShownPost
	ReadTogether []services.Post
}

// PostAnswerList is a page of the answers to a post. ReadTogether has the answers of all pages that were read with it, so that a field
// of one of them is read for all.
type PostAnswerList struct {
	posts.AnswerList
	ReadTogether []services.Post
}

// postDetails has what the response has read of posts beside the posts themselves. An engagement is the numbers of likes and comments
// of a post, and whether the viewer likes it.
type postDetails struct {
	engagement   batch[services.PostID, services.Engagement] // likes and comments of a post
	visiblePosts batch[services.PostID, ShownPost]           // posts that were read only if the viewer may see them
	answers      batch[posts.AnswersPage, PostAnswerList]    // pages of the answers to a post
	likes        batch[posts.LikesPage, posts.LikeList]      // pages of the likes of a post
}

// Engagement reads the engagement of a post: its numbers of likes and comments, and whether the viewer likes it. The same read covers the
// posts that are shown together with it. The caller has checked that the viewer may see these posts. A response has one viewer.
func (l *Loader) Engagement(ctx context.Context, post services.PostID, together func() []services.PostID, read func(context.Context, []services.PostID) (map[services.PostID]services.Engagement, error)) (services.Engagement, error) {
	of, _, err := l.currentMemory().postDetails.engagement.loadOne(ctx, post, together, read)
	return of, err
}

// VisiblePost reads a post with its engagement (likes and comments) for the viewer; found is false if the viewer may not see it. The
// posts that others returns are read in the same statement.
func (l *Loader) VisiblePost(ctx context.Context, post services.PostID, others func() []services.PostID, read func(context.Context, []services.PostID) (map[services.PostID]posts.ShownPost, error)) (shown ShownPost, found bool, err error) {
	m := l.currentMemory()
	return m.postDetails.visiblePosts.loadOne(ctx, post, others, func(ctx context.Context, ids []services.PostID) (map[services.PostID]ShownPost, error) {
		read, err := read(ctx, ids)
		// All posts get the same list of the posts that were read together, so that a field of one post is read for all.
		together := m.keepShownPosts(maps.Values(read))
		found := make(map[services.PostID]ShownPost, len(read))
		for id, post := range read {
			found[id] = ShownPost{post, together}
		}
		return found, err
	})
}

// keepShownPosts remembers the authors of posts and their engagement, which came with the posts: no field has to read it again. It returns
// the posts.
func (m *responseMemory) keepShownPosts(shown iter.Seq[posts.ShownPost]) (together []services.Post) {
	var authors []services.User
	engagements := map[services.PostID]services.Engagement{}
	for post := range shown {
		engagements[post.ID] = post.Engagement
		together, authors = append(together, post.Post), append(authors, post.By)
	}
	m.keepUsers(authors)
	m.postDetails.engagement.keepIfAbsent(engagements)
	return together
}

// itemsOf returns the items of all pages that were read.
func itemsOf[K, P comparable, T any](read map[K]services.ListPage[P, T]) iter.Seq[T] {
	return func(yield func(T) bool) {
		for _, list := range read {
			for _, item := range list.Items {
				if !yield(item) {
					return
				}
			}
		}
	}
}

// Answers reads a page of answers, each as the viewer may see it. The pages that others returns are read in the same statement.
func (l *Loader) Answers(ctx context.Context, page posts.AnswersPage, others func() []posts.AnswersPage, read func(context.Context, []posts.AnswersPage) (map[posts.AnswersPage]posts.AnswerList, error)) (PostAnswerList, error) {
	m := l.currentMemory()
	// The number of other pages that are read too is bounded, because the client may never request them.
	list, _, err := m.postDetails.answers.loadOneBounded(ctx, page, l.prefetchLimiter(page.Size), others, func(ctx context.Context, pages []posts.AnswersPage) (map[posts.AnswersPage]PostAnswerList, error) {
		read, err := read(ctx, pages)
		together := m.keepShownPosts(itemsOf(read))
		found := make(map[posts.AnswersPage]PostAnswerList, len(read))
		for page, list := range read {
			found[page] = PostAnswerList{list, together}
		}
		return found, err
	})
	return list, err
}

// Likes reads a page of the likes of a post. The pages that others returns are read in the same statement.
func (l *Loader) Likes(ctx context.Context, page posts.LikesPage, others func() []posts.LikesPage, read func(context.Context, []posts.LikesPage) (map[posts.LikesPage]posts.LikeList, error)) (posts.LikeList, error) {
	m := l.currentMemory()
	list, _, err := m.postDetails.likes.loadOneBounded(ctx, page, l.prefetchLimiter(page.Size), others, func(ctx context.Context, pages []posts.LikesPage) (map[posts.LikesPage]posts.LikeList, error) {
		found, err := read(ctx, pages)
		var users []services.User
		for like := range itemsOf(found) {
			users = append(users, like.By)
		}
		m.keepUsers(users)
		return found, err
	})
	return list, err
}
