package posts

import (
	"context"

	"tidings/services"
	"tidings/services/sql"
)

// An import inserts posts and answers by a statement each: posts have no parent, and a list of parents cannot hold null.
var (
	importPosts = sql.NewInsertion("import posts", "posts",
		"id BIGINT, author BIGINT, kind TEXT, off_feed BOOLEAN, body TEXT, updated_at BIGINT", "ON CONFLICT DO NOTHING")

	importAnswers = sql.NewInsertion("import answers", "posts",
		"id BIGINT, author BIGINT, kind TEXT, off_feed BOOLEAN, body TEXT, updated_at BIGINT, parent BIGINT", "ON CONFLICT DO NOTHING")

	// Each moment is a range of the primary key, and max reads the end of that range.
	newestPostsAt = sql.NewStatement("the newest posts of moments", `SELECT moment,
		(SELECT max(id) FROM posts WHERE id >= moment AND id < moment + $2) FROM {rows $1 moment BIGINT} AS moments
		WHERE EXISTS (SELECT 1 FROM posts WHERE id >= moment AND id < moment + $2)`)
)

// Import inserts posts and returns how many. A post whose ID is taken is omitted: then the caller rolls the others back and
// assigns new IDs. Imported posts are never pulled: an author's pulled posts have a version of the changelog, to which an import
// appends nothing.
func Import(ctx context.Context, tx *sql.Tx, posts []services.Post) (inserted int, err error) {
	plain, answers := make([][]any, 0, len(posts)), [][]any(nil)
	for _, post := range posts {
		row := []any{post.ID, post.Author, post.Kind, post.OffFeed, post.Body, post.UpdatedAt}
		if post.Parent == 0 {
			plain = append(plain, row)
		} else {
			answers = append(answers, append(row, post.Parent))
		}
	}
	if inserted, err = tx.Insert(ctx, importPosts, plain); err != nil {
		return inserted, err
	}
	more, err := tx.Insert(ctx, importAnswers, answers)
	// The comments are counted only if all answers are new. If not, the caller rolls back, which would drop the counts.
	if err == nil && more == len(answers) {
		for _, post := range posts {
			if post.Parent != 0 {
				tx.KeepForEndHook(postCounts, countChange{post: post.Parent, comments: 1})
			}
		}
	}
	return inserted + more, err
}

// NewestAt returns, for each of some milliseconds, the greatest ID of a post in it. moments are the smallest IDs of these
// milliseconds: see services.SortableIDAt. A millisecond without posts is absent.
func NewestAt(ctx context.Context, r sql.Reader, moments []services.SortableID) (map[services.SortableID]services.PostID, error) {
	if len(moments) == 0 {
		return map[services.SortableID]services.PostID{}, nil
	}
	return sql.ReadMap[services.SortableID, services.PostID](ctx, r, newestPostsAt, sql.ColumnParameter(moments), int64(services.SortableIDsPerMillisecond))
}
