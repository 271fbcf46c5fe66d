package storetest

import (
	"context"
	"regexp"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tidings/services"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
	"tidings/services/store"
)

// Clock is a clock that stands until it is moved. It is safe for concurrent use.
type Clock struct {
	mu  sync.Mutex
	now time.Time
}

// NewClock is a clock that stands at a time with microseconds.
func NewClock() *Clock { return &Clock{now: time.Date(2026, 3, 14, 9, 26, 53, 589793000, time.UTC)} }

// Now is the time at which the clock stands.
func (c *Clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

// Advance moves the clock.
func (c *Clock) Advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// Set moves the clock to a time, which may be earlier.
func (c *Clock) Set(now time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = now
}

// Bundle is a store with what tests of facts need around it. A step that fails ends the test.
type Bundle struct {
	*store.Store
	T     *testing.T
	Ctx   context.Context
	Clock *Clock
	URL   string
}

// EachBundle runs a test on both engines, each time on a new database with a standing clock.
func EachBundle(t *testing.T, test func(b *Bundle)) {
	t.Helper()
	sqltest.EachURL(t, func(t *testing.T, url string) { test(NewBundle(t, url)) })
}

// NewBundle opens a database with a standing clock; the test's end closes it.
func NewBundle(t *testing.T, url string) *Bundle {
	t.Helper()
	clock := NewClock()
	return &Bundle{Open(t, sql.Config{URL: url, Clock: clock}), t, t.Context(), clock, url}
}

// MustWrite runs one transaction that must succeed.
func (b *Bundle) MustWrite(fn func(tx *store.Tx) error) {
	b.T.Helper()
	if err := b.Write(b.Ctx, fn); err != nil {
		b.T.Fatal(err)
	}
}

// MakeUsers numbers users with the keys given.
func (b *Bundle) MakeUsers(keys ...string) []services.UserID {
	b.T.Helper()
	var list []services.UserID
	b.MustWrite(func(tx *store.Tx) error {
		numbers, err := tx.EnsureUsers(b.Ctx, keys)
		list = nil
		for _, key := range keys {
			list = append(list, numbers[key])
		}
		return err
	})
	return list
}

// MakeFollows writes edges.
func (b *Bundle) MakeFollows(edges ...services.Edge) {
	b.T.Helper()
	b.MustWrite(func(tx *store.Tx) error {
		_, err := tx.ImportFollows(b.Ctx, edges)
		return err
	})
}

// Restrict makes a restriction, and reports whether it is new and which follows it ended.
func (b *Bundle) Restrict(r services.Restriction) (created bool, ended []services.Edge) {
	b.T.Helper()
	b.MustWrite(func(tx *store.Tx) (err error) {
		if err = tx.LockRestrictions(b.Ctx, r.Owner, r.Other); err != nil {
			return err
		}
		put, err := tx.Restrict(b.Ctx, r)
		created, ended = put.Created, put.Ended
		return err
	})
	return created, ended
}

// Unrestrict ends a restriction, and reports whether there was one.
func (b *Bundle) Unrestrict(r services.Restriction) (ended bool) {
	b.T.Helper()
	b.MustWrite(func(tx *store.Tx) (err error) {
		if err = tx.LockRestrictions(b.Ctx, r.Owner, r.Other); err != nil {
			return err
		}
		ended, err = tx.Unrestrict(b.Ctx, r)
		return err
	})
	return ended
}

var planPrefix = regexp.MustCompile(`^\d+ \d+ \d+ `)

// Plan is how SQLite would run a statement. The bundle is of SQLite.
func (b *Bundle) Plan(name string) (steps []string) {
	b.T.Helper()
	lines, err := b.Lines(b.Ctx, "EXPLAIN QUERY PLAN "+sql.Statements()[name].Text(sql.SQLite), make([]any, 20)...)
	if err != nil {
		b.T.Fatal(err)
	}
	for _, line := range lines {
		steps = append(steps, planPrefix.ReplaceAllString(line, ""))
	}
	return steps
}

// Tester is what tests of both kinds have, Go's and rapid's.
type Tester interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// Must is the value of a call that must succeed.
func Must[T any](value T, err error) func(t Tester) T {
	return func(t Tester) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

// Equal ends the test when two values differ.
func Equal(t Tester, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("(-want +got):\n%s", diff)
	}
}

// Coded ends the test when an error has another code; "" is the code of no error.
func Coded(t Tester, err error, want services.Code) {
	t.Helper()
	if services.CodeOf(err) != want {
		t.Fatalf("the error has the code %q, want %q: %v", services.CodeOf(err), want, err)
	}
}
