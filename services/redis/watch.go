package redis

import (
	"context"
	"time"

	"tidings/services"
)

// masterCheckInterval is the time between two checks of the masters. It bounds how long a node that only reads trusts a Redis that has
// lost data or refuses writes.
const masterCheckInterval = time.Second

// WatchMasters asks the masters each second until ctx ends: for their lineages, which show whether they have lost anything, and to
// accept a write. A late master is prepared first.
func (c *Client) WatchMasters(ctx context.Context) error {
	return services.Every(ctx, masterCheckInterval, func(ctx context.Context) {
		// The order matters: a late Redis has neither a lineage nor anything to be written before it is prepared.
		for _, check := range []func(context.Context) error{c.prepareLate, c.CheckEpoch, c.CheckWrites} {
			if err := check(ctx); err != nil && ctx.Err() == nil {
				c.log.Debug("a check of the Redis masters failed; it is repeated each second", "error", err)
			}
		}
	})
}
