package posts

import (
	"context"
	"maps"
	"slices"
	"time"

	"tidings/services"
	"tidings/services/erase"
	"tidings/services/sql"
)

// EraseSteps are the steps that remove an author's data beside the posts: their row in authors, and the mentions of them in others'
// posts.
var EraseSteps = []erase.Step{
	erase.DeleteRows("", "authors", "author", "author"),
	erase.DeleteRowsByScan("", "mentions", "post", "mentioned"),
}

var (
	// likesToErase finds the posts that the user likes, and postsToErase the user's posts, in a part of the table that ends at $4.
	likesToErase = sql.NewStatement("likes to erase", `SELECT post FROM likes WHERE post > $2 AND post <= $4 AND liker = $1 ORDER BY post LIMIT $3`)

	postsToErase = sql.NewStatement("posts to erase", `SELECT id FROM posts WHERE id > $2 AND id <= $4 AND author = $1 ORDER BY id LIMIT $3`)

	lockErasedPosts = sql.NewStatement("lock posts to erase", `SELECT id FROM posts WHERE {in id $1 BIGINT} ORDER BY id {for update}`)

	// The row stays, because it has the position of a deleted post, and others' answers refer to it. updated_at rises, so
	// that no copy with the text counts as newer.
	blankPosts = sql.NewStatement("blank erased posts", `UPDATE posts SET author = 0, body = '', import_key = '', updated_at = updated_at + 1
		WHERE {in id $1 BIGINT} AND author = $2 AND deleted_at IS NOT NULL RETURNING id, updated_at`)

	unmentionErased = sql.NewStatement("delete mentions by erased posts", `DELETE FROM mentions WHERE {in post $1 BIGINT}`)
)

// EraseLikes is the step that takes the user's likes back. The notifications to the posts' authors have a step of their own. No
// index finds the likes of a user, so the table is walked in parts; see erase.ScanPartEndFinder.
func EraseLikes() erase.Step {
	return erase.UndoFoundRows("likes", likesToErase, erase.ScanPartEndFinder("likes", "post"), func(ctx context.Context, tx *sql.Tx, at erase.StepPosition, found []int64) (map[string]int, error) {
		taken := 0
		for _, post := range found {
			deleted, err := DeleteLike(ctx, tx, services.PostID(post), at.User)
			if err != nil {
				return nil, err
			}
			if deleted {
				taken++
			}
		}
		return erase.RemovedCounts("likes", taken), nil
	})
}

// ErasePosts is the step that deletes the user's posts by a function, which returns false for a post that is deleted already. In a
// late pass, when the deletions have reached all feeds, the author, the text, the import key and the mentions are erased. blanked
// is then called with the time of that change, so that no cache keeps the text.
func ErasePosts(remove func(ctx context.Context, tx *sql.Tx, author services.UserID, id services.PostID) (bool, error),
	blanked func(ctx context.Context, tx *sql.Tx, id services.PostID, at time.Time) error) erase.Step {
	return erase.UndoFoundRows("posts", postsToErase, erase.ScanPartEndFinder("posts", "id"), func(ctx context.Context, tx *sql.Tx, at erase.StepPosition, found []int64) (map[string]int, error) {
		// All rows are locked before the changelog: a transaction that holds one of the rows may be waiting for the changelog.
		if _, err := tx.Run(ctx, lockErasedPosts, found); err != nil {
			return nil, err
		}
		removed := map[string]int{}
		for _, id := range found {
			post, err := read(ctx, tx, postByID, services.PostID(id))
			if err != nil {
				return nil, err
			}
			deleted, err := remove(ctx, tx, at.User, post.ID)
			if err != nil {
				return nil, err
			}
			if deleted && post.Parent != 0 {
				removed["comments"]++
			} else if deleted {
				removed["posts"]++
			}
		}
		if !at.LaterPass || len(removed) > 0 {
			return removed, nil // the posts that were deleted in this run wait for the next pass
		}
		if _, err := tx.Run(ctx, unmentionErased, found); err != nil {
			return nil, err
		}
		return nil, blankDeletedPosts(ctx, tx, at.User, found, blanked)
	})
}

// blankDeletedPosts removes the author, the text and the import key of deleted posts, and calls blanked for each, in order of ID:
// other transactions append changes of posts to the changelog in this order too.
func blankDeletedPosts(ctx context.Context, tx *sql.Tx, author services.UserID, ids []int64, blanked func(context.Context, *sql.Tx, services.PostID, time.Time) error) error {
	times, err := sql.ReadByKey(ctx, tx, blankPosts, []any{ids, author}, func(scan sql.Scan, id *services.PostID, updated *time.Time) error {
		var at int64
		err := scan(id, &at)
		*updated = sql.FromMicros(at)
		return err
	})
	for _, id := range slices.Sorted(maps.Keys(times)) {
		if err == nil {
			err = blanked(ctx, tx, id, times[id])
		}
	}
	return err
}
