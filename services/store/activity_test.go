package store_test

import (
	"testing"
	"time"

	"tidings/services"
	"tidings/services/store"
)

func TestActivityThresholdsAreKept(t *testing.T) {
	each(t, func(b *bundle) {
		if _, set, err := b.ActivityThresholds(b.ctx); set || err != nil {
			b.t.Fatalf("thresholds stand before anybody set them: %v", err)
		}
		for i, want := range []services.ActivityThresholds{
			{IdleAfter: time.Hour, DormantAfter: 2 * time.Hour, AwayBefore: b.clock.Now().UTC()},
			{IdleAfter: services.MaxActivityThreshold, DormantAfter: services.MaxActivityThreshold, AwayBefore: b.clock.Now().UTC().Add(time.Microsecond)},
		} {
			byAdmin := i == 1
			b.write(func(tx *store.Tx) error { return tx.SetActivityThresholds(b.ctx, want, byAdmin) })
			got, set, err := b.ActivityThresholds(b.ctx)
			if got.AwayBefore = got.AwayBefore.UTC(); !set || err != nil || got != want {
				b.t.Errorf("the thresholds are %v (%v, %v), want %v", got, set, err, want)
			}
			b.write(func(tx *store.Tx) error {
				got, set, admin, err := tx.ActivityThresholdsForUpdate(b.ctx)
				if got.AwayBefore = got.AwayBefore.UTC(); !set || err != nil || got != want || admin != byAdmin {
					b.t.Errorf("in a transaction they are %v (%v, %v, %v), want %v, %v", got, set, admin, err, want, byAdmin)
				}
				return nil
			})
		}
	})
}
