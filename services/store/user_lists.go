package store

import (
	"context"
	"fmt"

	"tidings/services"
	"tidings/services/sql"
)

// mostHidden is how many users apart from the viewer a page passes over: after as many it is short, and says that more follows.
const mostHidden = services.Retention

// Lists of users are read as those of posts are: one range of an index for each user, down to a bound. A user who hides from the
// viewer or blocks them has no row: to the viewer, their lists are empty.

// listOfFollows makes the statement that reads pages of the users at one end of follows. Users apart from the viewer are omitted,
// except of the viewer's own lists: these have everyone of whom Relation.Followed or Relation.Follows is true.
func listOfFollows(name, of, listed string) sql.Statement {
	standing := "f." + of + " = c.owner AND f." + listed + " < c.before"
	shown := func(user string) string { return "(c.owner = $3 OR NOT " + ApartFrom(user, "$3") + ")" }
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
ORDER BY c.i, f.%[2]s DESC`, standing, listed, mostHidden, shown("a."+listed), shown("f."+listed), HidesFrom("c.owner", "$3")))
}

var (
	listFollowers = listOfFollows("followers of users", "followee", "follower")
	listFollowees = listOfFollows("followees of users", "follower", "followee")
)

// UserLists reads pages of lists of users, as a viewer may see them, by one statement. It has the parameters pages, the greatest
// size and one more, and the viewer; it selects the index of a page, where it ends if not at an item (0: nowhere), and the columns
// of an item, the greatest position first. read reads an item after the columns that come before it, and its position: 0 for none.
func UserLists[T any](ctx context.Context, r sql.Runner, st sql.Statement, viewer services.UserID, pages []services.UserPage,
	read func(scan func(...any) error, first ...any) (item T, position uint64, err error),
) (map[services.UserPage]services.UserList[T], error) {
	asked, longest := make(sql.Rows, len(pages)), 0
	for i, page := range pages {
		asked[i], longest = []any{i, page.Owner, int64(page.Before)}, max(longest, page.Size)
	}
	items, bounds, lasts := make([][]T, len(pages)), make([]uint64, len(pages)), make([]uint64, len(pages))
	err := r.Each(ctx, st, []any{asked, longest + 1, viewer}, func(scan func(...any) error) error {
		var i int
		var bound uint64
		item, position, err := read(scan, &i, &bound)
		if err != nil {
			return err
		}
		if bounds[i] = bound; position != 0 {
			if items[i] = append(items[i], item); len(items[i]) <= pages[i].Size {
				lasts[i] = position
			}
		}
		return nil
	})
	found := make(map[services.UserPage]services.UserList[T], len(pages))
	for i, page := range pages {
		list := services.UserList[T]{Items: items[i], More: bounds[i] > 0, Next: bounds[i]}
		if len(list.Items) > page.Size {
			list.Items, list.More, list.Next = list.Items[:page.Size], true, lasts[i]
		}
		found[page] = list
	}
	return found, err
}

// followsIn reads pages of users at one end of follows.
func (s *Store) followsIn(ctx context.Context, st sql.Statement, viewer services.UserID, pages []services.UserPage) (map[services.UserPage]services.UserList[services.User], error) {
	return UserLists(ctx, s.DB.Runner, st, viewer, pages, func(scan func(...any) error, first ...any) (user services.User, position uint64, err error) {
		err = scan(append(first, &user.Number, &user.Key, &user.Name, &user.AvatarURL)...)
		return user, uint64(user.Number), err
	})
}

// ListFollowers reads pages of the users who follow users, by their IDs, the greatest first, whether they are shown their posts or not.
// Those who are apart from the viewer are omitted, except of the viewer's own list.
func (s *Store) ListFollowers(ctx context.Context, viewer services.UserID, pages []services.UserPage) (map[services.UserPage]services.UserList[services.User], error) {
	return s.followsIn(ctx, listFollowers, viewer, pages)
}

// ListFollowees reads pages of the users whom users follow, as ListFollowers does.
func (s *Store) ListFollowees(ctx context.Context, viewer services.UserID, pages []services.UserPage) (map[services.UserPage]services.UserList[services.User], error) {
	return s.followsIn(ctx, listFollowees, viewer, pages)
}
