package projector

import (
	"context"

	"tidings/services"
)

// ProjectProfile projects a user's profile into its copy in Redis.
func (p *Projector) ProjectProfile(ctx context.Context, user services.UserID) error {
	users, err := p.store.Users(ctx, []services.UserID{user})
	if err != nil {
		return err
	}
	return p.redis.PutCopies(ctx, nil, []services.User{users[user]})
}
