package sql

import (
	"context"

	"tidings/services"
)

// MaxHiddenRows is the greatest number of rows that a page of a list skips because the viewer may not see them. After that many rows
// the page is short, and reports that more follows.
const MaxHiddenRows = 300

// ReadLists reads pages of lists, as the viewer may see them, with one statement. The parameters of the statement are the
// pages, the greatest page size plus one, and the viewer. It selects the rows of each page in the order of its list.
//
// ask returns the parameters of a page, without its index, and its size. read reads one row. It stores the index of the page in i, and
// returns the item, its position, and the position at which the statement stopped reading the page. A zero position means that the
// row has no item. A zero end means that the list has no more.
//
// Many lists are read for one request, such as the likes of each post of a page: one statement for all of them is one
// round trip. Rows that the viewer may not see are skipped in SQL, at most MaxHiddenRows of a page, so that a list of
// hidden rows cannot be made to take long.
func ReadLists[K, P comparable, T any](ctx context.Context, r Runner, st Statement, viewer services.UserID, pages []K,
	ask func(page K) (row []any, size int), read func(scan func(...any) error, i *int) (item T, position, end P, err error),
) (map[K]services.ListPage[P, T], error) {
	asked, sizes, longest := make(RowsParameter, len(pages)), make([]int, len(pages)), 0
	for i, page := range pages {
		row, size := ask(page)
		asked[i], sizes[i], longest = append([]any{i}, row...), size, max(longest, size)
	}
	// none is the zero position, which no item of any list has. The end of a page without rows stays zero.
	var none P
	lists, ends := make([]services.ListPage[P, T], len(pages)), make([]P, len(pages))
	err := r.Each(ctx, st, []any{asked, longest + 1, viewer}, func(scan func(...any) error) error {
		var i int
		item, position, end, err := read(scan, &i)
		if err != nil {
			return err
		}
		// An item beyond the size of the page only shows that more follow: Next stays at the last item of the page.
		if ends[i] = end; position != none {
			if lists[i].Items = append(lists[i].Items, item); len(lists[i].Items) <= sizes[i] {
				lists[i].Next = position
			}
		}
		return nil
	})
	found := make(map[K]services.ListPage[P, T], len(pages))
	for i, page := range pages {
		// A page without rows is in found too: its caller asked for it.
		list := lists[i]
		if list.More = len(list.Items) > sizes[i]; list.More {
			list.Items = list.Items[:sizes[i]]
		} else { // no visible item follows among the rows that were read
			list.More, list.Next = ends[i] != none, ends[i]
		}
		found[page] = list
	}
	return found, err
}

// ReadUserLists reads pages of lists that users have, such as their posts, by ReadLists, the greatest position first. read must scan a
// row into the pointers in first, followed by pointers for the item, and return the item and its position, or 0 for no item.
func ReadUserLists[T any](ctx context.Context, r Runner, st Statement, viewer services.UserID, pages []services.UserPageRequest,
	read func(scan func(...any) error, first ...any) (item T, position uint64, err error),
) (map[services.UserPageRequest]services.UserListPage[T], error) {
	return ReadLists(ctx, r, st, viewer, pages,
		func(page services.UserPageRequest) ([]any, int) {
			return []any{page.Owner, int64(page.Before)}, page.Size
		},
		func(scan func(...any) error, i *int) (item T, position, end uint64, err error) {
			item, position, err = read(scan, i, &end)
			return item, position, end, err
		})
}
