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

// Short names of the helpers, for the tests of this package.

type clock struct{ *sqltest.Clock }

func newClock() *clock { return &clock{sqltest.NewClock()} }

func (c *clock) advance(d time.Duration) { c.Advance(d) }

// bundle is a peopletest.Bundle, with the fields that the tests use most.
type bundle struct {
	*peopletest.Bundle
	t     *testing.T
	ctx   context.Context
	clock *clock
	url   string
}

// each runs a test on both engines, on a new database with a stopped clock.
func each(t *testing.T, test func(b *bundle)) {
	t.Helper()
	sqltest.EachURL(t, func(t *testing.T, url string) { test(newBundle(t, url)) })
}

func newBundle(t *testing.T, url string) *bundle {
	t.Helper()
	c := newClock()
	return bundleOf(t, sqltest.Open(t, sql.Config{URL: url, Clock: c}), c, url)
}

// bundleOf is a bundle of an open database.
func bundleOf(t *testing.T, s *sql.DB, c *clock, url string) *bundle {
	return &bundle{&peopletest.Bundle{DB: s, T: t, Ctx: t.Context(), Clock: c.Clock, URL: url}, t, t.Context(), c, url}
}

// write runs one transaction, which must succeed.
func (b *bundle) write(fn func(tx *sql.Tx) error) {
	b.t.Helper()
	b.MustWrite(fn)
}

// users creates users with the keys, and returns their IDs.
func (b *bundle) users(keys ...string) []services.UserID {
	b.t.Helper()
	return b.MakeUsers(keys...)
}

func (b *bundle) follow(edges ...services.Edge) {
	b.t.Helper()
	b.MakeFollows(edges...)
}

type tester = sqltest.Tester

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

var errMine = errors.New("mine") // an error that the tests return from their own functions
