package rdb

import (
	"context"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"tidings/services"
)

// Enter says that the users have open subscriptions on this node, until now + lease unless it is said again.
func (c *Client) Enter(ctx context.Context, users []services.UserNumber, lease time.Duration) error {
	until := strconv.FormatInt(c.clock().Now().Add(lease).UnixMilli(), 10)
	return c.presence(ctx, func(p redis.Pipeliner) {
		for _, user := range users {
			p.HSet(ctx, onlineKey(user), c.node(), until)
			p.Expire(ctx, onlineKey(user), lease)
		}
	})
}

// Leave takes this node out of the users' presence.
func (c *Client) Leave(ctx context.Context, users []services.UserNumber) error {
	return c.presence(ctx, func(p redis.Pipeliner) {
		for _, user := range users {
			p.HDel(ctx, onlineKey(user), c.node())
		}
	})
}

func (c *Client) presence(ctx context.Context, fill func(redis.Pipeliner)) error {
	commands, err := c.readViews(ctx, fill)
	if err != nil {
		return err
	}
	for _, command := range commands {
		if err := command.Err(); err != nil {
			return unavailable(err)
		}
	}
	return nil
}
