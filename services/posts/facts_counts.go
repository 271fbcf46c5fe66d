package posts

import (
	"cmp"
	"context"
	"slices"
	"time"

	"tidings/services"
	"tidings/services/sql"
)

// countRowsPerPost is how many rows the counts of one post have on PostgreSQL, at most. A row stays locked until the commit is on
// disk, so with one row all likes of a popular post wait for each other: two nodes took 3,400 a second on one post, and 4,900 with
// several rows. SQLite has one writer, so there one row is enough.
const countRowsPerPost = 8

var (
	// addPostCounts is an upsert, because the first like makes the row. ORDER BY sets the order of the locks.
	addPostCounts = sql.NewStatement("add to the counts of posts", `
INSERT INTO post_counts AS n (post, part, likes, comments)
SELECT post, part, likes, comments FROM {rows $1 post BIGINT, part BIGINT, likes BIGINT, comments BIGINT} AS c WHERE TRUE ORDER BY post
ON CONFLICT (post, part) DO UPDATE SET likes = n.likes + excluded.likes, comments = n.comments + excluded.comments`)

	insertLike = sql.NewStatement("insert a like", `INSERT INTO likes (post, liker, liked_at) VALUES ($1, $2, $3) ON CONFLICT (post, liker) DO NOTHING`)

	deleteLike = sql.NewStatement("delete a like", `DELETE FROM likes WHERE post = $1 AND liker = $2`)

	// engagementOf sums a few rows for each post, and finds the viewer's like by one look-up in the primary key of likes.
	engagementOf = sql.NewStatement("engagement of posts", `
SELECT t.post, t.likes, t.comments, (SELECT count(*) FROM likes l WHERE l.post = t.post AND l.liker = $2)
FROM (SELECT c.post, COALESCE(CAST(sum(n.likes) AS BIGINT), 0) AS likes, COALESCE(CAST(sum(n.comments) AS BIGINT), 0) AS comments
	FROM {rows $1 post BIGINT} AS c LEFT JOIN post_counts n ON n.post = c.post GROUP BY c.post) AS t`)
)

// storedAndFactualCounts is the first part of a statement; the posts c follow it. It selects the kept counts of the posts, and the
// counts that the facts give now.
const storedAndFactualCounts = `SELECT c.post, COALESCE(CAST((SELECT sum(n.likes) FROM post_counts n WHERE n.post = c.post) AS BIGINT), 0),
	COALESCE(CAST((SELECT sum(n.comments) FROM post_counts n WHERE n.post = c.post) AS BIGINT), 0),
	(SELECT count(*) FROM likes l WHERE l.post = c.post),
	(SELECT count(*) FROM posts a WHERE a.parent = c.post AND a.deleted_at IS NULL) FROM `

var (
	recountPosts = sql.NewStatement("recount posts", storedAndFactualCounts+`{rows $1 post BIGINT} AS c`)

	// countsBelow reads only the kept counts: by their size the audit chooses which posts it can afford to recount.
	countsBelow = sql.NewStatement("counts of posts below a position", `
SELECT p.id, COALESCE(CAST((SELECT sum(n.likes) FROM post_counts n WHERE n.post = p.id) AS BIGINT), 0),
	COALESCE(CAST((SELECT sum(n.comments) FROM post_counts n WHERE n.post = p.id) AS BIGINT), 0)
FROM posts p WHERE p.id < $1 AND p.deleted_at IS NULL ORDER BY p.id DESC LIMIT $2`)
)

// readRecounts recounts posts from the facts. The cost grows with their likes and answers. One statement is one snapshot, so a
// difference is a fault, and not a like that came in between.
func readRecounts(ctx context.Context, r sql.Reader, posts []services.PostID) ([]engagementRecount, error) {
	return sql.ReadRows(ctx, r, recountPosts, []any{sql.ColumnParameter(posts)}, func(scan sql.Scan, c *engagementRecount) error {
		return scan(&c.Post, &c.Stored.Likes, &c.Stored.Comments, &c.Facts.Likes, &c.Facts.Comments)
	})
}

// countedPost is a post with its counts as post_counts has them.
type countedPost struct {
	Post            services.PostID
	Likes, Comments int
}

// readCountsBelow lists the newest posts with IDs below a position, of every kind, with their counts: at most limit, the newest first.
func readCountsBelow(ctx context.Context, db *sql.DB, below services.PostID, limit int) ([]countedPost, error) {
	return sql.ReadRows(ctx, db, countsBelow, []any{below, limit}, func(scan sql.Scan, of *countedPost) error {
		return scan(&of.Post, &of.Likes, &of.Comments)
	})
}

// mendCounts sets the counts of a post to the counts of the facts, by adding the difference to one of its rows.
func mendCounts(ctx context.Context, tx *sql.Tx, post services.PostID) error {
	// Adding zeros locks the row. If two callers come at once, the second waits here, and then finds nothing to mend. Likes that are
	// added meanwhile, in other rows, change the facts and the counts alike.
	if _, err := tx.Run(ctx, addPostCounts, sql.RowsParameter{{post, 0, 0, 0}}); err != nil {
		return err
	}
	found, err := readRecounts(ctx, tx, []services.PostID{post})
	if err != nil {
		return err
	}
	for _, c := range found {
		if _, err := tx.Run(ctx, addPostCounts, sql.RowsParameter{{post, 0, c.Facts.Likes - c.Stored.Likes, c.Facts.Comments - c.Stored.Comments}}); err != nil {
			return err
		}
	}
	return nil
}

// countChange is how many likes and answers a function of a transaction added to a post, or removed. sql.Tx.KeepForEndHook hands it to
// postCounts.
type countChange struct {
	post            services.PostID
	likes, comments int // how many were added; negative: removed
}

// postCounts adds the changes of a transaction to the counts, at its end, so that the rows are locked for a short time. The facts
// decide what is added: a function calls sql.Tx.KeepForEndHook only for a row that its own statement inserted or removed. Rows are
// locked in the order of the posts, and all are of one part, so that transactions cannot deadlock.
var postCounts = sql.NewTxEndHook(func(ctx context.Context, tx *sql.Tx, changes []any) error {
	sums := map[services.PostID]countChange{}
	for _, value := range changes {
		change := value.(countChange)
		sum := sums[change.post]
		sums[change.post] = countChange{change.post, sum.likes + change.likes, sum.comments + change.comments}
	}
	// The time of a transaction spreads the transactions over the parts; all rows of one transaction are of the same part.
	part := int64(0)
	if tx.Dialect == sql.Postgres {
		part = tx.Began.UnixMicro() % countRowsPerPost
	}
	rows := make(sql.RowsParameter, 0, len(sums))
	for post, sum := range sums {
		// A like that was taken back in the same transaction changes nothing.
		if sum.likes != 0 || sum.comments != 0 {
			rows = append(rows, []any{post, part, sum.likes, sum.comments})
		}
	}
	if len(rows) == 0 {
		return nil
	}
	slices.SortFunc(rows, func(a, b []any) int { return cmp.Compare(a[0].(services.PostID), b[0].(services.PostID)) })
	_, err := tx.Run(ctx, addPostCounts, rows)
	return err
})

// InsertLike adds a user's like of a post, at a time, and returns false when the like exists already. The caller has checked that
// the post exists and is visible to the user.
func InsertLike(ctx context.Context, tx *sql.Tx, post services.PostID, liker services.UserID, at time.Time) (bool, error) {
	changed, err := tx.Run(ctx, insertLike, post, liker, at)
	if changed > 0 {
		tx.KeepForEndHook(postCounts, countChange{post: post, likes: 1})
	}
	return changed > 0, err
}

// DeleteLike removes a like, and returns false when there was none. The post may be deleted.
func DeleteLike(ctx context.Context, tx *sql.Tx, post services.PostID, liker services.UserID) (bool, error) {
	changed, err := tx.Run(ctx, deleteLike, post, liker)
	if changed > 0 {
		tx.KeepForEndHook(postCounts, countChange{post: post, likes: -1})
	}
	return changed > 0, err
}

// Engagements reads what a viewer is shown of users' actions on posts: how many likes and answers each post has, and whether the
// viewer likes it. Every post is in the result.
func Engagements(ctx context.Context, db *sql.DB, viewer services.UserID, posts []services.PostID) (map[services.PostID]services.Engagement, error) {
	found := make(map[services.PostID]services.Engagement, len(posts))
	err := db.Each(ctx, engagementOf, []any{sql.ColumnParameter(posts), viewer}, func(scan func(...any) error) error {
		var post services.PostID
		var of services.Engagement
		err := scan(&post, &of.Likes, &of.Comments, &of.LikedByViewer)
		of.Likes, of.Comments = max(of.Likes, 0), max(of.Comments, 0) // a node of an older version may leave counts below 0
		found[post] = of
		return err
	})
	return found, err
}
