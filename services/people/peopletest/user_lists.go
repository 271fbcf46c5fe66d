package peopletest

import (
	"maps"
	"slices"

	"tidings/services"
	"tidings/services/sql/sqltest"
)

// WalkUserLists walks the lists of owners to their ends, one page of each list at a time, and returns for each owner the
// positions of the items and the sizes of the pages.
func WalkUserLists[T any](t sqltest.Tester, size int, owners []services.UserID, position func(T) uint64,
	read func([]services.UserPageRequest) (map[services.UserPageRequest]services.UserListPage[T], error),
) (walked map[services.UserID][]uint64, sizes map[services.UserID][]int) {
	t.Helper()
	walked, sizes = map[services.UserID][]uint64{}, map[services.UserID][]int{}
	// next has the lists that are not at their end, with the position of each list's next page.
	next := map[services.UserID]uint64{}
	for _, owner := range owners {
		next[owner] = services.ListStart
	}
	for len(next) > 0 {
		var pages []services.UserPageRequest
		for _, owner := range slices.Sorted(maps.Keys(next)) {
			pages = append(pages, services.UserPageRequest{Owner: owner, Before: next[owner], Size: size})
		}
		found := sqltest.Must(read(pages))(t)
		for _, page := range pages {
			list := found[page]
			for _, item := range list.Items {
				walked[page.Owner] = append(walked[page.Owner], position(item))
			}
			sizes[page.Owner] = append(sizes[page.Owner], len(list.Items))
			// The positions of a list must fall. Otherwise it would have no end.
			if delete(next, page.Owner); list.More {
				if list.Next >= page.Before {
					t.Fatalf("the page after %d is before %d", page.Before, list.Next)
				}
				next[page.Owner] = list.Next
			}
		}
	}
	return walked, sizes
}
