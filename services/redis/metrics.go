package redis

import "tidings/services/metrics"

// Metrics describes what this node knows of its Redis.
func (c *Client) Metrics() []metrics.Group {
	return []metrics.Group{metrics.Of(c,
		metrics.Flag("redis_refuses_writes", "1 while Redis answers but refuses writes, so that counts are STALE.", (*Client).RefusesWrites),
	)}
}
