package people_test

import (
	"math"
	"testing"

	"tidings/services"
	"tidings/services/people"
	"tidings/services/people/peopletest"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
)

func idOf(user services.User) uint64 { return uint64(user.ID) }

// followersAndFollowees walks the lists of followers and followees of some owners, by pages of a size, and returns the user IDs in
// them.
func (b *testDB) followersAndFollowees(viewer services.UserID, size int, owners ...services.UserID) (lists [2]map[services.UserID][]uint64) {
	lists[0], _ = peopletest.WalkUserLists(b.T, size, owners, idOf, func(pages []services.UserPageRequest) (map[services.UserPageRequest]services.UserListPage[services.User], error) {
		return people.ListFollowers(b.Ctx, b.TestDB.DB, viewer, pages)
	})
	lists[1], _ = peopletest.WalkUserLists(b.T, size, owners, idOf, func(pages []services.UserPageRequest) (map[services.UserPageRequest]services.UserListPage[services.User], error) {
		return people.ListFollowees(b.Ctx, b.TestDB.DB, viewer, pages)
	})
	return lists
}

// TestListsOfUsersAreWalkedToTheirEnds reads pages of several users' lists by one statement. Each page has items of its own user's
// list, and the pages of a list reach every item once.
func TestListsOfUsersAreWalkedToTheirEnds(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		b.MakeUsers("a", "b", "c", "d", "e", "f", "stranger")
		for follower := services.UserID(2); follower <= 6; follower++ {
			b.MakeFollows(services.FollowEdge{Follower: follower, Followee: 1}, services.FollowEdge{Follower: 1, Followee: follower})
		}
		b.MakeFollows(services.FollowEdge{Follower: 3, Followee: 2})
		for size := 1; size <= 7; size++ {
			lists := b.followersAndFollowees(7, size, 1, 2, 3, 6)
			wantEqual(b.T, lists, [2]map[services.UserID][]uint64{
				{1: {6, 5, 4, 3, 2}, 2: {3, 1}, 3: {1}, 6: {1}}, {1: {6, 5, 4, 3, 2}, 2: {1}, 3: {2, 1}, 6: {1}},
			})
		}
	})
}

// TestListsOfUsersOmitUsersHiddenFromTheViewer has users who hide from a viewer, who block the viewer, or who are blocked by the
// viewer.
func TestListsOfUsersOmitUsersHiddenFromTheViewer(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		const viewer, hider, blocked, blocker, muted services.UserID = 2, 3, 4, 5, 6
		b.MakeUsers("a", "viewer", "hider", "blocked", "blocker", "muted")
		for other := viewer; other <= muted; other++ {
			b.MakeFollows(services.FollowEdge{Follower: other, Followee: 1}, services.FollowEdge{Follower: 1, Followee: other})
		}
		b.MakeFollows(services.FollowEdge{Follower: hider, Followee: viewer}, services.FollowEdge{Follower: viewer, Followee: hider})
		for i, r := range []services.Restriction{
			{Kind: services.Hide, Owner: hider, Other: viewer}, {Kind: services.Block, Owner: viewer, Other: blocked},
			{Kind: services.Block, Owner: blocker, Other: viewer}, {Kind: services.Mute, Owner: viewer, Other: muted},
		} {
			r.MadeAt = services.SortableID(100 + i)
			b.Restrict(r)
		}
		for size := 1; size <= 6; size++ {
			wantEqual(b.T, b.followersAndFollowees(viewer, size, 1, viewer, hider, blocked, blocker, muted), [2]map[services.UserID][]uint64{
				{1: {6, 2}, viewer: {3, 1}, blocked: {1}, muted: {1}}, {1: {6, 2}, viewer: {3, 1}, blocked: {1}, muted: {1}},
			})
			wantEqual(b.T, b.followersAndFollowees(1, size, 1, viewer), [2]map[services.UserID][]uint64{{1: {6, 5, 4, 3, 2}, viewer: {3, 1}}, {1: {6, 5, 4, 3, 2}, viewer: {3, 1}}})
		}
	})
}

// TestAListOfManyHiddenUsersIsWalkedInShortPages has more hidden followers than a page looks at: the page is short, and another
// page follows.
func TestAListOfManyHiddenUsersIsWalkedInShortPages(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		const hidden = services.FeedRetention + 100
		var keys []string
		for i := range hidden + 6 {
			keys = append(keys, string(rune('a'+i%26))+string(rune('a'+i/26)))
		}
		b.MakeUsers(keys...)
		var edges []services.FollowEdge
		for follower := services.UserID(3); follower <= hidden+6; follower++ {
			edges = append(edges, services.FollowEdge{Follower: follower, Followee: 1})
		}
		b.MakeFollows(edges...)
		b.MustWrite(func(tx *sql.Tx) error {
			_, err := sqltest.QueryLines(b.Ctx, tx, `INSERT INTO hides (author, follower, made) SELECT number, 2, number FROM users WHERE number BETWEEN 5 AND 404`)
			return err
		})
		walked, sizes := peopletest.WalkUserLists(b.T, 3, []services.UserID{1}, idOf, func(pages []services.UserPageRequest) (map[services.UserPageRequest]services.UserListPage[services.User], error) {
			return people.ListFollowers(b.Ctx, b.TestDB.DB, 2, pages)
		})
		wantEqual(b.T, walked, map[services.UserID][]uint64{1: {406, 405, 4, 3}})
		wantEqual(b.T, sizes[1][0], 2)
		page := services.UserPageRequest{Owner: 1, Before: math.MaxInt64, Size: 3}
		wantEqual(b.T, must(people.ListFollowers(b.Ctx, b.TestDB.DB, 2, []services.UserPageRequest{page}))(b.T)[page].More, true)
	})
}
