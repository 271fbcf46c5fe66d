package people_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/people/peopletest"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
)

// The names below are short names of helpers of sqltest and peopletest, for the tests of this package.

// clock is a clock that stands still until a test advances it.
type clock struct{ *sqltest.Clock }

func newClock() *clock { return &clock{sqltest.NewClock()} }

func (c *clock) advance(d time.Duration) { c.Advance(d) }

// testStore is a peopletest.TestStore, with the fields that the tests use most.
type testStore struct {
	*peopletest.TestStore
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
	return newTestStoreOf(t, sqltest.Open(t, sql.Config{URL: url, Clock: c}), c, url)
}

// newTestStoreOf makes a testStore of an open database.
func newTestStoreOf(t *testing.T, db *sql.DB, c *clock, url string) *testStore {
	return &testStore{&peopletest.TestStore{DB: db, T: t, Ctx: t.Context(), Clock: c.Clock, URL: url}, t, t.Context(), c, url}
}

// write runs one transaction, which must succeed.
func (b *testStore) write(fn func(tx *sql.Tx) error) {
	b.t.Helper()
	b.MustWrite(fn)
}

// makeUsers creates users with the keys, and returns their IDs.
func (b *testStore) makeUsers(keys ...string) []services.UserID {
	b.t.Helper()
	return b.MakeUsers(keys...)
}

func (b *testStore) follow(edges ...services.FollowEdge) {
	b.t.Helper()
	b.MakeFollows(edges...)
}

// tester has the methods that Go's tests and rapid's tests share.
type tester = sqltest.Tester

// must returns a function that fails the test if err is not nil, and returns value.
func must[T any](value T, err error) func(t tester) T { return sqltest.Must(value, err) }

func wantEqual(t tester, got, want any) {
	t.Helper()
	sqltest.Equal(t, got, want)
}

// wantCode checks that an error has a code.
func wantCode(t tester, err error, want services.Code) {
	t.Helper()
	sqltest.WantCode(t, err, want)
}

var errTest = errors.New("mine") // an error that the tests return from their own functions
