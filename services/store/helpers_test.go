package store_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tidings/services"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
	"tidings/services/store"
	"tidings/services/store/storetest"
)

// clock is a clock that stands until it is moved.
type clock struct {
	mu  sync.Mutex
	now time.Time
}

func newClock() *clock { return &clock{now: time.Date(2026, 3, 14, 9, 26, 53, 589793000, time.UTC)} }

func (c *clock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *clock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// bundle is a store with what tests need around it.
type bundle struct {
	*store.Store
	t     *testing.T
	ctx   context.Context
	clock *clock
	url   string
}

// each runs a test on both engines, on a new database with a standing clock.
func each(t *testing.T, test func(b *bundle)) {
	t.Helper()
	sqltest.EachURL(t, func(t *testing.T, url string) { test(newBundle(t, url)) })
}

func newBundle(t *testing.T, url string) *bundle {
	t.Helper()
	c := newClock()
	return &bundle{storetest.Open(t, sql.Config{URL: url, Clock: c}), t, t.Context(), c, url}
}

// write runs one transaction that must succeed.
func (b *bundle) write(fn func(tx *store.Tx) error) {
	b.t.Helper()
	if err := b.Write(b.ctx, fn); err != nil {
		b.t.Fatal(err)
	}
}

// users numbers users with the keys given.
func (b *bundle) users(keys ...string) []services.UserID {
	b.t.Helper()
	var list []services.UserID
	b.write(func(tx *store.Tx) error {
		numbers, err := tx.EnsureUsers(b.ctx, keys)
		list = nil
		for _, key := range keys {
			list = append(list, numbers[key])
		}
		return err
	})
	return list
}

func (b *bundle) follow(edges ...services.Edge) {
	b.t.Helper()
	b.write(func(tx *store.Tx) error {
		_, err := tx.ImportFollows(b.ctx, edges)
		return err
	})
}

func (b *bundle) post(author services.UserID, ids ...services.PostID) {
	b.t.Helper()
	b.write(func(tx *store.Tx) error {
		for _, id := range ids {
			post := services.Post{ID: id, Author: author, Kind: services.PostKindPost, Body: "body of " + id.String()}
			if err := tx.InsertPost(b.ctx, post); err != nil {
				return err
			}
		}
		return nil
	})
}

// tester is what tests of both kinds have, go's and rapid's.
type tester interface {
	Helper()
	Fatal(args ...any)
	Fatalf(format string, args ...any)
}

// must is the value of a call that must succeed.
func must[T any](value T, err error) func(t tester) T {
	return func(t tester) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return value
	}
}

func equal(t tester, got, want any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("(-want +got):\n%s", diff)
	}
}

func coded(t tester, err error, want services.Code) {
	t.Helper()
	if services.CodeOf(err) != want {
		t.Fatalf("the error has the code %q, want %q: %v", services.CodeOf(err), want, err)
	}
}
