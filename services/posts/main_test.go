package posts

import (
	"testing"

	"go.uber.org/goleak"

	"tidings/services"
	"tidings/services/people/peopletest"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// testDB is a test's database, with helpers that write and read posts.
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

// insertPosts writes an author's posts.
func (b *testDB) insertPosts(author services.UserID, ids ...services.PostID) {
	b.T.Helper()
	b.MustWrite(func(tx *sql.Tx) error {
		for _, id := range ids {
			post := services.Post{ID: id, Author: author, Kind: services.PostKindPost, Body: "body of " + id.String()}
			if err := Insert(b.Ctx, tx, post); err != nil {
				return err
			}
		}
		return nil
	})
}

// listPublished lists the posts of user 1 that are not deleted, the newest first.
func (b *testDB) listPublished() []services.PostID {
	b.T.Helper()
	return sqltest.Must(PushedPostsOfAuthor(b.Ctx, b.DB, 1, 1000))(b.T)
}
