package projector

import (
	"context"

	"tidings/services"
	"tidings/services/people"
)

// ProjectProfile projects a user's profile into its copy in Redis.
func (p *Projector) ProjectProfile(ctx context.Context, user services.UserID) error {
	users, err := people.ByID(ctx, p.store, []services.UserID{user})
	if err != nil {
		return err
	}
	return p.redis.PutCopies(ctx, nil, []services.User{users[user]})
}
