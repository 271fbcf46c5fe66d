package people_test

import (
	"testing"
	"time"

	"tidings/services"
	"tidings/services/people"
	"tidings/services/sql"
)

func TestActivityThresholdsAreKept(t *testing.T) {
	eachStore(t, func(b *testStore) {
		if _, set, err := people.ActivityThresholds(b.ctx, b.TestStore.DB); set || err != nil {
			b.t.Fatalf("thresholds stand before anybody set them: %v", err)
		}
		for i, want := range []services.ActivityThresholds{
			{IdleAfter: time.Hour, DormantAfter: 2 * time.Hour, FormerIdleCutoff: b.clock.Now().UTC()},
			{IdleAfter: services.MaxActivityThreshold, DormantAfter: services.MaxActivityThreshold, FormerIdleCutoff: b.clock.Now().UTC().Add(time.Microsecond)},
		} {
			byAdmin := i == 1
			b.write(func(tx *sql.Tx) error { return people.SetActivityThresholds(b.ctx, tx, want, byAdmin) })
			got, set, err := people.ActivityThresholds(b.ctx, b.TestStore.DB)
			if got.FormerIdleCutoff = got.FormerIdleCutoff.UTC(); !set || err != nil || got != want {
				b.t.Errorf("the thresholds are %v (%v, %v), want %v", got, set, err, want)
			}
			b.write(func(tx *sql.Tx) error {
				got, set, admin, err := people.ActivityThresholdsForUpdate(b.ctx, tx)
				if got.FormerIdleCutoff = got.FormerIdleCutoff.UTC(); !set || err != nil || got != want || admin != byAdmin {
					b.t.Errorf("in a transaction they are %v (%v, %v, %v), want %v, %v", got, set, admin, err, want, byAdmin)
				}
				return nil
			})
		}
	})
}
