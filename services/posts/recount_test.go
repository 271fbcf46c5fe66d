package posts

import (
	"io"
	"log/slog"
	"testing"

	"tidings/services"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
)

// The audit of counts mends the wrong counts of posts and of answers, and finds nothing wrong before and after.
func TestWrongCountsOfAPostAreRepaired(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		const author, liker = 1, 2
		post, comment := services.PostID(5), services.PostID(6)
		b.insertPosts(author, post)
		b.MustWrite(func(tx *sql.Tx) error {
			answer := services.Post{ID: comment, Author: liker, Kind: services.PostKindComment, Parent: post, OffFeed: true, Body: "well"}
			if err := Insert(b.Ctx, tx, answer); err != nil {
				return err
			}
			for _, liked := range []services.PostID{post, comment} {
				if _, err := InsertLike(b.Ctx, tx, liked, liker, tx.Now); err != nil {
					return err
				}
			}
			return nil
		})
		a := NewCountAudit(b.DB, slog.New(slog.NewTextHandler(io.Discard, nil)))
		run := func(want uint64) {
			b.T.Helper()
			if err := a.RunOnce(b.Ctx); err != nil || a.mended.Load() != want {
				b.T.Errorf("%d posts were mended, want %d: %v", a.mended.Load(), want, err)
			}
		}
		run(0)
		b.MustWrite(func(tx *sql.Tx) error {
			_, err := sqltest.QueryLines(b.Ctx, tx, "UPDATE post_counts SET likes = 9, comments = 9")
			return err
		})
		run(2)
		sqltest.Equal(b.T, sqltest.Must(Engagements(b.Ctx, b.DB, liker, []services.PostID{post, comment}))(b.T),
			map[services.PostID]services.Engagement{post: {Likes: 1, Comments: 1, LikedByViewer: true}, comment: {Likes: 1, LikedByViewer: true}})
		run(2)
	})
}
