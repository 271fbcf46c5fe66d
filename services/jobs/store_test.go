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

// testDB is a database of a test, with helpers of this package.
type testDB struct{ *sqltest.TestDB }

// eachTestDB runs a test on both engines, each time on a new database with a stopped clock.
func eachTestDB(t *testing.T, test func(b *testDB)) {
	t.Helper()
	sqltest.EachTestDB(t, func(b *sqltest.TestDB) { test(&testDB{b}) })
}

// newTestDB opens a database with a stopped clock; the test's end closes it.
func newTestDB(t *testing.T, url string) *testDB {
	t.Helper()
	return &testDB{sqltest.NewTestDB(t, url)}
}

func (b *testDB) enqueue(queued ...jobs.NewJob) {
	b.T.Helper()
	b.MustWrite(func(tx *sql.Tx) error { return jobs.Enqueue(b.Ctx, tx, queued...) })
}

func (b *testDB) claim(limit int, kinds ...string) []jobs.Job {
	b.T.Helper()
	return must(jobs.Claim(b.Ctx, b.DB, kinds, limit, jobLease, 0))(b.T)
}

// wantJobCounts checks the numbers of waiting and dead jobs.
func (b *testDB) wantJobCounts(waiting, dead int) {
	b.T.Helper()
	w, d, _, err := jobs.JobCounts(b.Ctx, b.DB)
	if err != nil || w != waiting || d != dead {
		b.T.Fatalf("%d jobs wait and %d are dead (%v), want %d and %d", w, d, err, waiting, dead)
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
