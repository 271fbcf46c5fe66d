package posts

import (
	"testing"

	"tidings/services"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
)

// Mentions by the list are told apart from mentions by the body, and from those stored before SQL recorded the difference.
func TestListedMentions(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		b.insertPosts(1, 5, 6)
		want := func(when string, listed, unknown []services.UserID) {
			b.T.Helper()
			gotListed, gotUnknown, err := MentionedByList(b.Ctx, b.Runner, 5)
			if err != nil {
				b.T.Fatal(err)
			}
			b.T.Log(when)
			sqltest.Equal(b.T, [][]services.UserID{gotListed, gotUnknown}, [][]services.UserID{listed, unknown})
		}
		b.MustWrite(func(tx *sql.Tx) error {
			if err := InsertMentions(b.Ctx, tx, 6, []services.UserID{9}, []services.UserID{9}); err != nil {
				return err
			}
			return InsertMentions(b.Ctx, tx, 5, []services.UserID{2, 3, 4}, []services.UserID{7, 4, 2})
		})
		want("published", []services.UserID{2, 4}, nil)
		b.MustWrite(func(tx *sql.Tx) error {
			_, err := tx.Run(b.Ctx, sql.NewStatement("a mention of a node that does not know the list", `INSERT INTO mentions (post, mentioned) VALUES (5, 8)`))
			return err
		})
		want("of two versions", []services.UserID{2, 4}, []services.UserID{8})
		b.MustWrite(func(tx *sql.Tx) error {
			_, err := Edit(b.Ctx, tx, 5, "b", []Mention{{User: 2}, {User: 8}}, []services.UserID{8})
			return err
		})
		want("edited", []services.UserID{8}, nil)
	})
}
