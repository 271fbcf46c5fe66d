package jobs_test

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"tidings/services/jobs"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
)

// A job is claimed once, as it was queued. It is counted as waiting until it is finished.
func TestJobs(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		equal(b.T, len(b.claim(10, "a")), 0)
		made := b.Clock.Now()
		b.enqueue(jobs.NewJob{Kind: "a", Key: "k", Payload: []byte{0, 255, 1}}, jobs.NewJob{Kind: "b"})
		b.Clock.Advance(time.Second)
		queued := b.claim(10, "a", "b", "c")
		equal(b.T, len(queued), 2)
		if queued[0].LeaseToken == "" || queued[0].ID == queued[1].ID {
			b.T.Errorf("the jobs are %v", queued)
		}
		equal(b.T, queued[0], jobs.Job{ID: queued[0].ID, Kind: "a", Key: "k", Payload: []byte{0, 255, 1}, LeaseToken: queued[0].LeaseToken, CreatedAt: made})
		equal(b.T, len(b.claim(10, "a", "b")), 0)
		waiting, dead, oldest, err := jobs.JobCounts(b.Ctx, b.DB)
		equal(b.T, []any{waiting, dead, oldest, err}, []any{2, 0, made, error(nil)})
		equal(b.T, must(jobs.FinishIfHeld(b.Ctx, b.DB, queued))(b.T), 2)
		equal(b.T, must(jobs.FinishIfHeld(b.Ctx, b.DB, queued))(b.T), 0)
		waiting, dead, oldest, err = jobs.JobCounts(b.Ctx, b.DB)
		equal(b.T, []any{waiting, dead, oldest, err}, []any{0, 0, time.Time{}, error(nil)})
	})
}

func TestClaimTakesTheLongestDueOfItsKinds(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		at := func(kind, name string, after time.Duration) {
			b.enqueue(jobs.NewJob{Kind: kind, Payload: []byte(name), NotBefore: b.Clock.Now().Add(after)})
		}
		at("a", "3", 3*time.Second)
		at("b", "1", time.Second)
		at("c", "other", 0)
		at("a", "2", 2*time.Second)
		at("b", "4", 4*time.Second)
		at("b", "later", time.Hour)
		equal(b.T, len(b.claim(10, "a", "b")), 0)
		b.Clock.Advance(time.Minute)
		equal(b.T, payloadsOf(b.claim(3, "a", "b")), []string{"1", "2", "3"})
		equal(b.T, payloadsOf(b.claim(3, "a", "b")), []string{"4"})
		equal(b.T, len(b.claim(0, "c")), 0)
		equal(b.T, len(b.claim(3)), 0)
	})
}

func TestAJobIsDueExactlyAtItsTime(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		b.enqueue(jobs.NewJob{Kind: "a", NotBefore: b.Clock.Now().Add(time.Second)})
		b.Clock.Advance(time.Second - time.Microsecond)
		equal(b.T, len(b.claim(1, "a")), 0)
		b.Clock.Advance(time.Microsecond)
		equal(b.T, len(b.claim(1, "a")), 1)
	})
}

func TestJobsOfOneKeyCollapseToTheLast(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		b.enqueue(newJobOfKindA("held", "x"))
		held := b.claim(1, "a")
		b.enqueue(newJobOfKindA("1", "x"), newJobOfKindA("2", ""), newJobOfKindA("3", "y"), newJobOfKindA("4", "x"), newJobOfKindA("5", ""), newJobOfKindA("6", "x"))
		b.enqueue(jobs.NewJob{Kind: "b", Key: "x", Payload: []byte("7")})
		b.enqueue(jobs.NewJob{Kind: "a", Key: "x", Payload: []byte("later"), NotBefore: b.Clock.Now().Add(time.Hour)})
		queued := b.claim(10, "a", "b")
		equal(b.T, payloadsOf(queued), []string{"6", "2", "3", "5", "7"}) // for each key the last job, at the position of the first
		b.wantJobCounts(7, 0)                                             // including the held job and the planned job
		equal(b.T, must(jobs.FinishIfHeld(b.Ctx, b.DB, held))(b.T), 1)
		equal(b.T, must(jobs.FinishIfHeld(b.Ctx, b.DB, queued))(b.T), 5)
		b.Clock.Advance(time.Hour)
		equal(b.T, payloadsOf(b.claim(10, "a", "b")), []string{"later"})
	})
}

// After the lease of a job has expired and another worker has claimed the job, the former holder cannot finish, release, extend or fail
// the job.
func TestAHolderOfAnExpiredLeaseCannotChangeTheJob(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		b.enqueue(newJobOfKindA("1", ""), newJobOfKindA("2", ""))
		late := b.claim(10, "a")
		b.Clock.Advance(jobLease - time.Microsecond)
		equal(b.T, len(b.claim(10, "a")), 0)
		b.Clock.Advance(time.Microsecond)
		now := b.claim(10, "a")
		equal(b.T, payloadsOf(now), []string{"1", "2"})
		equal(b.T, must(jobs.FinishIfHeld(b.Ctx, b.DB, late))(b.T), 0)
		if err := errors.Join(jobs.Release(b.Ctx, b.DB, late, b.Clock.Now()), jobs.Extend(b.Ctx, b.DB, late, 10*time.Hour)); err != nil {
			b.T.Fatal(err)
		}
		dead, err := jobs.Fail(b.Ctx, b.DB, late[0], errDeliberate, b.Clock.Now(), 1)
		equal(b.T, []any{dead, err}, []any{false, error(nil)})
		equal(b.T, len(b.claim(10, "a")), 0)
		b.wantJobCounts(2, 0)
		// Calls with a job that was never leased have no effect either.
		for i := range late {
			late[i].LeaseToken = ""
		}
		equal(b.T, must(jobs.FinishIfHeld(b.Ctx, b.DB, late))(b.T), 0)
		if err := jobs.Release(b.Ctx, b.DB, now, b.Clock.Now()); err != nil {
			b.T.Fatal(err)
		}
		equal(b.T, must(jobs.FinishIfHeld(b.Ctx, b.DB, late))(b.T), 0)
		dead, err = jobs.Fail(b.Ctx, b.DB, late[0], errDeliberate, b.Clock.Now(), 1)
		equal(b.T, []any{dead, err}, []any{false, error(nil)})
		b.wantJobCounts(2, 0)
	})
}

// SQLite serves one process, so at its start every lease belongs to a dead process. On PostgreSQL a lease may belong to another
// node.
func TestLeasesOfADeadProcess(t *testing.T) {
	sqltest.EachURL(t, func(t *testing.T, url string) {
		before := newTestDB(t, url)
		before.enqueue(newJobOfKindA("1", ""))
		held := before.claim(1, "a")
		equal(t, len(held), 1)
		if err := before.Close(); err != nil {
			t.Fatal(err)
		}
		after := newTestDB(t, url)
		want := 0
		if after.DialectName() == "sqlite" {
			want = 1
		}
		for _, want := range []int{want, 0} {
			freed, left, err := jobs.FreeOwnJobs(after.Ctx, after.DB, 10)
			equal(t, []any{freed, left, err}, []any{want, []jobs.Job(nil), error(nil)})
			equal(t, len(after.claim(1, "a")), want) // the second round must not free leases that this process has taken
		}
		equal(t, must(jobs.FinishIfHeld(after.Ctx, after.DB, held))(t), 1-want)
	})
}

func TestExtendAndRelease(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		b.enqueue(newJobOfKindA("1", ""), newJobOfKindA("2", ""))
		queued := b.claim(10, "a")
		b.Clock.Advance(jobLease / 2)
		if err := jobs.Extend(b.Ctx, b.DB, queued[:1], jobLease); err != nil {
			b.T.Fatal(err)
		}
		b.Clock.Advance(jobLease / 2)
		equal(b.T, payloadsOf(b.claim(10, "a")), []string{"2"})
		if err := jobs.Release(b.Ctx, b.DB, queued[:1], b.Clock.Now().Add(time.Second)); err != nil {
			b.T.Fatal(err)
		}
		equal(b.T, len(b.claim(10, "a")), 0)
		b.Clock.Advance(time.Second)
		again := b.claim(10, "a")
		equal(b.T, payloadsOf(again), []string{"1"})
		equal(b.T, again[0].Tries, 0)
	})
}

func TestFailTriesAgainAndGivesUp(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		b.enqueue(newJobOfKindA("1", "k"))
		for try := range 3 {
			queued := b.claim(1, "a")
			equal(b.T, queued[0].Tries, try)
			dead, err := jobs.Fail(b.Ctx, b.DB, queued[0], fmt.Errorf("try %d: %w", try, errDeliberate), b.Clock.Now().Add(time.Minute), 3)
			equal(b.T, []any{dead, err}, []any{try == 2, error(nil)})
			equal(b.T, len(b.claim(1, "a")), 0)
			b.Clock.Advance(time.Minute)
		}
		b.wantJobCounts(0, 1)
		equal(b.T, len(b.claim(1, "a")), 0)
		buried := must(sqltest.QueryLines(b.Ctx, b, "SELECT kind, key, tries, error FROM dead_jobs"))(b.T)
		equal(b.T, buried, []string{"a k 3 try 2: mine"})
	})
}

var errLeaseLost = errors.New("a lease was lost") // what a split in TestSplitIsAtomic returns if the job's lease was lost

// A split replaces a job by its parts, or does nothing if the job's lease was lost.
func TestSplitIsAtomic(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		b.enqueue(newJobOfKindA("whole", "k"))
		split := func(queued []jobs.Job) error {
			return b.Write(b.Ctx, func(tx *sql.Tx) error {
				if err := jobs.Enqueue(b.Ctx, tx, newJobOfKindA("part 1", ""), newJobOfKindA("part 2", "")); err != nil {
					return err
				}
				n, err := jobs.FinishInTx(b.Ctx, tx, queued)
				if err == nil && n < len(queued) {
					err = errLeaseLost
				}
				return err
			})
		}
		late := b.claim(1, "a")
		b.Clock.Advance(jobLease)
		now := b.claim(1, "a")
		if err := split(late); !errors.Is(err, errLeaseLost) {
			b.T.Errorf("a late split was answered with %v", err)
		}
		b.wantJobCounts(1, 0)
		if err := split(now); err != nil {
			b.T.Error(err)
		}
		equal(b.T, payloadsOf(b.claim(10, "a")), []string{"part 1", "part 2"})
	})
}

func TestAnUndoneWriteQueuesNoJobs(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		err := b.Write(b.Ctx, func(tx *sql.Tx) error {
			return errors.Join(jobs.Enqueue(b.Ctx, tx, newJobOfKindA("1", "")), errDeliberate)
		})
		if !errors.Is(err, errDeliberate) {
			b.T.Fatal(err)
		}
		b.wantJobCounts(0, 0)
	})
}

// Several workers claim concurrently until nothing is left. Every job is claimed once.
func TestConcurrentClaimsTakeEachJobOnce(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		const queued, workers = 300, 6
		var want []string
		for n := range queued {
			name := fmt.Sprintf("%03d", n)
			want = append(want, name)
			b.enqueue(jobs.NewJob{Kind: []string{"a", "b"}[n%2], Payload: []byte(name)})
		}
		var mu sync.Mutex
		var got []string
		var all sync.WaitGroup
		for range workers {
			all.Go(func() {
				for {
					claimed, err := jobs.Claim(b.Ctx, b.DB, []string{"a", "b"}, 7, jobLease, 0)
					if err != nil {
						b.T.Error(err)
						return
					}
					if len(claimed) > 0 {
						n, err := jobs.FinishIfHeld(b.Ctx, b.DB, claimed)
						if err != nil || n != len(claimed) {
							b.T.Errorf("%d of %d were finished: %v", n, len(claimed), err)
						}
					}
					mu.Lock()
					got = append(got, payloadsOf(claimed)...)
					done := len(got) >= queued
					mu.Unlock()
					if done {
						return
					}
				}
			})
		}
		all.Wait()
		slices.Sort(got)
		equal(b.T, got, want)
	})
}

// Of the jobs of one kind and key that many concurrent transactions queue, only the last is left.
func TestConcurrentJobsOfOneKeyCollapse(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		var all sync.WaitGroup
		for n := range 50 {
			all.Go(func() {
				if err := b.Write(b.Ctx, func(tx *sql.Tx) error { return jobs.Enqueue(b.Ctx, tx, newJobOfKindA(fmt.Sprint(n), "k")) }); err != nil {
					b.T.Error(err)
				}
			})
		}
		all.Wait()
		last := must(sqltest.QueryLines(b.Ctx, b, "SELECT max(id) FROM jobs"))(b.T)
		queued := b.claim(100, "a")
		equal(b.T, len(queued), 1)
		equal(b.T, fmt.Sprint(queued[0].ID), last[0])
		b.wantJobCounts(1, 0)
	})
}

// WaitingKeys lists the keys of the jobs that were queued by a time and are not done, those due longest first.
func TestWaitingKeys(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		key := func(kind, key string) jobs.NewJob { return jobs.NewJob{Kind: kind, Key: key} }
		b.enqueue(key("a", "2"), key("a", "3"), key("b", "other"))
		b.Clock.Advance(time.Second)
		made := b.Clock.Now()
		b.enqueue(key("a", "4"), key("a", "2"))
		first := b.claim(1, "a")
		b.Clock.Advance(time.Second)
		b.enqueue(key("a", "young"))
		list := func(limit int) []string { return must(jobs.WaitingKeys(b.Ctx, b.DB, "a", made, limit))(b.T) }
		equal(b.T, list(10), []string{"3", "4", "2", "2"}) // a leased job is due again at the end of its lease
		equal(b.T, list(2), []string{"3", "4"})
		equal(b.T, must(jobs.FinishIfHeld(b.Ctx, b.DB, first))(b.T), 1)
		equal(b.T, list(10), []string{"3", "4", "2"})
		equal(b.T, len(must(jobs.WaitingKeys(b.Ctx, b.DB, "c", made, 10))(b.T)), 0)
	})
}

// The age of a job that was planned for later counts from when it is due, that of any other job from when it was made.
func TestPlannedJobsAreNotOld(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		now := b.Clock.Now().UTC().Truncate(time.Microsecond)
		enqueue := func(due time.Time) {
			b.MustWrite(func(tx *sql.Tx) error { return jobs.Enqueue(b.Ctx, tx, jobs.NewJob{Kind: "a", NotBefore: due}) })
		}
		oldest := func() time.Time {
			b.T.Helper()
			_, _, oldest, err := jobs.JobCounts(b.Ctx, b.DB)
			if err != nil {
				b.T.Fatal(err)
			}
			return oldest
		}
		enqueue(now.Add(time.Hour))
		equal(b.T, oldest(), now.Add(time.Hour))
		enqueue(now.Add(-time.Hour))
		equal(b.T, oldest(), now)
		_, oldestOf, err := jobs.JobCountsOf(b.Ctx, b.DB, []string{"a"})
		equal(b.T, []any{oldestOf, err}, []any{now, error(nil)})
	})
}

func TestJobCountsOfSomeKinds(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		waiting, oldest, err := jobs.JobCountsOf(b.Ctx, b.DB, []string{"a", "b"})
		if waiting != 0 || !oldest.IsZero() || err != nil {
			b.T.Fatalf("%d wait, the oldest since %v, %v", waiting, oldest, err)
		}
		began := b.Clock.Now()
		for _, kind := range []string{"a", "b", "c", "a"} {
			b.MustWrite(func(tx *sql.Tx) error { return jobs.Enqueue(b.Ctx, tx, jobs.NewJob{Kind: kind}) })
			b.Clock.Advance(time.Second)
		}
		waiting, oldest, err = jobs.JobCountsOf(b.Ctx, b.DB, []string{"b", "a"})
		if waiting != 3 || !oldest.Equal(began) || err != nil {
			b.T.Errorf("%d wait, the oldest since %v, %v", waiting, oldest, err)
		}
		_, oldest, err = jobs.JobCountsOf(b.Ctx, b.DB, []string{"c"})
		if !oldest.Equal(began.Add(2*time.Second)) || err != nil {
			b.T.Errorf("the oldest since %v, %v", oldest, err)
		}
	})
}
