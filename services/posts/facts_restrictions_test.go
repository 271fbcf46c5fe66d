package posts

import (
	"testing"
	"tidings/services"
	"tidings/services/people"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
	"time"
)

// areAuthorPostsShown reports whether a reader is shown an author's posts, by every statement that reads follows for feeds. All
// must agree.
func (b *testDB) areAuthorPostsShown(reader, author services.UserID) bool {
	b.T.Helper()
	_, edge, err := people.Edge(b.Ctx, b.TestDB.DB, reader, author)
	edges := sqltest.Must(people.Edges(b.Ctx, b.TestDB.DB, []services.UserID{reader}, author))(b.T)
	followers := sqltest.Must(people.Followers(b.Ctx, b.TestDB.DB, author, 0, 10, time.Time{}))(b.T)
	listed := sqltest.Must(HomeFeed(b.Ctx, b.DB, reader, services.MaxPostID, 10))(b.T)
	count := b.countNew(reader, 0, 10)
	newest := sqltest.Must(NewestCountingPost(b.Ctx, b.DB, reader, services.MaxPostID))(b.T)
	sqltest.Equal(b.T, sqltest.Must([]bool{len(edges) > 0, len(followers) > 0, len(listed) > 0, count > 0, newest > 0}, err)(b.T), []bool{edge, edge, edge, edge, edge})
	return edge
}

// Each restriction alone keeps an author out of a feed. Only when the last is removed do the author's posts return, and those after
// the follow's PostsCountAfter count, as before. Restrictions from before the follow apply to it too.
func TestMutesAndHidesTakeAFollowOutOfTheFeed(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		b.MakeUsers("reader", "author")
		b.insertPosts(2, 50)
		mute := services.Restriction{Kind: services.Mute, Owner: 1, Other: 2, MadeAt: 60}
		hide := services.Restriction{Kind: services.Hide, Owner: 2, Other: 1, MadeAt: 61}
		for _, before := range []bool{false, true} {
			if !before {
				b.MakeFollows(services.FollowEdge{Follower: 1, Followee: 2, PostsCountAfter: 40})
				sqltest.Equal(b.T, b.areAuthorPostsShown(1, 2), true)
			}
			b.Restrict(mute)
			b.Restrict(hide)
			if before {
				b.MakeFollows(services.FollowEdge{Follower: 1, Followee: 2, PostsCountAfter: 40})
			}
			sqltest.Equal(b.T, b.areAuthorPostsShown(1, 2), false)
			b.MustWrite(func(tx *sql.Tx) error {
				edges := sqltest.Must(sqltest.QueryLines(b.Ctx, tx, "SELECT follower, followee FROM follows ORDER BY follower"))(b.T)
				sqltest.Equal(b.T, edges, []string{"1 2"})
				return nil
			})
			sqltest.Equal(b.T, b.Unrestrict(mute), true)
			sqltest.Equal(b.T, b.areAuthorPostsShown(1, 2), false)
			sqltest.Equal(b.T, b.Unrestrict(hide), true)
			sqltest.Equal(b.T, b.areAuthorPostsShown(1, 2), true)
			sqltest.Equal(b.T, b.Unrestrict(hide), false)
			edge, _, err := people.Edge(b.Ctx, b.TestDB.DB, 1, 2)
			sqltest.Equal(b.T, sqltest.Must(edge, err)(b.T).PostsCountAfter, services.PostID(40))
			b.MustWrite(func(tx *sql.Tx) error { _, err := people.DeleteFollow(b.Ctx, tx, 1, 2); return err })
		}
	})
}

// A mute by the followee, a hide by the followee from a third user, and the follower's own hide from the followee do not affect
// this follow.
func TestUnrelatedRestrictionsDoNotAffectAFollow(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		b.MakeUsers("reader", "author", "other")
		b.MakeFollows(services.FollowEdge{Follower: 1, Followee: 2})
		b.insertPosts(2, 50)
		for _, r := range []services.Restriction{
			{Kind: services.Mute, Owner: 2, Other: 1, MadeAt: 1}, {Kind: services.Mute, Owner: 1, Other: 3, MadeAt: 2}, {Kind: services.Mute, Owner: 3, Other: 2, MadeAt: 3},
			{Kind: services.Hide, Owner: 1, Other: 2, MadeAt: 4}, {Kind: services.Hide, Owner: 2, Other: 3, MadeAt: 5}, {Kind: services.Hide, Owner: 3, Other: 1, MadeAt: 6},
			{Kind: services.Block, Owner: 1, Other: 3, MadeAt: 7}, {Kind: services.Block, Owner: 3, Other: 2, MadeAt: 8},
		} {
			created, ended := b.Restrict(r)
			sqltest.Equal(b.T, created, true)
			sqltest.Equal(b.T, len(ended), 0)
			sqltest.Equal(b.T, b.areAuthorPostsShown(1, 2), true)
		}
	})
}
