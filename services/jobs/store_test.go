package jobs_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/jobs"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
)

const jobLease = 30 * time.Second // how long a claimed job is leased

var errDeliberate = errors.New("mine") // what the functions and jobs of these tests return in order to fail

// clock is a clock that stands until a test advances it.
type clock struct{ *sqltest.Clock }

func newClock() *clock { return &clock{sqltest.NewClock()} }

func (c *clock) advance(d time.Duration) { c.Advance(d) }

// testStore is a database for tests of the functions over *sql.DB and *sql.Tx, without an engine of jobs.
type testStore struct {
	*sql.DB
	t     *testing.T
	ctx   context.Context
	clock *clock
	url   string // of the database
}

// eachStore runs a test on both engines, on a new database with a stopped clock.
func eachStore(t *testing.T, test func(b *testStore)) {
	t.Helper()
	sqltest.EachURL(t, func(t *testing.T, url string) { test(newTestStore(t, url)) })
}

func newTestStore(t *testing.T, url string) *testStore {
	t.Helper()
	c := newClock()
	return &testStore{sqltest.Open(t, sql.Config{URL: url, Clock: c}), t, t.Context(), c, url}
}

// write runs a function in a transaction that must be committed.
func (b *testStore) write(fn func(tx *sql.Tx) error) {
	b.t.Helper()
	if err := b.Write(b.ctx, fn); err != nil {
		b.t.Fatal(err)
	}
}

func (b *testStore) enqueue(queued ...jobs.NewJob) {
	b.t.Helper()
	b.write(func(tx *sql.Tx) error { return jobs.Enqueue(b.ctx, tx, queued...) })
}

func (b *testStore) claim(limit int, kinds ...string) []jobs.Job {
	b.t.Helper()
	return must(jobs.Claim(b.ctx, b.DB, kinds, limit, jobLease, 0))(b.t)
}

// wantJobCounts checks the numbers of waiting and dead jobs.
func (b *testStore) wantJobCounts(waiting, dead int) {
	b.t.Helper()
	w, d, _, err := jobs.JobCounts(b.ctx, b.DB)
	if err != nil || w != waiting || d != dead {
		b.t.Fatalf("%d jobs wait and %d are dead (%v), want %d and %d", w, d, err, waiting, dead)
	}
}

// payloadsOf returns the payloads of jobs.
func payloadsOf(queued []jobs.Job) (list []string) {
	for _, job := range queued {
		list = append(list, string(job.Payload))
	}
	return list
}

// newJobOfKindA makes a job of kind "a" whose payload is its name.
func newJobOfKindA(name, key string) jobs.NewJob {
	return jobs.NewJob{Kind: "a", Key: key, Payload: []byte(name)}
}

// execute runs any SQL within a transaction.
func execute(ctx context.Context, tx *sql.Tx, text string, args ...any) error {
	_, err := tx.Run(ctx, sql.AdHoc("test", text), args...)
	return err
}

// must returns a function that returns value, or ends the test if err is not nil.
func must[T any](value T, err error) func(t sqltest.Tester) T { return sqltest.Must(value, err) }

// equal ends the test if the two values differ.
func equal(t sqltest.Tester, got, want any) {
	t.Helper()
	sqltest.Equal(t, got, want)
}

// wantCode checks the code of an error.
func wantCode(t sqltest.Tester, err error, want services.Code) {
	t.Helper()
	sqltest.WantCode(t, err, want)
}
