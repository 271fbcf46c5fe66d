package live

import (
	"testing"
	"time"

	"tidings/services"
	"tidings/services/people"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
)

// addHosts records that users have shows.
func (b *testDB) addHosts(hosts ...services.UserID) {
	b.T.Helper()
	b.MustWrite(func(tx *sql.Tx) error {
		for _, host := range hosts {
			if _, err := putHost(b.Ctx, tx, host); err != nil {
				return err
			}
		}
		return nil
	})
}

// A host's shows come onto boards when the documents in all chunks of followers name the host.
func TestAHostIsPublishedOnceDocumentsListIt(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		is := func(host services.UserID) [2]bool {
			known, named, err := readHost(b.Ctx, b.DB.Runner, host)
			if err != nil {
				b.T.Fatal(err)
			}
			return [2]bool{known, named}
		}
		sqltest.Equal(b.T, is(7), [2]bool{false, false})
		b.MustWrite(func(tx *sql.Tx) error {
			sqltest.Equal(b.T, sqltest.Must(putHost(b.Ctx, tx, 7))(b.T), true)
			sqltest.Equal(b.T, sqltest.Must(putHost(b.Ctx, tx, 7))(b.T), false)
			return nil
		})
		sqltest.Equal(b.T, is(7), [2]bool{true, false})
		unpublished := func(id services.ShowID, status ShowStatus) Show {
			show := aShow(id, 7, status, 1)
			show.Version, show.LiveVersion = 0, 0
			return show
		}
		waiting := []Show{unpublished(2, ShowReplay), unpublished(3, ShowUpcoming), unpublished(5, ShowLive)}
		b.addShows(waiting...)
		b.addShows(unpublished(4, ShowCancelled))
		b.MustWrite(func(tx *sql.Tx) error {
			sqltest.Equal(b.T, sqltest.Must(beginHostChunks(b.Ctx, tx, 7, 2))(b.T), true)
			sqltest.Equal(b.T, sqltest.Must(beginHostChunks(b.Ctx, tx, 7, 3))(b.T), false)
			return nil
		})
		end := func() (last bool) {
			b.MustWrite(func(tx *sql.Tx) (err error) { last, err = endHostChunk(b.Ctx, tx, 7); return err })
			return last
		}
		sqltest.Equal(b.T, []bool{end(), end(), end()}, []bool{false, true, false})
		b.MustWrite(func(tx *sql.Tx) error {
			sqltest.Equal(b.T, sqltest.Must(recordHostInDocuments(b.Ctx, tx, 7))(b.T), waiting)
			known, named, err := readHost(b.Ctx, tx.Runner, 7)
			sqltest.Equal(b.T, []any{named, known}, []any{true, true})
			known, _, _ = readHost(b.Ctx, tx.Runner, 8)
			sqltest.Equal(b.T, known, false)
			for i := range waiting {
				waiting[i].Version = uint64(i) + 1
				if err := rewriteShow(b.Ctx, tx, waiting[i], nil); err != nil {
					return err
				}
			}
			return err
		})
		sqltest.Equal(b.T, is(7), [2]bool{true, true})
		b.MustWrite(func(tx *sql.Tx) error {
			sqltest.Equal(b.T, len(sqltest.Must(recordHostInDocuments(b.Ctx, tx, 7))(b.T)), 0)
			sqltest.Equal(b.T, sqltest.Must(beginHostChunks(b.Ctx, tx, 7, 2))(b.T), false) // a repetition by a job changes nothing
			return nil
		})
		sqltest.Equal(b.T, []bool{end(), end()}, []bool{false, false})
	})
}

// hostVersions lists, for each host, the version at which their live shows last changed, and whether they have pulled replays.
func TestVersionsOfHosts(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		b.addHosts(7, 8, 9)
		b.MustWrite(func(tx *sql.Tx) error { return recordHostLiveVersion(b.Ctx, tx, 7, 3) })
		b.MustWrite(func(tx *sql.Tx) error { return recordHostLiveVersion(b.Ctx, tx, 8, 4) })
		b.MustWrite(func(tx *sql.Tx) error { return recordHostLiveVersion(b.Ctx, tx, 7, 5) })
		pulled := aShow(5, 9, ShowReplay, 1)
		pulled.Pull = true
		b.addShows(pulled, aShow(6, 8, ShowReplay, 1))
		want := []hostLiveVersion{{Host: 7, LiveVersion: 5}, {Host: 8, LiveVersion: 4}, {Host: 9, HasPulledReplays: true}}
		sqltest.Equal(b.T, sqltest.Must(database{b.DB}.hostVersions(b.Ctx, 0, 10))(b.T), want)
		sqltest.Equal(b.T, sqltest.Must(database{b.DB}.hostVersions(b.Ctx, 7, 1))(b.T), want[1:2])
	})
}

// followedHosts lists the hosts that a reader follows and whose shows the reader sees, with the mode of each follow.
func TestHostsOfAReader(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		users := b.MakeUsers("ann", "bob", "cat", "dan", "eve")
		b.addHosts(users[0], users[1], users[2], users[4])
		b.MakeFollows(services.FollowEdge{Follower: 1, Followee: 2, PostsCountAfter: 20}, services.FollowEdge{Follower: 1, Followee: 3, PostsCountAfter: 30},
			services.FollowEdge{Follower: 1, Followee: 4, PostsCountAfter: 40}, services.FollowEdge{Follower: 1, Followee: 1, PostsCountAfter: 10}, services.FollowEdge{Follower: 5, Followee: 2, PostsCountAfter: 50})
		sqltest.Equal(b.T, sqltest.Must(followedHosts(b.Ctx, b.DB, 1))(b.T), []services.FollowedAuthor{{Author: 2, ItemsCountAfter: 20}, {Author: 3, ItemsCountAfter: 30}})
		for _, mode := range []services.FollowMode{services.FollowLiveOnly, services.FollowNone, services.FollowAll} {
			quiet := mode == services.FollowNone
			b.MustWrite(func(tx *sql.Tx) error { _, _, err := people.SetFollowMode(b.Ctx, tx, 1, 3, mode); return err })
			sqltest.Equal(b.T, sqltest.Must(followedHosts(b.Ctx, b.DB, 1))(b.T), []services.FollowedAuthor{{Author: 2, ItemsCountAfter: 20}, {Author: 3, ItemsCountAfter: 30, CountsNothing: quiet}})
			followers := sqltest.Must(followersOfHosts(b.Ctx, b.DB, []services.UserID{3}, time.Time{}))(b.T)
			sqltest.Equal(b.T, followers[0].AsFollowedHost(), services.FollowedAuthor{Author: 3, ItemsCountAfter: 30, CountsNothing: quiet})
		}
		mute := services.Restriction{Kind: services.Mute, Owner: 1, Other: 2, MadeAt: 60}
		b.MustWrite(func(tx *sql.Tx) error { _, err := people.Restrict(b.Ctx, tx, mute); return err })
		sqltest.Equal(b.T, sqltest.Must(followedHosts(b.Ctx, b.DB, 1))(b.T), []services.FollowedAuthor{{Author: 3, ItemsCountAfter: 30}})
		sqltest.Equal(b.T, len(sqltest.Must(followedHosts(b.Ctx, b.DB, 4))(b.T)), 0)
	})
}

// An unfollow, a block, a mute and a hide count as the end of the host's shows on a board.
func TestEndsOfFollowsOfHosts(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		b.MakeUsers("ann", "bob", "cat", "dan")
		b.addHosts(2, 3)
		ended := func(followee services.UserID, since time.Time) bool {
			return sqltest.Must(unfollowedSince(b.Ctx, b.DB, 1, followee, services.SortableIDAt(since)))(b.T)
		}
		start := b.Clock.Now().UTC().Truncate(time.Microsecond)
		for followee := services.UserID(2); followee <= 4; followee++ {
			b.MakeFollows(services.FollowEdge{Follower: 1, Followee: followee})
			sqltest.Equal(b.T, ended(followee, start), false)
		}
		unfollow := func(followee services.UserID) {
			b.MustWrite(func(tx *sql.Tx) error { _, err := people.DeleteFollow(b.Ctx, tx, 1, followee); return err })
		}
		unfollow(2)
		unfollow(4) // not a host
		unfollow(9) // not a host
		sqltest.Equal(b.T, []bool{ended(2, start), ended(2, start.Add(time.Millisecond)), ended(4, start), ended(9, start)}, []bool{true, false, false, false})
		b.Clock.Advance(time.Minute)
		b.MakeFollows(services.FollowEdge{Follower: 1, Followee: 2})
		unfollow(2)
		unfollow(2) // there is no such follow
		sqltest.Equal(b.T, []bool{ended(2, start.Add(time.Minute)), ended(2, start.Add(time.Minute+time.Millisecond))}, []bool{true, false})

		mute := services.Restriction{Kind: services.Mute, Owner: 1, Other: 3, MadeAt: 60}
		b.MustWrite(func(tx *sql.Tx) error { _, err := people.Restrict(b.Ctx, tx, mute); return err })
		sqltest.Equal(b.T, ended(3, start.Add(time.Hour)), true)
		b.MustWrite(func(tx *sql.Tx) error { _, err := people.Unrestrict(b.Ctx, tx, mute); return err })
		sqltest.Equal(b.T, ended(3, start), false)
		// A host who hides leaves the boards that were made before the hide. Later boards never had the host, even if the viewer
		// mutes the host too.
		hide := services.Restriction{Kind: services.Hide, Owner: 3, Other: 1, MadeAt: services.SortableIDAt(start.Add(time.Second))}
		for _, restriction := range []services.Restriction{hide, mute} {
			b.MustWrite(func(tx *sql.Tx) error { _, err := people.Restrict(b.Ctx, tx, restriction); return err })
			sqltest.Equal(b.T, []bool{ended(3, start), ended(3, start.Add(time.Second)), ended(3, start.Add(2*time.Second))}, []bool{true, true, false})
		}
		for _, restriction := range []services.Restriction{hide, mute} {
			b.MustWrite(func(tx *sql.Tx) error { _, err := people.Unrestrict(b.Ctx, tx, restriction); return err })
		}
		block := services.Restriction{Kind: services.Block, Owner: 3, Other: 1, MadeAt: 60}
		b.MustWrite(func(tx *sql.Tx) error { _, err := people.Restrict(b.Ctx, tx, block); return err })
		sqltest.Equal(b.T, ended(3, start.Add(time.Minute)), true)

		sqltest.Equal(b.T, sqltest.Must(forgetPastFollows(b.Ctx, b.DB, start.Add(time.Minute)))(b.T), 0)
		sqltest.Equal(b.T, sqltest.Must(forgetPastFollows(b.Ctx, b.DB, start.Add(2*time.Minute)))(b.T), 2)
		sqltest.Equal(b.T, ended(2, start), false)
	})
}

func TestReminders(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		b.addShows(aShow(5, 1, ShowUpcoming, 1), aShow(6, 1, ShowUpcoming, 1), aShow(7, 1, ShowLive, 1))
		add := func(show services.ShowID, user services.UserID) (added bool) {
			b.MustWrite(func(tx *sql.Tx) (err error) { added, err = putReminder(b.Ctx, tx, show, user); return err })
			return added
		}
		sqltest.Equal(b.T, []bool{add(5, 2), add(5, 2), add(6, 2), add(7, 2), add(5, 4), add(5, 3)}, []bool{true, false, true, true, true, true})
		sqltest.Equal(b.T, sqltest.Must(readReminders(b.Ctx, b.DB, 5, 0, 2))(b.T), []services.UserID{2, 3})
		sqltest.Equal(b.T, sqltest.Must(readReminders(b.Ctx, b.DB, 5, 3, 2))(b.T), []services.UserID{4})
		sqltest.Equal(b.T, sqltest.Must(remindedShows(b.Ctx, b.DB, 2, []services.ShowID{5, 6, 8}))(b.T), map[services.ShowID]bool{5: true, 6: true})
		sqltest.Equal(b.T, len(sqltest.Must(remindedShows(b.Ctx, b.DB, 9, []services.ShowID{5}))(b.T)), 0)
		b.MustWrite(func(tx *sql.Tx) error {
			sqltest.Equal(b.T, sqltest.Must(countReminders(b.Ctx, tx, 2, 9))(b.T), 2) // one of the three shows is live
			sqltest.Equal(b.T, sqltest.Must(countReminders(b.Ctx, tx, 2, 1))(b.T), 1)
			sqltest.Equal(b.T, sqltest.Must(removeReminder(b.Ctx, tx, 5, 2))(b.T), true)
			sqltest.Equal(b.T, sqltest.Must(removeReminder(b.Ctx, tx, 5, 2))(b.T), false)
			sqltest.Equal(b.T, sqltest.Must(countReminders(b.Ctx, tx, 2, 9))(b.T), 1)
			return nil
		})
		// A count reads a bounded number of the newest reminders, and does not scan all reminders of past shows.
		var newer []Show
		for id := services.ShowID(8); id < 8+4*remindersReadFactor; id++ {
			newer = append(newer, aShow(id, 1, ShowLive, 1))
		}
		b.addShows(newer...)
		b.MustWrite(func(tx *sql.Tx) error {
			for _, show := range newer {
				sqltest.Must(putReminder(b.Ctx, tx, show.ID, 2))(b.T)
			}
			sqltest.Equal(b.T, sqltest.Must(countReminders(b.Ctx, tx, 2, 4))(b.T), 0)
			sqltest.Equal(b.T, sqltest.Must(countReminders(b.Ctx, tx, 2, 5))(b.T), 1)
			return nil
		})
	})
}
