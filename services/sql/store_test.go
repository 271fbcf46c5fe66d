package sql_test

import (
	"context"
	"errors"
	"testing"

	"go.uber.org/goleak"

	"tidings/services"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var errDeliberate = errors.New("mine") // what the functions of these tests return in order to fail

// testStore is a database of a test.
type testStore struct {
	*sql.DB
	t   *testing.T
	ctx context.Context
}

// eachStore runs a test on both engines, on a new database.
func eachStore(t *testing.T, test func(b *testStore)) {
	t.Helper()
	sqltest.EachURL(t, func(t *testing.T, url string) { test(newTestStore(t, url)) })
}

func newTestStore(t *testing.T, url string) *testStore {
	t.Helper()
	return &testStore{sqltest.Open(t, sql.Config{URL: url, Clock: sqltest.NewClock()}), t, t.Context()}
}

// write runs a function in a transaction that must be committed.
func (b *testStore) write(fn func(tx *sql.Tx) error) {
	b.t.Helper()
	if err := b.Write(b.ctx, fn); err != nil {
		b.t.Fatal(err)
	}
}

// insertPost writes a post as a plain row, because services/posts is a package above this one.
var insertPost = sql.AdHoc("insert a post", `INSERT INTO posts (id, author, kind, off_feed, pull, body, updated_at)
	VALUES ($1, 1, 'POST', FALSE, FALSE, $2, $3) ON CONFLICT (id) DO NOTHING`)

// publishPost returns a function that writes a post.
func publishPost(ctx context.Context, id services.PostID) func(tx *sql.Tx) error {
	return putPost(ctx, id, "b")
}

// putPost returns a function that writes a post with a body. It returns CONFLICT if the ID is taken.
func putPost(ctx context.Context, id services.PostID, body string) func(tx *sql.Tx) error {
	return func(tx *sql.Tx) error {
		inserted, err := tx.Run(ctx, insertPost, id, body, tx.Now)
		if err == nil && inserted == 0 {
			err = services.Errorf(services.Conflict, "the post id %s is taken", id)
		}
		return err
	}
}

// publishedPosts lists the committed posts, the newest first.
func (b *testStore) publishedPosts() []services.PostID {
	b.t.Helper()
	return must(sql.ReadColumn[services.PostID](b.ctx, b, sql.AdHoc("posts", "SELECT id FROM posts ORDER BY id DESC")))(b.t)
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
