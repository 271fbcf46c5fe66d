package feed

import (
	"context"

	"tidings/services"
	"tidings/services/store"
)

// Engagements reads how many likes and answers posts have, and whether a viewer likes them, by one query. Every post is in the
// result. The caller has checked that the viewer may see the posts.
func (s *Service) Engagements(ctx context.Context, viewer services.UserID, posts []services.PostID) (map[services.PostID]services.Engagement, error) {
	return s.store.Engagements(ctx, viewer, posts)
}

// Visible reads posts that a viewer may see, by one query. Those that are deleted or hidden from the viewer are absent.
func (s *Service) Visible(ctx context.Context, viewer services.UserID, posts []services.PostID) (map[services.PostID]store.ShownPost, error) {
	return s.store.Visible(ctx, viewer, posts)
}

// Answers reads pages of answers to posts that a viewer may see, by one query.
func (s *Service) Answers(ctx context.Context, viewer services.UserID, pages []store.AnswersPage) (map[store.AnswersPage]store.AnswerList, error) {
	return s.store.Answers(ctx, viewer, pages)
}

// Likes reads pages of the likes of posts that a viewer may see, by one query.
func (s *Service) Likes(ctx context.Context, viewer services.UserID, pages []store.LikesPage) (map[store.LikesPage]store.LikeList, error) {
	return s.store.Likes(ctx, viewer, pages)
}
