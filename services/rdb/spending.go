package rdb

import (
	"context"
	"time"

	"tidings/services/redis"
)

// spendingKeyLifetime is how long a total is kept after its last addition: longer than any window that still counts. Totals need no
// cleaner.
const spendingKeyLifetime = time.Minute

// SpendingLedger adds up in Redis what the nodes use of rate limits. It is safe for concurrent use.
type SpendingLedger struct{ Client *redis.Client }

// Spend adds this node's use of some rate limits to the totals of all nodes, in one round trip, and returns the totals. A
// total belongs to one window. If an error comes after a write, the use is counted although the caller does not learn the
// total: the limit is then a little stricter.
func (l SpendingLedger) Spend(ctx context.Context, window int64, buckets []string, amounts []int) ([]int, error) {
	commands, err := l.Client.Pipeline(ctx, func(p redis.Pipeliner) {
		for i, bucket := range buckets {
			key := spendingKey(window, bucket)
			p.IncrBy(ctx, key, int64(amounts[i]))
			p.Expire(ctx, key, spendingKeyLifetime)
		}
	})
	if err != nil {
		return nil, err
	}
	totals := make([]int, len(buckets))
	// Each bucket has two commands; the first has the total.
	for i := range totals {
		total, err := commands[2*i].(*redis.IntCmd).Result()
		if err != nil {
			return nil, redis.MapError(err)
		}
		totals[i] = int(total)
	}
	return totals, nil
}
