package social

import (
	"context"

	"tidings/services"
	"tidings/services/people"
)

// Relations reads how a viewer and some users relate to each other now, by one statement. A user without any relation is absent.
func (s *Service) Relations(ctx context.Context, viewer services.UserID, users []services.UserID) (map[services.UserID]services.Relation, error) {
	return people.Relations(ctx, s.db, viewer, users, s.db.Now())
}

// Followers reads pages of users' followers, by one statement. A page has only followers that the viewer may see. A user who
// hides from the viewer or blocks them has no followers for the viewer.
func (s *Service) Followers(ctx context.Context, viewer services.UserID, pages []services.UserPageRequest) (map[services.UserPageRequest]services.UserListPage[services.User], error) {
	return people.ListFollowers(ctx, s.db, viewer, pages)
}

// Followees reads pages of the users that users follow, by one statement. A page has only followees that the viewer may see; the viewer's
// own list is complete. A user who hides from the viewer or blocks them has no followees for the viewer.
func (s *Service) Followees(ctx context.Context, viewer services.UserID, pages []services.UserPageRequest) (map[services.UserPageRequest]services.UserListPage[services.User], error) {
	return people.ListFollowees(ctx, s.db, viewer, pages)
}
