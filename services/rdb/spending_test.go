package rdb

import (
	"slices"
	"testing"

	"tidings/services/redis"
)

func TestSpendingAddsUpWithinAWindow(t *testing.T) {
	eachRedis(t, func(v feedTest) {
		ledger := SpendingLedger{v.projections.Client}
		ctx, trips := redis.WithRoundTrips(v.Context())
		spend := func(window int64, buckets []string, amounts []int, want ...int) {
			t.Helper()
			got, err := ledger.Spend(ctx, window, buckets, amounts)
			v.must(err)
			if !slices.Equal(got, want) {
				v.Errorf("window %d, %v of %v: %v: want %v", window, amounts, buckets, got, want)
			}
		}
		spend(1, []string{"a", "b"}, []int{5, 7}, 5, 7)
		spend(1, []string{"b", "a"}, []int{1, 2}, 8, 7)
		spend(2, []string{"a"}, []int{3}, 3)
		if trips.Count() != 3 {
			v.Errorf("%d round trips: want 3", trips.Count())
		}
		if left, err := v.projections.Client.Commands().TTL(v.Context(), spendingKey(1, "a")).Result(); err != nil || left <= 0 || left > spendingKeyLifetime {
			v.Errorf("a total lives for %s, %v: want %s", left, err, spendingKeyLifetime)
		}
	})
}

func TestSpendingIntoAKeyOfTheWrongTypeIsAnError(t *testing.T) {
	eachRedis(t, func(v feedTest) {
		v.must(v.projections.Client.Commands().LPush(v.Context(), spendingKey(1, "a"), "a key of another type").Err())
		ledger := SpendingLedger{v.projections.Client}
		if totals, err := ledger.Spend(v.Context(), 1, []string{"a"}, []int{1}); err == nil {
			v.Errorf("a key of another type: %v, and no error", totals)
		}
	})
}
