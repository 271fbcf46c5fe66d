package dataloader

import (
	"context"
	"slices"

	"tidings/services"
	"tidings/services/live"
	"tidings/services/posts"
)

// PostList is a page of a user's posts. ReadTogether has the posts of all pages that were read with it, so that a field of one of them
// is read for all.
type PostList struct {
	services.UserListPage[posts.ShownPost]
	ReadTogether []services.Post
}

// userLists has the pages of users' lists that the response has read.
type userLists struct {
	followers batch[services.UserPageRequest, services.UserListPage[services.User]]
	followees batch[services.UserPageRequest, services.UserListPage[services.User]]
	posts     batch[services.UserPageRequest, PostList]
	shows     batch[services.UserPageRequest, services.UserListPage[live.Show]]
}

// ReadPages reads pages of one kind of list of users, such as their followers. The pages have only the items that the viewer may see.
type ReadPages[T any] func(ctx context.Context, pages []services.UserPageRequest) (map[services.UserPageRequest]services.UserListPage[T], error)

// maxPrefetchedItems bounds how many items a response reads ahead: items of lists that the client will probably request next. There is
// a bound because the cost that is charged for the operation need not include these items. It is a hundred pages of the greatest size.
// It is for all lists of the response together, because a client can name one list several times with different sizes, and each time
// reads ahead again.
const maxPrefetchedItems = 10_000

// prefetchLimiter returns a function for loadOneBounded: it gets a number of other pages, of size items each, and returns how many
// of them may be read ahead. It counts their items. Once the response has read maxPrefetchedItems items ahead, each page is read
// alone. ForgetAll does not reset the count.
func (l *Loader) prefetchLimiter(size int) func(pages int) int {
	return func(pages int) int {
		l.mu.Lock()
		defer l.mu.Unlock()
		pages = min(pages, (maxPrefetchedItems-l.prefetchedItems)/size)
		l.prefetchedItems += pages * size
		return pages
	}
}

// loadUserListPage reads a page of a user's list. With a first page, it also reads the first pages of all users who were read together
// with this user, because they are probably shown beside each other. A later page is read alone.
func loadUserListPage[T any](ctx context.Context, l *Loader, m *responseMemory, lists *batch[services.UserPageRequest, T], page services.UserPageRequest, read func(context.Context, []services.UserPageRequest) (map[services.UserPageRequest]T, error)) (T, error) {
	list, _, err := lists.loadOneBounded(ctx, page, l.prefetchLimiter(page.Size), func() (pages []services.UserPageRequest) {
		if page.Before == services.ListStart {
			// Users who were read together are mostly beside each other on the page.
			for _, owner := range m.users.keysReadWith(page.Owner) {
				pages = append(pages, services.UserPageRequest{Owner: owner, Before: page.Before, Size: page.Size})
			}
		}
		return pages
	}, read)
	return list, err
}

// Followers reads a page of the users who follow a user. A response has one viewer.
func (l *Loader) Followers(ctx context.Context, page services.UserPageRequest, read ReadPages[services.User]) (services.UserListPage[services.User], error) {
	m := l.currentMemory()
	return loadUserListPage(ctx, l, m, &m.lists.followers, page, m.readAndKeepUsers(read))
}

// Followees reads a page of the users that a user follows.
func (l *Loader) Followees(ctx context.Context, page services.UserPageRequest, read ReadPages[services.User]) (services.UserListPage[services.User], error) {
	m := l.currentMemory()
	return loadUserListPage(ctx, l, m, &m.lists.followees, page, m.readAndKeepUsers(read))
}

// readAndKeepUsers returns a function that calls read, and remembers the users on the pages for later reads of the response.
func (m *responseMemory) readAndKeepUsers(read ReadPages[services.User]) ReadPages[services.User] {
	return func(ctx context.Context, pages []services.UserPageRequest) (map[services.UserPageRequest]services.UserListPage[services.User], error) {
		found, err := read(ctx, pages)
		m.keepUsers(slices.Collect(itemsOf(found)))
		return found, err
	}
}

// PublishedPosts reads a page of the posts of a user, each as the viewer may see it.
func (l *Loader) PublishedPosts(ctx context.Context, page services.UserPageRequest, read ReadPages[posts.ShownPost]) (PostList, error) {
	m := l.currentMemory()
	return loadUserListPage(ctx, l, m, &m.lists.posts, page, func(ctx context.Context, pages []services.UserPageRequest) (map[services.UserPageRequest]PostList, error) {
		read, err := read(ctx, pages)
		together := m.keepShownPosts(itemsOf(read))
		found := make(map[services.UserPageRequest]PostList, len(read))
		for page, list := range read {
			found[page] = PostList{list, together}
		}
		return found, err
	})
}

// HostedShows reads a page of the shows of a user.
func (l *Loader) HostedShows(ctx context.Context, page services.UserPageRequest, read ReadPages[live.Show]) (services.UserListPage[live.Show], error) {
	m := l.currentMemory()
	return loadUserListPage(ctx, l, m, &m.lists.shows, page, func(ctx context.Context, pages []services.UserPageRequest) (map[services.UserPageRequest]services.UserListPage[live.Show], error) {
		found, err := read(ctx, pages)
		var ids []services.ShowID
		for show := range itemsOf(found) {
			ids = append(ids, show.ID)
		}
		m.addResponseShows(ids)
		return found, err
	})
}
