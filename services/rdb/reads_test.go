package rdb

import (
	"context"
	"testing"
	"tidings/services"
	"tidings/services/redis"
	"tidings/services/redis/clienttest"
)

// While Redis hangs, the guard of reads lets every kind of read fail at once, except for one read now and then that tries Redis again.
func TestEveryReadOfAHungRedisIsGuarded(t *testing.T) {
	user := services.UserID(1)
	open := func(t *testing.T, options redis.Options) *Projections { return openProjections(t, options) }
	clienttest.EveryReadIsGuarded(t, open, map[string]func(ctx context.Context, c *Projections) error{
		"document": func(ctx context.Context, c *Projections) error {
			_, err := c.Documents(ctx, []services.UserID{user})
			return err
		},
		"documents": func(ctx context.Context, c *Projections) error {
			_, err := c.Documents(ctx, []services.UserID{user, 2})
			return err
		},
		"inbox": func(ctx context.Context, c *Projections) error {
			_, err := c.Inbox(ctx, user, services.MaxPostID, 20)
			return err
		},
		"copies": func(ctx context.Context, c *Projections) error {
			_, _, err := c.Copies(ctx, []services.PostID{1}, []services.UserID{user})
			return err
		},
	})
}
