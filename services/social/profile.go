package social

import (
	"context"

	"tidings/services"
)

// Relations reads what a viewer and some users are to each other, now, by one statement. A user without any relation is absent.
func (s *Service) Relations(ctx context.Context, viewer services.UserID, users []services.UserID) (map[services.UserID]services.Relation, error) {
	return s.store.Relations(ctx, viewer, users, s.store.Now())
}
