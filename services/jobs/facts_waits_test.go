package jobs_test

import (
	"testing"
	"time"

	"tidings/services/jobs"
	"tidings/services/sql"
)

// jobs.AnyJobWaits reports whether one of the jobs up to a given one is still to be done. It counts jobs that are leased or will be tried
// again, but no jobs after the given one and no jobs that are planned for a later time.
func TestJobWaitsCountsOnlyEarlierJobs(t *testing.T) {
	eachStore(t, func(b *testStore) {
		waits := func(upTo int64) bool {
			b.t.Helper()
			return must(jobs.AnyJobWaits(b.ctx, b.DB, upTo, b.clock.Now(), b.clock.Now().Add(time.Minute)))(b.t)
		}
		last := func() int64 { return must(jobs.LastID(b.ctx, b.DB))(b.t) }
		if waits(last()) {
			b.t.Error("of nothing something waits")
		}
		b.write(func(tx *sql.Tx) error { return jobs.Enqueue(b.ctx, tx, jobs.NewJob{Kind: "k", Key: "1"}) })
		before := last()
		b.write(func(tx *sql.Tx) error {
			return jobs.Enqueue(b.ctx, tx, jobs.NewJob{Kind: "k", Key: "2", NotBefore: b.clock.Now().Add(40 * time.Second)})
		})
		if !waits(before) || !waits(last()) {
			b.t.Error("a job that is due is not waited for")
		}
		queued := must(jobs.Claim(b.ctx, b.DB, []string{"k"}, 10, 30*time.Second, 0))(b.t)
		if !waits(before) {
			b.t.Error("a job that is leased is not waited for")
		}
		must(jobs.Fail(b.ctx, b.DB, queued[0], errDeliberate, b.clock.Now().Add(30*time.Second), 9))(b.t)
		if !waits(before) {
			b.t.Error("a job that will be tried again is not waited for")
		}
		b.clock.Advance(30 * time.Second)
		queued = must(jobs.Claim(b.ctx, b.DB, []string{"k"}, 10, 30*time.Second, 0))(b.t)
		must(jobs.FinishIfHeld(b.ctx, b.DB, queued))(b.t)
		if waits(before) || waits(last()) {
			b.t.Error("it is done, and the other is for later")
		}
		b.write(func(tx *sql.Tx) error { return jobs.Enqueue(b.ctx, tx, jobs.NewJob{Kind: "k", Key: "3"}) })
		if waits(before) || !waits(last()) {
			b.t.Error("a later job is taken for one of before")
		}
	})
}
