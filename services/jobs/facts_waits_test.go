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
	eachTestDB(t, func(b *testDB) {
		waits := func(upTo int64) bool {
			b.T.Helper()
			return must(jobs.AnyJobWaits(b.Ctx, b.DB, upTo, b.Clock.Now(), b.Clock.Now().Add(time.Minute)))(b.T)
		}
		last := func() int64 { return must(jobs.LastID(b.Ctx, b.DB))(b.T) }
		if waits(last()) {
			b.T.Error("of nothing something waits")
		}
		b.MustWrite(func(tx *sql.Tx) error { return jobs.Enqueue(b.Ctx, tx, jobs.NewJob{Kind: "k", Key: "1"}) })
		before := last()
		b.MustWrite(func(tx *sql.Tx) error {
			return jobs.Enqueue(b.Ctx, tx, jobs.NewJob{Kind: "k", Key: "2", NotBefore: b.Clock.Now().Add(40 * time.Second)})
		})
		if !waits(before) || !waits(last()) {
			b.T.Error("a job that is due is not waited for")
		}
		queued := must(jobs.Claim(b.Ctx, b.DB, []string{"k"}, 10, 30*time.Second, 0))(b.T)
		if !waits(before) {
			b.T.Error("a job that is leased is not waited for")
		}
		must(jobs.Fail(b.Ctx, b.DB, queued[0], errDeliberate, b.Clock.Now().Add(30*time.Second), 9))(b.T)
		if !waits(before) {
			b.T.Error("a job that will be tried again is not waited for")
		}
		b.Clock.Advance(30 * time.Second)
		queued = must(jobs.Claim(b.Ctx, b.DB, []string{"k"}, 10, 30*time.Second, 0))(b.T)
		must(jobs.FinishIfHeld(b.Ctx, b.DB, queued))(b.T)
		if waits(before) || waits(last()) {
			b.T.Error("it is done, and the other is for later")
		}
		b.MustWrite(func(tx *sql.Tx) error { return jobs.Enqueue(b.Ctx, tx, jobs.NewJob{Kind: "k", Key: "3"}) })
		if waits(before) || !waits(last()) {
			b.T.Error("a later job is taken for one of before")
		}
	})
}
