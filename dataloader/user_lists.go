package dataloader

import (
	"context"

	"tidings/services"
	"tidings/services/live"
	"tidings/services/posts"
)

// PostList is a page of a user's posts. Together are the posts of all pages that were read with it.
type PostList struct {
	services.UserList[posts.Shown]
	Together []services.Post
}

// userLists are the pages of lists of users that the response has read.
type userLists struct {
	followers Batch[services.UserPage, services.UserList[services.User]]
	followees Batch[services.UserPage, services.UserList[services.User]]
	posts     Batch[services.UserPage, PostList]
	shows     Batch[services.UserPage, services.UserList[live.Show]]
}

// ReadPages reads pages of one kind of list, as far as a viewer may see them.
type ReadPages[T any] func(ctx context.Context, pages []services.UserPage) (map[services.UserPage]services.UserList[T], error)

// ItemsTogether is how many items one statement reads at most in lists that are probably asked for next.
const ItemsTogether = 10_000

// Pages are the page of a list of a user, and those of the users who were read together with the user, who are probably shown beside
// them: one statement reads all of them. A page further down is asked for alone.
func (l *Loader) Pages(page services.UserPage) []services.UserPage {
	if page.Before != services.ListStart {
		return []services.UserPage{page}
	}
	owners := l.memory().users.together(page.Owner)
	pages := []services.UserPage{page}
	for _, owner := range owners[:min(len(owners), ItemsTogether/page.Size)] { // the others were not paid for
		if owner != page.Owner {
			pages = append(pages, services.UserPage{Owner: owner, Before: page.Before, Size: page.Size})
		}
	}
	return pages
}

// Followers reads pages of the users who follow users. A response has one viewer.
func (l *Loader) Followers(ctx context.Context, pages []services.UserPage, read ReadPages[services.User]) (map[services.UserPage]services.UserList[services.User], error) {
	m := l.memory()
	return m.lists.followers.Load(ctx, pages, m.people(read))
}

// Followees reads pages of the users whom users follow.
func (l *Loader) Followees(ctx context.Context, pages []services.UserPage, read ReadPages[services.User]) (map[services.UserPage]services.UserList[services.User], error) {
	m := l.memory()
	return m.lists.followees.Load(ctx, pages, m.people(read))
}

// people is a read of pages whose users are met.
func (m *memory) people(read ReadPages[services.User]) ReadPages[services.User] {
	return func(ctx context.Context, pages []services.UserPage) (map[services.UserPage]services.UserList[services.User], error) {
		found, err := read(ctx, pages)
		var users []services.User
		for _, list := range found {
			users = append(users, list.Items...)
		}
		m.meetUsers(users)
		return found, err
	}
}

// Published reads pages of the posts of users, with what the viewer is told of each.
func (l *Loader) Published(ctx context.Context, pages []services.UserPage, read ReadPages[posts.Shown]) (map[services.UserPage]PostList, error) {
	m := l.memory()
	return m.lists.posts.Load(ctx, pages, func(ctx context.Context, pages []services.UserPage) (map[services.UserPage]PostList, error) {
		read, err := read(ctx, pages)
		var together []services.Post
		var authors []services.User
		engagements := map[services.PostID]services.Engagement{}
		for _, list := range read {
			for _, post := range list.Items {
				engagements[post.ID] = post.Engagement
				together = append(together, post.Post)
			}
			if len(list.Items) > 0 {
				authors = append(authors, list.Items[0].By)
			}
		}
		m.meetUsers(authors)
		m.parts.engagement.keepNew(engagements)
		found := make(map[services.UserPage]PostList, len(read))
		for page, list := range read {
			found[page] = PostList{list, together}
		}
		return found, err
	})
}

// Hosted reads pages of the shows of users.
func (l *Loader) Hosted(ctx context.Context, pages []services.UserPage, read ReadPages[live.Show]) (map[services.UserPage]services.UserList[live.Show], error) {
	m := l.memory()
	return m.lists.shows.Load(ctx, pages, func(ctx context.Context, pages []services.UserPage) (map[services.UserPage]services.UserList[live.Show], error) {
		found, err := read(ctx, pages)
		var ids []services.PostID
		for _, list := range found {
			for _, show := range list.Items {
				ids = append(ids, show.ID)
			}
		}
		m.meet(ids)
		return found, err
	})
}
