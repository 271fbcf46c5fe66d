package people_test

import (
	"math"
	"testing"

	"tidings/services"
	"tidings/services/people"
	"tidings/services/people/peopletest"
	"tidings/services/sql"
)

func numberOf(user services.User) uint64 { return uint64(user.Number) }

// listed walks the lists of followers and followees of some owners, by pages of a size, and returns the user IDs in them.
func (b *bundle) listed(viewer services.UserID, size int, owners ...services.UserID) (lists [2]map[services.UserID][]uint64) {
	lists[0], _ = peopletest.WalkUserLists(b.t, size, owners, numberOf, func(pages []services.UserPage) (map[services.UserPage]services.UserList[services.User], error) {
		return people.ListFollowers(b.ctx, b.Bundle.DB, viewer, pages)
	})
	lists[1], _ = peopletest.WalkUserLists(b.t, size, owners, numberOf, func(pages []services.UserPage) (map[services.UserPage]services.UserList[services.User], error) {
		return people.ListFollowees(b.ctx, b.Bundle.DB, viewer, pages)
	})
	return lists
}

// TestListsOfUsersAreWalkedToTheirEnds reads pages of several users' lists by one statement. Each page has items of its own user's
// list, and the pages of a list reach every item once.
func TestListsOfUsersAreWalkedToTheirEnds(t *testing.T) {
	each(t, func(b *bundle) {
		b.users("a", "b", "c", "d", "e", "f", "stranger")
		for follower := services.UserID(2); follower <= 6; follower++ {
			b.follow(services.Edge{Follower: follower, Followee: 1}, services.Edge{Follower: 1, Followee: follower})
		}
		b.follow(services.Edge{Follower: 3, Followee: 2})
		for size := 1; size <= 7; size++ {
			lists := b.listed(7, size, 1, 2, 3, 6)
			wantEqual(b.t, lists, [2]map[services.UserID][]uint64{
				{1: {6, 5, 4, 3, 2}, 2: {3, 1}, 3: {1}, 6: {1}}, {1: {6, 5, 4, 3, 2}, 2: {1}, 3: {2, 1}, 6: {1}},
			})
		}
	})
}

// TestListsOfUsersOmitUsersHiddenFromTheViewer has users who hide from a viewer, who block the viewer, or who are blocked by the viewer.
func TestListsOfUsersOmitUsersHiddenFromTheViewer(t *testing.T) {
	each(t, func(b *bundle) {
		const viewer, hider, blocked, blocker, muted services.UserID = 2, 3, 4, 5, 6
		b.users("a", "viewer", "hider", "blocked", "blocker", "muted")
		for other := viewer; other <= muted; other++ {
			b.follow(services.Edge{Follower: other, Followee: 1}, services.Edge{Follower: 1, Followee: other})
		}
		b.follow(services.Edge{Follower: hider, Followee: viewer}, services.Edge{Follower: viewer, Followee: hider})
		for i, r := range []services.Restriction{
			{Kind: services.Hide, Owner: hider, Other: viewer}, {Kind: services.Block, Owner: viewer, Other: blocked},
			{Kind: services.Block, Owner: blocker, Other: viewer}, {Kind: services.Mute, Owner: viewer, Other: muted},
		} {
			r.Made = services.PostID(100 + i)
			b.Restrict(r)
		}
		for size := 1; size <= 6; size++ {
			wantEqual(b.t, b.listed(viewer, size, 1, viewer, hider, blocked, blocker, muted), [2]map[services.UserID][]uint64{
				{1: {6, 2}, viewer: {3, 1}, blocked: {1}, muted: {1}}, {1: {6, 2}, viewer: {3, 1}, blocked: {1}, muted: {1}},
			})
			wantEqual(b.t, b.listed(1, size, 1, viewer), [2]map[services.UserID][]uint64{{1: {6, 5, 4, 3, 2}, viewer: {3, 1}}, {1: {6, 5, 4, 3, 2}, viewer: {3, 1}}})
		}
	})
}

// TestAListOfManyHiddenUsersIsWalkedInShortPages has more hidden followers than a page looks at: the page is short, and another
// page follows.
func TestAListOfManyHiddenUsersIsWalkedInShortPages(t *testing.T) {
	each(t, func(b *bundle) {
		const hidden = services.Retention + 100
		var keys []string
		for i := range hidden + 6 {
			keys = append(keys, string(rune('a'+i%26))+string(rune('a'+i/26)))
		}
		b.users(keys...)
		var edges []services.Edge
		for follower := services.UserID(3); follower <= hidden+6; follower++ {
			edges = append(edges, services.Edge{Follower: follower, Followee: 1})
		}
		b.follow(edges...)
		b.write(func(tx *sql.Tx) error {
			_, err := tx.Lines(b.ctx, `INSERT INTO hides (author, follower, made) SELECT number, 2, number FROM users WHERE number BETWEEN 5 AND 404`)
			return err
		})
		walked, sizes := peopletest.WalkUserLists(b.t, 3, []services.UserID{1}, numberOf, func(pages []services.UserPage) (map[services.UserPage]services.UserList[services.User], error) {
			return people.ListFollowers(b.ctx, b.Bundle.DB, 2, pages)
		})
		wantEqual(b.t, walked, map[services.UserID][]uint64{1: {406, 405, 4, 3}})
		wantEqual(b.t, sizes[1][0], 2)
		page := services.UserPage{Owner: 1, Before: math.MaxInt64, Size: 3}
		wantEqual(b.t, must(people.ListFollowers(b.ctx, b.Bundle.DB, 2, []services.UserPage{page}))(b.t)[page].More, true)
	})
}
