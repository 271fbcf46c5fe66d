package store

import (
	"context"
	"time"

	"tidings/services"
	"tidings/services/sql"
)

var (
	insertLike = sql.NewStatement("insert a like", `INSERT INTO likes (post, liker, liked_at) VALUES ($1, $2, $3) ON CONFLICT (post, liker) DO NOTHING`)

	deleteLike = sql.NewStatement("delete a like", `DELETE FROM likes WHERE post = $1 AND liker = $2`)
)

// InsertLike adds a user's like of a post, at a time; false when it exists already. It does not check that the post exists: see
// PostForShare.
func (tx *Tx) InsertLike(ctx context.Context, post services.PostID, liker services.UserID, at time.Time) (bool, error) {
	changed, err := tx.Run(ctx, insertLike, post, liker, at)
	if changed > 0 {
		tx.Keep(postCounts, countChange{post: post, likes: 1})
	}
	return changed > 0, err
}

// DeleteLike removes a like; false when there was none.
func (tx *Tx) DeleteLike(ctx context.Context, post services.PostID, liker services.UserID) (bool, error) {
	changed, err := tx.Run(ctx, deleteLike, post, liker)
	if changed > 0 {
		tx.Keep(postCounts, countChange{post: post, likes: -1})
	}
	return changed > 0, err
}
