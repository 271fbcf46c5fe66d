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
	eachStore(t, func(b *testStore) {
		b.makeUsers("reader", "author", "other")
		b.follow(services.FollowEdge{Follower: 1, Followee: 2, PostsCountAfter: 50}, services.FollowEdge{Follower: 2, Followee: 1, PostsCountAfter: 60})
		all := []services.UserID{1, 2, 3}
		want := map[services.UserID]people.AlertStarts{}
		now := func() time.Time { return b.clock.Now().Truncate(time.Microsecond) }
		follows := func(what string, users ...services.UserID) {
			b.t.Helper()
			for _, user := range users {
				want[user] = people.AlertStarts{PostsAndShows: now(), Messages: want[user].Messages}
			}
			b.t.Log(what)
			wantEqual(b.t, must(people.ReadAlertStarts(b.ctx, b.TestStore.DB, all))(b.t), want)
			b.clock.Advance(time.Minute)
		}
		mode := func(mode services.FollowMode) {
			b.t.Helper()
			b.write(func(tx *sql.Tx) error { _, _, err := people.SetFollowMode(b.ctx, tx, 1, 2, mode); return err })
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
		b.write(func(tx *sql.Tx) error { return people.AlertMessagesFromNow(b.ctx, tx, 1) })
		want[1] = people.AlertStarts{PostsAndShows: want[1].PostsAndShows, Messages: now()}
		follows("messages count for one whose posts do")
		b.write(func(tx *sql.Tx) error { return people.AlertMessagesFromNow(b.ctx, tx, 3) })
		want[3] = people.AlertStarts{Messages: now()}
		follows("messages count for one whose posts always did")
		wantEqual(b.t, len(must(people.ReadAlertStarts(b.ctx, b.TestStore.DB, nil))(b.t)), 0)
	})
}
