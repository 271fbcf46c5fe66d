package people

import (
	"context"
	"fmt"

	"tidings/services"
	"tidings/services/sql"
)

// Lists of users are read like lists of posts: one range of an index for each user, down to a bound. A user who hides from the
// viewer or blocks them has no row: to the viewer, their lists are empty.

// newFollowListStatement makes the statement that reads pages of the users at one end of follows. of is the column of the list's
// owner, and listed is the column of the users in the list. Users who have a block with the viewer, or hide from them, are left
// out, except in the viewer's own lists: these have every user with Relation.FollowsViewer or Relation.Follows.
//
// ranges finds the lowest position that each page reads: the position of the last user on a full page, or, if too many users are
// left out, of the last user that the page may look at (sql.MaxHiddenRows). So the work for a page is bounded. A page may be short,
// and still has a bound from which the next page continues.
func newFollowListStatement(name, of, listed string) sql.Statement {
	// standing selects the range of the index for one page.
	standing := "f." + of + " = c.owner AND f." + listed + " < c.before"
	shown := func(user string) string { return "(c.owner = $3 OR NOT " + HiddenOrBlockedCondition(user, "$3") + ")" }
	return sql.NewStatement(name, fmt.Sprintf(`
WITH ranges AS MATERIALIZED (
	SELECT c.i, c.owner, c.before, COALESCE(
		(SELECT a.%[2]s FROM (SELECT f.%[2]s FROM follows f WHERE %[1]s ORDER BY f.%[2]s DESC LIMIT $2 + %[3]d) AS a
			WHERE %[4]s ORDER BY a.%[2]s DESC LIMIT 1 OFFSET $2 - 1),
		(SELECT f.%[2]s FROM follows f WHERE %[1]s ORDER BY f.%[2]s DESC LIMIT 1 OFFSET $2 + %[3]d - 1), 0) AS bound
	FROM {rows $1 i BIGINT, owner BIGINT, before BIGINT} AS c WHERE NOT %[6]s
)
SELECT c.i, c.bound, COALESCE(f.%[2]s, 0), COALESCE(u.key, ''), COALESCE(u.name, ''), COALESCE(u.avatar_url, '')
FROM ranges c LEFT JOIN follows f ON %[1]s AND f.%[2]s >= c.bound AND %[5]s LEFT JOIN users u ON u.number = f.%[2]s
ORDER BY c.i, f.%[2]s DESC`, standing, listed, sql.MaxHiddenRows, shown("a."+listed), shown("f."+listed), HidesFromCondition("c.owner", "$3")))
}

var (
	listFollowers = newFollowListStatement("followers of users", "followee", "follower")
	listFollowees = newFollowListStatement("followees of users", "follower", "followee")
)

// readFollowLists reads pages of users at one end of follows, all in one statement: the pages of a request are loaded together.
func readFollowLists(ctx context.Context, db *sql.DB, st sql.Statement, viewer services.UserID, pages []services.UserPageRequest) (map[services.UserPageRequest]services.UserListPage[services.User], error) {
	return sql.ReadUserLists(ctx, db.Runner, st, viewer, pages, func(scan func(...any) error, first ...any) (user services.User, position uint64, err error) {
		err = scan(append(first, &user.ID, &user.Key, &user.Name, &user.AvatarURL)...)
		return user, uint64(user.ID), err
	})
}

// ListFollowers reads pages of the users who follow users, by their IDs, the greatest first, whether their follows are shown or
// not. Users who hide from the viewer, or have a block with them (HiddenOrBlockedCondition), are omitted, except in the viewer's own
// list.
func ListFollowers(ctx context.Context, db *sql.DB, viewer services.UserID, pages []services.UserPageRequest) (map[services.UserPageRequest]services.UserListPage[services.User], error) {
	return readFollowLists(ctx, db, listFollowers, viewer, pages)
}

// ListFollowees reads pages of the users that users follow, in the same order as ListFollowers, which also says who is omitted.
func ListFollowees(ctx context.Context, db *sql.DB, viewer services.UserID, pages []services.UserPageRequest) (map[services.UserPageRequest]services.UserListPage[services.User], error) {
	return readFollowLists(ctx, db, listFollowees, viewer, pages)
}
