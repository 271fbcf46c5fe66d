package engines

import (
	"context"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/people/peopletest"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
)

// The types and functions from here to wantCode are short names for helpers of sqltest and peopletest.

type clock struct{ *sqltest.Clock }

func newClock() *clock { return &clock{sqltest.NewClock()} }

func (c *clock) advance(d time.Duration) { c.Advance(d) }

// bundle is a peopletest.Bundle, with its fields under shorter names.
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

// bundleOf makes a bundle of an open database.
func bundleOf(t *testing.T, s *sql.DB, c *clock, url string) *bundle {
	return &bundle{&peopletest.Bundle{DB: s, T: t, Ctx: t.Context(), Clock: c.Clock, URL: url}, t, t.Context(), c, url}
}

func (b *bundle) write(fn func(tx *sql.Tx) error) {
	b.t.Helper()
	b.MustWrite(fn)
}

func (b *bundle) users(keys ...string) []services.UserID {
	b.t.Helper()
	return b.MakeUsers(keys...)
}

type tester = sqltest.Tester

func must[T any](value T, err error) func(t tester) T { return sqltest.Must(value, err) }

func equal(t tester, got, want any) {
	t.Helper()
	sqltest.Equal(t, got, want)
}

// wantCode checks the code of an error.
func wantCode(t tester, err error, want services.Code) {
	t.Helper()
	sqltest.WantCode(t, err, want)
}

// Tests of this package write posts as plain rows, because services/posts is a package above the engines.
var insertPost = sql.AdHoc("insert a post", `INSERT INTO posts (id, author, kind, off_feed, pull, body, updated_at)
	VALUES ($1, $2, 'POST', FALSE, FALSE, $3, $4) ON CONFLICT (id) DO NOTHING`)

// putPost writes a post. It returns CONFLICT if the ID is taken.
func putPost(ctx context.Context, tx *sql.Tx, author services.UserID, id services.PostID, body string) error {
	inserted, err := tx.Run(ctx, insertPost, id, author, body, tx.Now)
	if err == nil && inserted == 0 {
		err = services.Errorf(services.Conflict, "the post id %s is taken", id)
	}
	return err
}

// postsOf lists the posts of the first author, the newest first.
func postsOf(ctx context.Context, s *sql.DB) ([]services.PostID, error) {
	return sql.ReadColumn[services.PostID](ctx, s, sql.AdHoc("an author's posts", "SELECT id FROM posts WHERE author = 1 ORDER BY id DESC"))
}
