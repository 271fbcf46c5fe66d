package jobs_test

import (
	"errors"
	"testing"

	"tidings/services/jobs"
	"tidings/services/sql"
)

// Jobs of one group that are committed together become one job, without the jobs of a function that failed.
func TestGroupedJobsBecomeOneJob(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		grouped := func(kind, group, name string) jobs.NewJob {
			return jobs.NewJob{Kind: kind, MergeGroup: group, Payload: []byte(name)}
		}
		broken := errors.New("broken")
		errs := b.WriteAll(b.Ctx, []func(*sql.Tx) error{
			func(tx *sql.Tx) error {
				return jobs.Enqueue(b.Ctx, tx, grouped("a", "1", "one"), grouped("a", "2", "two"))
			},
			func(tx *sql.Tx) error {
				if err := jobs.Enqueue(b.Ctx, tx, grouped("a", "1", "never"), newJobOfKindA("nor this", "")); err != nil {
					return err
				}
				return broken
			},
			func(tx *sql.Tx) error {
				return jobs.Enqueue(b.Ctx, tx, newJobOfKindA("by itself", ""), grouped("a", "1", "three"), grouped("b", "1", "four"), grouped("a", "1", "five"))
			},
		})
		if errs[0] != nil || !errors.Is(errs[1], broken) || errs[2] != nil {
			b.T.Errorf("the parts: %v", errs)
		}
		equal(b.T, payloadsOf(b.claim(10, "a")), []string{"by itself", "one\nthree\nfive", "two"})
		equal(b.T, payloadsOf(b.claim(10, "b")), []string{"four"})
		b.enqueue(grouped("a", "1", "alone"))
		equal(b.T, payloadsOf(b.claim(10, "a")), []string{"alone"})
		if errs := b.WriteAll(b.Ctx, []func(*sql.Tx) error{func(tx *sql.Tx) error {
			_ = jobs.Enqueue(b.Ctx, tx, grouped("a", "1", "undone")) // never fails, because a grouped job is added at the commit
			return broken
		}}); !errors.Is(errs[0], broken) {
			b.T.Errorf("a part alone: %v", errs)
		}
		equal(b.T, len(b.claim(10, "a")), 0)
	})
}
