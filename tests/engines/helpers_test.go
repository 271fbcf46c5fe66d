package engines

import (
	"context"
	"testing"

	"tidings/services"
	"tidings/services/people/peopletest"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
)

// testDB is a database of a test, with helpers of this package.
type testDB struct{ *peopletest.TestDB }

// eachTestDB runs a test on both engines, each time on a new database with a stopped clock.
func eachTestDB(t *testing.T, test func(b *testDB)) {
	t.Helper()
	peopletest.EachTestDB(t, func(b *peopletest.TestDB) { test(&testDB{b}) })
}

// newTestDB opens a database with a stopped clock; the test's end closes it.
func newTestDB(t *testing.T, url string) *testDB {
	t.Helper()
	return &testDB{peopletest.NewTestDB(t, url)}
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
