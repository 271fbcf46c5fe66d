package posts

import (
	"context"
	"fmt"

	"tidings/services"
	"tidings/services/people"
	"tidings/services/sql"
)

// selectPublishedPosts first finds the bound of each range, the last post that it reads, and then reads the ranges; sql.ReadUserLists
// makes pages of the rows. Each author has one range of posts_by_author for the pushed posts and one for the pulled ones. All posts of an
// author are shown, or none, so no range has rows to skip.
var selectPublishedPosts = sql.NewStatement("posts of users", fmt.Sprintf(`
WITH ranges AS MATERIALIZED (
	SELECT c.i, c.owner, c.before, c.pull, COALESCE((SELECT p.id FROM posts p WHERE %[1]s ORDER BY p.id DESC LIMIT 1 OFFSET $2 - 1), 0) AS bound
	FROM (SELECT c.i, c.owner, c.before, w.pull FROM {rows $1 i BIGINT, owner BIGINT, before BIGINT} AS c
		CROSS JOIN (SELECT FALSE AS pull UNION ALL SELECT TRUE AS pull) AS w WHERE NOT %[2]s) AS c
)
SELECT c.i, 0, %[3]s
FROM ranges c LEFT JOIN posts p ON %[1]s AND p.id >= c.bound LEFT JOIN users u ON u.number = p.author
ORDER BY c.i, p.id DESC`, `p.author = c.owner AND p.pull = c.pull AND p.id < c.before AND p.deleted_at IS NULL AND NOT p.off_feed`,
	people.HidesFromCondition("c.owner", "$3"), shownPostColumns("$3")))

// PublishedPosts reads pages of users' posts, the newest first, each with the Engagement for a viewer. It reads only posts that home
// feeds list. The list of a user who hides from the viewer or blocks the viewer is empty.
func PublishedPosts(ctx context.Context, db *sql.DB, viewer services.UserID, pages []services.UserPageRequest) (map[services.UserPageRequest]services.UserListPage[ShownPost], error) {
	return sql.ReadUserLists(ctx, db.Runner, selectPublishedPosts, viewer, pages, func(scan func(...any) error, first ...any) (ShownPost, uint64, error) {
		post, err := scanShownPost(scan, first...)
		return post, uint64(post.ID), err
	})
}
