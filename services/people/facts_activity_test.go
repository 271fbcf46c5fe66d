package people_test

import (
	"testing"
	"time"

	"tidings/services"
	"tidings/services/people"
	"tidings/services/sql"
)

func TestActivityThresholdsAreKept(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		if _, set, err := people.ActivityThresholds(b.Ctx, b.TestDB.DB); set || err != nil {
			b.T.Fatalf("thresholds stand before anybody set them: %v", err)
		}
		for i, want := range []services.ActivityThresholds{
			{IdleAfter: time.Hour, DormantAfter: 2 * time.Hour, FormerIdleCutoff: b.Clock.Now().UTC()},
			{IdleAfter: services.MaxActivityThreshold, DormantAfter: services.MaxActivityThreshold, FormerIdleCutoff: b.Clock.Now().UTC().Add(time.Microsecond)},
		} {
			byAdmin := i == 1
			b.MustWrite(func(tx *sql.Tx) error { return people.SetActivityThresholds(b.Ctx, tx, want, byAdmin) })
			got, set, err := people.ActivityThresholds(b.Ctx, b.TestDB.DB)
			if got.FormerIdleCutoff = got.FormerIdleCutoff.UTC(); !set || err != nil || got != want {
				b.T.Errorf("the thresholds are %v (%v, %v), want %v", got, set, err, want)
			}
			b.MustWrite(func(tx *sql.Tx) error {
				got, set, admin, err := people.ActivityThresholdsForUpdate(b.Ctx, tx)
				if got.FormerIdleCutoff = got.FormerIdleCutoff.UTC(); !set || err != nil || got != want || admin != byAdmin {
					b.T.Errorf("in a transaction they are %v (%v, %v, %v), want %v, %v", got, set, admin, err, want, byAdmin)
				}
				return nil
			})
		}
	})
}
