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
func (b *testDB) publishedPosts() []services.PostID {
	b.T.Helper()
	return must(sql.ReadColumn[services.PostID](b.Ctx, b, sql.AdHoc("posts", "SELECT id FROM posts ORDER BY id DESC")))(b.T)
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
