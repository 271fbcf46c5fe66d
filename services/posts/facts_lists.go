package posts

import (
	"context"
	"fmt"

	"tidings/services"
	"tidings/services/people"
	"tidings/services/sql"
)

// Answers and likes are listed from one range of an index for each post. A statement first finds the bound of each range, the last
// row that it reads. That is the first listed row after the page, else the last row that may be looked at, else 0: the statement
// reads to the end. A range without a listed row gives one row, with only the bound.
const (
	// answersRangeCondition and likesRangeCondition select the answers and the likes of a post after the page's position, also those
	// of users who are hidden from the viewer.
	answersRangeCondition = `p.parent = c.post AND p.id < c.before AND p.deleted_at IS NULL`
	likesRangeCondition   = `l.post = c.post AND (l.liked_at, l.liker) < (c.at, c.liker)`
)

// shownPostColumns returns the columns of a ShownPost: the columns of a post p, of its author u, and of a viewer's Engagement. In a
// range without a listed row the columns have default values or are NULL.
func shownPostColumns(viewer string) string {
	return `COALESCE(p.id, 0), COALESCE(p.author, 0), COALESCE(p.kind, ''), p.parent, COALESCE(p.body, ''), COALESCE(p.updated_at, 0), p.edited_at,
	COALESCE(u.key, ''), COALESCE(u.name, ''), COALESCE(u.avatar_url, ''),
	COALESCE(CAST((SELECT sum(n.likes) FROM post_counts n WHERE n.post = p.id) AS BIGINT), 0),
	COALESCE(CAST((SELECT sum(n.comments) FROM post_counts n WHERE n.post = p.id) AS BIGINT), 0),
	(SELECT count(*) FROM likes k WHERE k.post = p.id AND k.liker = ` + viewer + `)`
}

var (
	// $1 are the pages with their numbers i, $2 is the number of rows of a page and one more, and $3 is the viewer.
	answersOf = sql.NewStatement("answers to posts", fmt.Sprintf(`
WITH ranges AS MATERIALIZED (
	SELECT c.i, c.post, c.before, COALESCE(
		(SELECT a.id FROM (SELECT p.id, p.author FROM posts p WHERE %[1]s ORDER BY p.id DESC LIMIT $2 + %[2]d) AS a
			WHERE NOT %[3]s ORDER BY a.id DESC LIMIT 1 OFFSET $2 - 1),
		(SELECT p.id FROM posts p WHERE %[1]s ORDER BY p.id DESC LIMIT 1 OFFSET $2 + %[2]d - 1), 0) AS bound
	FROM {rows $1 i BIGINT, post BIGINT, before BIGINT} AS c
)
SELECT c.i, c.bound, %[4]s
FROM ranges c LEFT JOIN posts p ON %[1]s AND p.id >= c.bound AND NOT %[5]s LEFT JOIN users u ON u.number = p.author
ORDER BY c.i, p.id DESC`, answersRangeCondition, sql.MaxHiddenRows, people.HiddenOrBlockedCondition("a.author", "$3"), shownPostColumns("$3"), people.HiddenOrBlockedCondition("p.author", "$3")))

	// Likes have no ID, so their position is the time and the user, and the bound is a time: all likes of that time are read.
	// Which users are left out depends on the post's author (owner): an author who views the likes of their own post sees them all,
	// except those of users that they block or who are being erased. See people.HiddenOrBlockedForOwnerCondition.
	likesOf = sql.NewStatement("likes of posts", fmt.Sprintf(`
WITH pages AS MATERIALIZED (
	SELECT c.i, c.post, c.at, c.liker, (SELECT o.author FROM posts o WHERE o.id = c.post) AS owner
	FROM {rows $1 i BIGINT, post BIGINT, at BIGINT, liker BIGINT} AS c
), ranges AS MATERIALIZED (
	SELECT c.i, c.post, c.at, c.liker, c.owner, COALESCE(
		(SELECT a.liked_at FROM (SELECT l.liked_at, l.liker FROM likes l WHERE %[1]s ORDER BY l.liked_at DESC, l.liker DESC LIMIT $2 + %[2]d) AS a
			WHERE NOT %[3]s ORDER BY a.liked_at DESC, a.liker DESC LIMIT 1 OFFSET $2 - 1),
		(SELECT l.liked_at FROM likes l WHERE %[1]s ORDER BY l.liked_at DESC, l.liker DESC LIMIT 1 OFFSET $2 + %[2]d - 1), 0) AS bound
	FROM pages c
)
SELECT c.i, c.bound, COALESCE(l.liked_at, 0), COALESCE(l.liker, 0), COALESCE(u.key, ''), COALESCE(u.name, ''), COALESCE(u.avatar_url, '')
FROM ranges c LEFT JOIN likes l ON %[1]s AND l.liked_at >= c.bound AND NOT %[4]s LEFT JOIN users u ON u.number = l.liker
ORDER BY c.i, l.liked_at DESC, l.liker DESC`, likesRangeCondition, sql.MaxHiddenRows, people.HiddenOrBlockedForOwnerCondition("a.liker", "$3", "c.owner"), people.HiddenOrBlockedForOwnerCondition("l.liker", "$3", "c.owner")))

	// CROSS JOIN keeps the order of the tables: SQLite then looks up each post of $1, and does not walk all posts.
	shownPosts = sql.NewStatement("posts that a viewer may see", `SELECT `+shownPostColumns("$2")+`
FROM {rows $1 post BIGINT} AS c CROSS JOIN posts p LEFT JOIN users u ON u.number = p.author
WHERE p.id = c.post AND p.deleted_at IS NULL AND NOT `+people.HidesFromCondition("p.author", "$2"))
)

// Answers reads pages of answers as a viewer may see them, all by one query. It leaves out answers of authors who hide from the
// viewer, block the viewer, are blocked by the viewer, or are being erased.
func Answers(ctx context.Context, db *sql.DB, viewer services.UserID, pages []AnswersPage) (map[AnswersPage]AnswerList, error) {
	return sql.ReadLists(ctx, db.Runner, answersOf, viewer, pages,
		func(page AnswersPage) ([]any, int) { return []any{page.Post, page.After}, page.Size },
		func(scan func(...any) error, i *int) (answer ShownPost, position, end services.PostID, err error) {
			answer, err = scanShownPost(scan, i, &end)
			return answer, answer.ID, end, err
		})
}

// Likes reads pages of likes as a viewer may see them, all by one query. It leaves out users who hide from the viewer, block the
// viewer, are blocked by the viewer, or are being erased. On the viewer's own posts it leaves out only users that the viewer blocks
// and users who are being erased: see people.HiddenOrBlockedForOwnerCondition.
func Likes(ctx context.Context, db *sql.DB, viewer services.UserID, pages []LikesPage) (map[LikesPage]LikeList, error) {
	return sql.ReadLists(ctx, db.Runner, likesOf, viewer, pages,
		func(page LikesPage) ([]any, int) {
			return []any{page.Post, sql.Micros(page.After.At), page.After.Liker}, page.Size
		},
		func(scan func(...any) error, i *int) (like Like, position, end LikePosition, err error) {
			var at, endAt int64
			err = scan(i, &endAt, &at, &like.By.ID, &like.By.Key, &like.By.Name, &like.By.AvatarURL)
			if endAt > 0 {
				end.At = sql.FromMicros(endAt) // all likes of that time are on the page
			}
			if like.By.ID != 0 {
				like.At = sql.FromMicros(at)
			}
			return like, like.Position(), end, err
		})
}

// ShownTo reads posts with their authors, and with the Engagement for a viewer. Posts that are deleted or hidden from the viewer
// are absent.
func ShownTo(ctx context.Context, db *sql.DB, viewer services.UserID, posts []services.PostID) (map[services.PostID]ShownPost, error) {
	found := make(map[services.PostID]ShownPost, len(posts))
	err := db.Each(ctx, shownPosts, []any{sql.ColumnParameter(posts), viewer}, func(scan func(...any) error) error {
		post, err := scanShownPost(scan)
		found[post.ID] = post
		return err
	})
	return found, err
}

// scanShownPost reads a row of shownPostColumns, after the columns that come before it.
func scanShownPost(scan func(...any) error, first ...any) (post ShownPost, err error) {
	var updated int64
	var parent, edited sql.NullInt64
	err = scan(append(first, &post.ID, &post.Author, &post.Kind, &parent, &post.Body, &updated, &edited,
		&post.By.Key, &post.By.Name, &post.By.AvatarURL, &post.Likes, &post.Comments, &post.LikedByViewer)...)
	post.By.ID, post.Parent, post.UpdatedAt = post.Author, services.PostID(parent.Int64), sql.FromMicros(updated)
	if edited.Valid {
		post.EditedAt = sql.FromMicros(edited.Int64)
	}
	return post, err
}
