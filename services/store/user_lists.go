package store

import (
	"context"
	"fmt"

	"tidings/services"
	"tidings/services/sql"
)

// MostHidden is how many rows that the viewer may not see a page of a list passes over: after as many it is short, and says that
// more follows.
const MostHidden = services.Retention

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
ORDER BY c.i, f.%[2]s DESC`, standing, listed, MostHidden, shown("a."+listed), shown("f."+listed), HidesFrom("c.owner", "$3")))
}

var (
	listFollowers = listOfFollows("followers of users", "followee", "follower")
	listFollowees = listOfFollows("followees of users", "follower", "followee")
)

// ReadLists reads pages of lists, as a viewer may see them, by one statement. It has the parameters pages, the greatest size and one
// more, and the viewer, and selects the rows of each page in the order of its list. ask is the parameters of a page after its
// index, and its size. read reads a row: the index of its page, the item with its position, and where the page ends if not at an
// item. The zero position is a row without an item, the zero end that of the list.
func ReadLists[K, P comparable, T any](ctx context.Context, r sql.Runner, st sql.Statement, viewer services.UserID, pages []K,
	ask func(page K) (row []any, size int), read func(scan func(...any) error, i *int) (item T, position, end P, err error),
) (map[K]services.List[P, T], error) {
	asked, sizes, longest := make(sql.Rows, len(pages)), make([]int, len(pages)), 0
	for i, page := range pages {
		row, size := ask(page)
		asked[i], sizes[i], longest = append([]any{i}, row...), size, max(longest, size)
	}
	var none P
	lists, ends := make([]services.List[P, T], len(pages)), make([]P, len(pages))
	err := r.Each(ctx, st, []any{asked, longest + 1, viewer}, func(scan func(...any) error) error {
		var i int
		item, position, end, err := read(scan, &i)
		if err != nil {
			return err
		}
		if ends[i] = end; position != none {
			if lists[i].Items = append(lists[i].Items, item); len(lists[i].Items) <= sizes[i] {
				lists[i].Next = position
			}
		}
		return nil
	})
	found := make(map[K]services.List[P, T], len(pages))
	for i, page := range pages {
		list := lists[i]
		if list.More = len(list.Items) > sizes[i]; list.More {
			list.Items = list.Items[:sizes[i]]
		} else { // only rows that the viewer may not see follow, as far as the page looked
			list.More, list.Next = ends[i] != none, ends[i]
		}
		found[page] = list
	}
	return found, err
}

// UserLists is ReadLists for lists that users have, the greatest position first. read reads an item after the columns that come
// before it, and its position: 0 for none.
func UserLists[T any](ctx context.Context, r sql.Runner, st sql.Statement, viewer services.UserID, pages []services.UserPage,
	read func(scan func(...any) error, first ...any) (item T, position uint64, err error),
) (map[services.UserPage]services.UserList[T], error) {
	return ReadLists(ctx, r, st, viewer, pages,
		func(page services.UserPage) ([]any, int) { return []any{page.Owner, int64(page.Before)}, page.Size },
		func(scan func(...any) error, i *int) (item T, position, end uint64, err error) {
			item, position, err = read(scan, i, &end)
			return item, position, end, err
		})
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
