package dataloader

import (
	"context"
	"testing"

	"tidings/services"
)

// A client can name one user's list several times by aliases, with different sizes. These are different pages, and each could read
// ahead the pages of all users who were read together with this user. All of them together read ahead at most maxPrefetchedItems
// items in a response. ForgetAll does not reset the count.
func TestAResponsePrefetchesUpToABound(t *testing.T) {
	l := New(newCountingReader().readers())
	var users []services.UserID
	for n := range 99 {
		users = append(users, services.UserID(n+1))
	}
	meet := func() {
		if _, err := l.Users(t.Context(), users); err != nil {
			t.Fatal(err)
		}
	}
	meet()
	items, asked, alone := 0, 0, 0
	page := func(size int, load func(context.Context, services.UserPageRequest, ReadPages[services.User]) (services.UserListPage[services.User], error)) {
		asked += size
		_, err := load(t.Context(), services.UserPageRequest{Owner: 1, Before: services.ListStart, Size: size}, func(_ context.Context, pages []services.UserPageRequest) (map[services.UserPageRequest]services.UserListPage[services.User], error) {
			items += len(pages) * size
			if len(pages) == 1 {
				alone++
			}
			return nil, nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for size := 100; size > 70; size-- {
		page(size, l.Followers)
		page(size, l.Followees)
		l.ForgetAll()
		meet()
	}
	if items > asked+maxPrefetchedItems || items < maxPrefetchedItems {
		t.Errorf("%d items are read for %d that were asked for: want at most %d more", items, asked, maxPrefetchedItems)
	}
	if alone < 50 {
		t.Errorf("%d of 60 pages are read alone", alone)
	}
}
