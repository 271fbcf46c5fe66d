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
	eachStore(t, func(b *testStore) {
		equal(b.t, len(b.claim(10, "a")), 0)
		made := b.clock.Now()
		b.enqueue(jobs.NewJob{Kind: "a", Key: "k", Payload: []byte{0, 255, 1}}, jobs.NewJob{Kind: "b"})
		b.clock.advance(time.Second)
		queued := b.claim(10, "a", "b", "c")
		equal(b.t, len(queued), 2)
		if queued[0].LeaseToken == "" || queued[0].ID == queued[1].ID {
			b.t.Errorf("the jobs are %v", queued)
		}
		equal(b.t, queued[0], jobs.Job{ID: queued[0].ID, Kind: "a", Key: "k", Payload: []byte{0, 255, 1}, LeaseToken: queued[0].LeaseToken, CreatedAt: made})
		equal(b.t, len(b.claim(10, "a", "b")), 0)
		waiting, dead, oldest, err := jobs.JobCounts(b.ctx, b.DB)
		equal(b.t, []any{waiting, dead, oldest, err}, []any{2, 0, made, error(nil)})
		equal(b.t, must(jobs.FinishIfHeld(b.ctx, b.DB, queued))(b.t), 2)
		equal(b.t, must(jobs.FinishIfHeld(b.ctx, b.DB, queued))(b.t), 0)
		waiting, dead, oldest, err = jobs.JobCounts(b.ctx, b.DB)
		equal(b.t, []any{waiting, dead, oldest, err}, []any{0, 0, time.Time{}, error(nil)})
	})
}

func TestClaimTakesTheLongestDueOfItsKinds(t *testing.T) {
	eachStore(t, func(b *testStore) {
		at := func(kind, name string, after time.Duration) {
			b.enqueue(jobs.NewJob{Kind: kind, Payload: []byte(name), NotBefore: b.clock.Now().Add(after)})
		}
		at("a", "3", 3*time.Second)
		at("b", "1", time.Second)
		at("c", "other", 0)
		at("a", "2", 2*time.Second)
		at("b", "4", 4*time.Second)
		at("b", "later", time.Hour)
		equal(b.t, len(b.claim(10, "a", "b")), 0)
		b.clock.advance(time.Minute)
		equal(b.t, payloadsOf(b.claim(3, "a", "b")), []string{"1", "2", "3"})
		equal(b.t, payloadsOf(b.claim(3, "a", "b")), []string{"4"})
		equal(b.t, len(b.claim(0, "c")), 0)
		equal(b.t, len(b.claim(3)), 0)
	})
}

func TestAJobIsDueExactlyAtItsTime(t *testing.T) {
	eachStore(t, func(b *testStore) {
		b.enqueue(jobs.NewJob{Kind: "a", NotBefore: b.clock.Now().Add(time.Second)})
		b.clock.advance(time.Second - time.Microsecond)
		equal(b.t, len(b.claim(1, "a")), 0)
		b.clock.advance(time.Microsecond)
		equal(b.t, len(b.claim(1, "a")), 1)
	})
}

func TestJobsOfOneKeyCollapseToTheLast(t *testing.T) {
	eachStore(t, func(b *testStore) {
		b.enqueue(newJobOfKindA("held", "x"))
		held := b.claim(1, "a")
		b.enqueue(newJobOfKindA("1", "x"), newJobOfKindA("2", ""), newJobOfKindA("3", "y"), newJobOfKindA("4", "x"), newJobOfKindA("5", ""), newJobOfKindA("6", "x"))
		b.enqueue(jobs.NewJob{Kind: "b", Key: "x", Payload: []byte("7")})
		b.enqueue(jobs.NewJob{Kind: "a", Key: "x", Payload: []byte("later"), NotBefore: b.clock.Now().Add(time.Hour)})
		queued := b.claim(10, "a", "b")
		equal(b.t, payloadsOf(queued), []string{"6", "2", "3", "5", "7"}) // for each key the last job, at the position of the first
		b.wantJobCounts(7, 0)                                             // including the held job and the planned job
		equal(b.t, must(jobs.FinishIfHeld(b.ctx, b.DB, held))(b.t), 1)
		equal(b.t, must(jobs.FinishIfHeld(b.ctx, b.DB, queued))(b.t), 5)
		b.clock.advance(time.Hour)
		equal(b.t, payloadsOf(b.claim(10, "a", "b")), []string{"later"})
	})
}

// After the lease of a job has expired and another worker has claimed the job, the former holder cannot finish, release, extend or fail
// the job.
func TestAHolderOfAnExpiredLeaseCannotChangeTheJob(t *testing.T) {
	eachStore(t, func(b *testStore) {
		b.enqueue(newJobOfKindA("1", ""), newJobOfKindA("2", ""))
		late := b.claim(10, "a")
		b.clock.advance(jobLease - time.Microsecond)
		equal(b.t, len(b.claim(10, "a")), 0)
		b.clock.advance(time.Microsecond)
		now := b.claim(10, "a")
		equal(b.t, payloadsOf(now), []string{"1", "2"})
		equal(b.t, must(jobs.FinishIfHeld(b.ctx, b.DB, late))(b.t), 0)
		if err := errors.Join(jobs.Release(b.ctx, b.DB, late, b.clock.Now()), jobs.Extend(b.ctx, b.DB, late, 10*time.Hour)); err != nil {
			b.t.Fatal(err)
		}
		dead, err := jobs.Fail(b.ctx, b.DB, late[0], errDeliberate, b.clock.Now(), 1)
		equal(b.t, []any{dead, err}, []any{false, error(nil)})
		equal(b.t, len(b.claim(10, "a")), 0)
		b.wantJobCounts(2, 0)
		// Calls with a job that was never leased have no effect either.
		for i := range late {
			late[i].LeaseToken = ""
		}
		equal(b.t, must(jobs.FinishIfHeld(b.ctx, b.DB, late))(b.t), 0)
		if err := jobs.Release(b.ctx, b.DB, now, b.clock.Now()); err != nil {
			b.t.Fatal(err)
		}
		equal(b.t, must(jobs.FinishIfHeld(b.ctx, b.DB, late))(b.t), 0)
		dead, err = jobs.Fail(b.ctx, b.DB, late[0], errDeliberate, b.clock.Now(), 1)
		equal(b.t, []any{dead, err}, []any{false, error(nil)})
		b.wantJobCounts(2, 0)
	})
}

// SQLite serves one process, so at its start every lease belongs to a dead process. On PostgreSQL a lease may belong to another
// node.
func TestLeasesOfADeadProcess(t *testing.T) {
	sqltest.EachURL(t, func(t *testing.T, url string) {
		before := newTestStore(t, url)
		before.enqueue(newJobOfKindA("1", ""))
		held := before.claim(1, "a")
		equal(t, len(held), 1)
		if err := before.Close(); err != nil {
			t.Fatal(err)
		}
		after := newTestStore(t, url)
		want := 0
		if after.DialectName() == "sqlite" {
			want = 1
		}
		for _, want := range []int{want, 0} {
			freed, left, err := jobs.FreeOwnJobs(after.ctx, after.DB, 10)
			equal(t, []any{freed, left, err}, []any{want, []jobs.Job(nil), error(nil)})
			equal(t, len(after.claim(1, "a")), want) // the second round must not free leases that this process has taken
		}
		equal(t, must(jobs.FinishIfHeld(after.ctx, after.DB, held))(t), 1-want)
	})
}

func TestExtendAndRelease(t *testing.T) {
	eachStore(t, func(b *testStore) {
		b.enqueue(newJobOfKindA("1", ""), newJobOfKindA("2", ""))
		queued := b.claim(10, "a")
		b.clock.advance(jobLease / 2)
		if err := jobs.Extend(b.ctx, b.DB, queued[:1], jobLease); err != nil {
			b.t.Fatal(err)
		}
		b.clock.advance(jobLease / 2)
		equal(b.t, payloadsOf(b.claim(10, "a")), []string{"2"})
		if err := jobs.Release(b.ctx, b.DB, queued[:1], b.clock.Now().Add(time.Second)); err != nil {
			b.t.Fatal(err)
		}
		equal(b.t, len(b.claim(10, "a")), 0)
		b.clock.advance(time.Second)
		again := b.claim(10, "a")
		equal(b.t, payloadsOf(again), []string{"1"})
		equal(b.t, again[0].Tries, 0)
	})
}

func TestFailTriesAgainAndGivesUp(t *testing.T) {
	eachStore(t, func(b *testStore) {
		b.enqueue(newJobOfKindA("1", "k"))
		for try := range 3 {
			queued := b.claim(1, "a")
			equal(b.t, queued[0].Tries, try)
			dead, err := jobs.Fail(b.ctx, b.DB, queued[0], fmt.Errorf("try %d: %w", try, errDeliberate), b.clock.Now().Add(time.Minute), 3)
			equal(b.t, []any{dead, err}, []any{try == 2, error(nil)})
			equal(b.t, len(b.claim(1, "a")), 0)
			b.clock.advance(time.Minute)
		}
		b.wantJobCounts(0, 1)
		equal(b.t, len(b.claim(1, "a")), 0)
		buried := must(sqltest.QueryLines(b.ctx, b, "SELECT kind, key, tries, error FROM dead_jobs"))(b.t)
		equal(b.t, buried, []string{"a k 3 try 2: mine"})
	})
}

var errLeaseLost = errors.New("a lease was lost") // what a split in TestSplitIsAtomic returns if the job's lease was lost

// A split replaces a job by its parts, or does nothing if the job's lease was lost.
func TestSplitIsAtomic(t *testing.T) {
	eachStore(t, func(b *testStore) {
		b.enqueue(newJobOfKindA("whole", "k"))
		split := func(queued []jobs.Job) error {
			return b.Write(b.ctx, func(tx *sql.Tx) error {
				if err := jobs.Enqueue(b.ctx, tx, newJobOfKindA("part 1", ""), newJobOfKindA("part 2", "")); err != nil {
					return err
				}
				n, err := jobs.FinishInTx(b.ctx, tx, queued)
				if err == nil && n < len(queued) {
					err = errLeaseLost
				}
				return err
			})
		}
		late := b.claim(1, "a")
		b.clock.advance(jobLease)
		now := b.claim(1, "a")
		if err := split(late); !errors.Is(err, errLeaseLost) {
			b.t.Errorf("a late split was answered with %v", err)
		}
		b.wantJobCounts(1, 0)
		if err := split(now); err != nil {
			b.t.Error(err)
		}
		equal(b.t, payloadsOf(b.claim(10, "a")), []string{"part 1", "part 2"})
	})
}

func TestAnUndoneWriteQueuesNoJobs(t *testing.T) {
	eachStore(t, func(b *testStore) {
		err := b.Write(b.ctx, func(tx *sql.Tx) error {
			return errors.Join(jobs.Enqueue(b.ctx, tx, newJobOfKindA("1", "")), errDeliberate)
		})
		if !errors.Is(err, errDeliberate) {
			b.t.Fatal(err)
		}
		b.wantJobCounts(0, 0)
	})
}

// Several workers claim concurrently until nothing is left. Every job is claimed once.
func TestConcurrentClaimsTakeEachJobOnce(t *testing.T) {
	eachStore(t, func(b *testStore) {
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
					claimed, err := jobs.Claim(b.ctx, b.DB, []string{"a", "b"}, 7, jobLease, 0)
					if err != nil {
						b.t.Error(err)
						return
					}
					if len(claimed) > 0 {
						n, err := jobs.FinishIfHeld(b.ctx, b.DB, claimed)
						if err != nil || n != len(claimed) {
							b.t.Errorf("%d of %d were finished: %v", n, len(claimed), err)
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
		equal(b.t, got, want)
	})
}

// Of the jobs of one kind and key that many concurrent transactions queue, only the last is left.
func TestConcurrentJobsOfOneKeyCollapse(t *testing.T) {
	eachStore(t, func(b *testStore) {
		var all sync.WaitGroup
		for n := range 50 {
			all.Go(func() {
				if err := b.Write(b.ctx, func(tx *sql.Tx) error { return jobs.Enqueue(b.ctx, tx, newJobOfKindA(fmt.Sprint(n), "k")) }); err != nil {
					b.t.Error(err)
				}
			})
		}
		all.Wait()
		last := must(sqltest.QueryLines(b.ctx, b, "SELECT max(id) FROM jobs"))(b.t)
		queued := b.claim(100, "a")
		equal(b.t, len(queued), 1)
		equal(b.t, fmt.Sprint(queued[0].ID), last[0])
		b.wantJobCounts(1, 0)
	})
}

// WaitingKeys lists the keys of the jobs that were queued by a time and are not done, those due longest first.
func TestWaitingKeys(t *testing.T) {
	eachStore(t, func(b *testStore) {
		key := func(kind, key string) jobs.NewJob { return jobs.NewJob{Kind: kind, Key: key} }
		b.enqueue(key("a", "2"), key("a", "3"), key("b", "other"))
		b.clock.advance(time.Second)
		made := b.clock.Now()
		b.enqueue(key("a", "4"), key("a", "2"))
		first := b.claim(1, "a")
		b.clock.advance(time.Second)
		b.enqueue(key("a", "young"))
		list := func(limit int) []string { return must(jobs.WaitingKeys(b.ctx, b.DB, "a", made, limit))(b.t) }
		equal(b.t, list(10), []string{"3", "4", "2", "2"}) // a leased job is due again at the end of its lease
		equal(b.t, list(2), []string{"3", "4"})
		equal(b.t, must(jobs.FinishIfHeld(b.ctx, b.DB, first))(b.t), 1)
		equal(b.t, list(10), []string{"3", "4", "2"})
		equal(b.t, len(must(jobs.WaitingKeys(b.ctx, b.DB, "c", made, 10))(b.t)), 0)
	})
}

// The age of a job that was planned for later counts from when it is due, that of any other job from when it was made.
func TestPlannedJobsAreNotOld(t *testing.T) {
	eachStore(t, func(b *testStore) {
		now := b.clock.Now().UTC().Truncate(time.Microsecond)
		enqueue := func(due time.Time) {
			b.write(func(tx *sql.Tx) error { return jobs.Enqueue(b.ctx, tx, jobs.NewJob{Kind: "a", NotBefore: due}) })
		}
		oldest := func() time.Time {
			b.t.Helper()
			_, _, oldest, err := jobs.JobCounts(b.ctx, b.DB)
			if err != nil {
				b.t.Fatal(err)
			}
			return oldest
		}
		enqueue(now.Add(time.Hour))
		equal(b.t, oldest(), now.Add(time.Hour))
		enqueue(now.Add(-time.Hour))
		equal(b.t, oldest(), now)
		_, oldestOf, err := jobs.JobCountsOf(b.ctx, b.DB, []string{"a"})
		equal(b.t, []any{oldestOf, err}, []any{now, error(nil)})
	})
}

func TestJobCountsOfSomeKinds(t *testing.T) {
	eachStore(t, func(b *testStore) {
		waiting, oldest, err := jobs.JobCountsOf(b.ctx, b.DB, []string{"a", "b"})
		if waiting != 0 || !oldest.IsZero() || err != nil {
			b.t.Fatalf("%d wait, the oldest since %v, %v", waiting, oldest, err)
		}
		began := b.clock.Now()
		for _, kind := range []string{"a", "b", "c", "a"} {
			b.write(func(tx *sql.Tx) error { return jobs.Enqueue(b.ctx, tx, jobs.NewJob{Kind: kind}) })
			b.clock.advance(time.Second)
		}
		waiting, oldest, err = jobs.JobCountsOf(b.ctx, b.DB, []string{"b", "a"})
		if waiting != 3 || !oldest.Equal(began) || err != nil {
			b.t.Errorf("%d wait, the oldest since %v, %v", waiting, oldest, err)
		}
		_, oldest, err = jobs.JobCountsOf(b.ctx, b.DB, []string{"c"})
		if !oldest.Equal(began.Add(2*time.Second)) || err != nil {
			b.t.Errorf("the oldest since %v, %v", oldest, err)
		}
	})
}
