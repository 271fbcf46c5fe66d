package people_test

import (
	"testing"
	"time"

	"tidings/services"
	"tidings/services/people"
	"tidings/services/sql"
)

// When a mode lets more count, or a mute or a hide ends, posts and shows from before that moment no longer alert the follower;
// nothing changes for other users. A mode in which less counts, a new restriction, and the end of a restriction that did not
// exist change nothing.
func TestAlertsBeginWhenMoreCounts(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		b.MakeUsers("reader", "author", "other")
		b.MakeFollows(services.FollowEdge{Follower: 1, Followee: 2, PostsCountAfter: 50}, services.FollowEdge{Follower: 2, Followee: 1, PostsCountAfter: 60})
		all := []services.UserID{1, 2, 3}
		want := map[services.UserID]people.AlertStarts{}
		now := func() time.Time { return b.Clock.Now().Truncate(time.Microsecond) }
		follows := func(what string, users ...services.UserID) {
			b.T.Helper()
			for _, user := range users {
				want[user] = people.AlertStarts{PostsAndShows: now(), Messages: want[user].Messages}
			}
			b.T.Log(what)
			wantEqual(b.T, must(people.ReadAlertStarts(b.Ctx, b.TestDB.DB, all))(b.T), want)
			b.Clock.Advance(time.Minute)
		}
		mode := func(mode services.FollowMode) {
			b.T.Helper()
			b.MustWrite(func(tx *sql.Tx) error { _, _, err := people.SetFollowMode(b.Ctx, tx, 1, 2, mode); return err })
		}
		follows("at first")
		mode(services.FollowLiveOnly)
		mode(services.FollowNone)
		follows("less counts")
		mode(services.FollowLiveOnly)
		follows("shows count", 1)
		mode(services.FollowLiveOnly)
		follows("as before")
		mode(services.FollowAll)
		follows("posts count", 1)
		mute := services.Restriction{Kind: services.Mute, Owner: 1, Other: 2, MadeAt: 1}
		b.Restrict(mute)
		follows("a mute")
		b.Unrestrict(mute)
		follows("the mute is over", 1)
		b.Unrestrict(mute)
		follows("no mute is over")
		hide := services.Restriction{Kind: services.Hide, Owner: 1, Other: 2, MadeAt: 2}
		b.Restrict(hide)
		b.Unrestrict(hide)
		follows("the reader hid nothing any more", 2)
		b.MustWrite(func(tx *sql.Tx) error { return people.AlertMessagesFromNow(b.Ctx, tx, 1) })
		want[1] = people.AlertStarts{PostsAndShows: want[1].PostsAndShows, Messages: now()}
		follows("messages count for one whose posts do")
		b.MustWrite(func(tx *sql.Tx) error { return people.AlertMessagesFromNow(b.Ctx, tx, 3) })
		want[3] = people.AlertStarts{Messages: now()}
		follows("messages count for one whose posts always did")
		wantEqual(b.T, len(must(people.ReadAlertStarts(b.Ctx, b.TestDB.DB, nil))(b.T)), 0)
	})
}
