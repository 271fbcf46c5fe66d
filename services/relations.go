package services

import "math"

// Relation is how a viewer and another user relate to each other. Restrictions that the other user has set against the viewer are left
// out: nobody learns who blocks or hides from them.
type Relation struct {
	Follows       bool // the viewer follows the user, whether posts are shown or not
	FollowsViewer bool // the user follows the viewer
	Mutes         bool // the viewer mutes the user now
	Blocks        bool // the viewer blocks the user
	Hides         bool // the viewer hides their posts from the user

	Mode FollowMode // of the viewer's follow; FollowAll without one
}

// UserPageRequest asks for a page of a list that a user has, such as the user's posts: at most Size items before a position, the
// greatest positions first.
type UserPageRequest struct {
	Owner  UserID
	Before uint64 // a position: the page has the items at smaller positions
	Size   int
}

// ListStart is the position of the first page of a list: every item comes before it.
const ListStart uint64 = math.MaxInt64

// ListPage is a page of a list. If More is true, the next page begins after Next.
type ListPage[P comparable, T any] struct {
	Items []T
	More  bool
	Next  P
}

// UserListPage is a page of a list that a user has. The items of the next page are before Next.
type UserListPage[T any] = ListPage[uint64, T]
