package feed

import (
	"context"

	"tidings/services"
	"tidings/services/posts"
)

// Engagements reads how many likes and answers posts have, and whether a viewer likes them, by one query. Every post is in the
// result. The caller has checked that the viewer may see the posts.
func (s *Service) Engagements(ctx context.Context, viewer services.UserID, ids []services.PostID) (map[services.PostID]services.Engagement, error) {
	return posts.Engagements(ctx, s.db, viewer, ids)
}

// VisiblePosts reads posts that a viewer may see, by one query. Deleted posts and posts that are hidden from the viewer are absent,
// and so look like posts that never existed.
func (s *Service) VisiblePosts(ctx context.Context, viewer services.UserID, ids []services.PostID) (map[services.PostID]posts.ShownPost, error) {
	return posts.ShownTo(ctx, s.db, viewer, ids)
}

// Answers reads pages of answers to posts that a viewer may see, by one query.
func (s *Service) Answers(ctx context.Context, viewer services.UserID, pages []posts.AnswersPage) (map[posts.AnswersPage]posts.AnswerList, error) {
	return posts.Answers(ctx, s.db, viewer, pages)
}

// Likes reads pages of the likes of posts that a viewer may see, by one query.
func (s *Service) Likes(ctx context.Context, viewer services.UserID, pages []posts.LikesPage) (map[posts.LikesPage]posts.LikeList, error) {
	return posts.Likes(ctx, s.db, viewer, pages)
}

// PublishedPosts reads pages of users' posts, by one query: only posts that home feeds list. A user who hides from the viewer or
// blocks them has none.
func (s *Service) PublishedPosts(ctx context.Context, viewer services.UserID, pages []services.UserPageRequest) (map[services.UserPageRequest]services.UserListPage[posts.ShownPost], error) {
	return posts.PublishedPosts(ctx, s.db, viewer, pages)
}
