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

// clock is a clock that stands until a test advances it.
type clock struct{ *sqltest.Clock }

func newClock() *clock { return &clock{sqltest.NewClock()} }

func (c *clock) advance(d time.Duration) { c.Advance(d) }

// testStore is a peopletest.TestStore, with its fields under shorter names.
type testStore struct {
	*peopletest.TestStore
	t     *testing.T
	ctx   context.Context
	clock *clock
	url   string // of the database; "": the test does not need it
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

// write runs a function in a transaction that must be committed.
func (b *testStore) write(fn func(tx *sql.Tx) error) {
	b.t.Helper()
	b.MustWrite(fn)
}

func (b *testStore) makeUsers(keys ...string) []services.UserID {
	b.t.Helper()
	return b.MakeUsers(keys...)
}

// tester has the methods that Go's tests and rapid's tests share.
type tester = sqltest.Tester

// must returns a function that returns value, or ends the test if err is not nil.
func must[T any](value T, err error) func(t tester) T { return sqltest.Must(value, err) }

// equal ends the test if the two values differ.
func equal(t tester, got, want any) {
	t.Helper()
	sqltest.Equal(t, got, want)
}

// wantCode checks the code of an error.
func wantCode(t tester, err error, want services.Code) {
	t.Helper()
	sqltest.WantCode(t, err, want)
}

// insertPost writes a post as a plain row, because services/posts is a package above the engines.
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

// postsOfFirstAuthor lists the posts of the user whose ID is 1, the newest first.
func postsOfFirstAuthor(ctx context.Context, db *sql.DB) ([]services.PostID, error) {
	return sql.ReadColumn[services.PostID](ctx, db, sql.AdHoc("an author's posts", "SELECT id FROM posts WHERE author = 1 ORDER BY id DESC"))
}
