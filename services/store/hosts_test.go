package store_test

import (
	"testing"
	"time"

	"tidings/services"
	"tidings/services/store"
)

func (b *bundle) host(hosts ...services.UserID) {
	b.t.Helper()
	b.write(func(tx *store.Tx) error {
		for _, host := range hosts {
			if _, err := tx.PutHost(b.ctx, host); err != nil {
				return err
			}
		}
		return nil
	})
}

func TestAHostIsNamedAndThenPublished(t *testing.T) {
	each(t, func(b *bundle) {
		is := func(host services.UserID) [2]bool {
			known, named, err := b.IsHost(b.ctx, host)
			if err != nil {
				b.t.Fatal(err)
			}
			return [2]bool{known, named}
		}
		equal(b.t, is(7), [2]bool{false, false})
		b.write(func(tx *store.Tx) error {
			equal(b.t, must(tx.PutHost(b.ctx, 7))(b.t), true)
			equal(b.t, must(tx.PutHost(b.ctx, 7))(b.t), false)
			return nil
		})
		equal(b.t, is(7), [2]bool{true, false})
		unpublished := func(id services.PostID, status services.ShowStatus) services.Show {
			show := aShow(id, 7, status, 1)
			show.Version, show.LiveVersion = 0, 0
			return show
		}
		waiting := []services.Show{unpublished(2, services.ShowReplay), unpublished(3, services.ShowUpcoming), unpublished(5, services.ShowLive)}
		b.show(waiting...)
		b.show(unpublished(4, services.ShowCancelled))
		b.write(func(tx *store.Tx) error {
			equal(b.t, must(tx.BeginHostChunks(b.ctx, 7, 2))(b.t), true)
			equal(b.t, must(tx.BeginHostChunks(b.ctx, 7, 3))(b.t), false)
			return nil
		})
		end := func() (last bool) {
			b.write(func(tx *store.Tx) (err error) { last, err = tx.EndHostChunk(b.ctx, 7); return err })
			return last
		}
		equal(b.t, []bool{end(), end(), end()}, []bool{false, true, false})
		b.write(func(tx *store.Tx) error {
			equal(b.t, must(tx.PublishShows(b.ctx, 7))(b.t), waiting)
			known, named, err := tx.Host(b.ctx, 7)
			equal(b.t, []any{named, known}, []any{true, true})
			known, _, _ = tx.Host(b.ctx, 8)
			equal(b.t, known, false)
			for i := range waiting {
				waiting[i].Version = uint64(i) + 1
				if err := tx.UpdateShow(b.ctx, waiting[i], nil); err != nil {
					return err
				}
			}
			return err
		})
		equal(b.t, is(7), [2]bool{true, true})
		b.write(func(tx *store.Tx) error {
			equal(b.t, len(must(tx.PublishShows(b.ctx, 7))(b.t)), 0)
			equal(b.t, must(tx.BeginHostChunks(b.ctx, 7, 2))(b.t), false) // repeated by a job, it changes nothing
			return nil
		})
		equal(b.t, []bool{end(), end()}, []bool{false, false})
	})
}

func TestVersionsOfHosts(t *testing.T) {
	each(t, func(b *bundle) {
		b.host(7, 8, 9)
		b.write(func(tx *store.Tx) error { return tx.SetHostVersion(b.ctx, 7, 3) })
		b.write(func(tx *store.Tx) error { return tx.SetHostVersion(b.ctx, 8, 4) })
		b.write(func(tx *store.Tx) error { return tx.SetHostVersion(b.ctx, 7, 5) })
		pulled := aShow(5, 9, services.ShowReplay, 1)
		pulled.Pull = true
		b.show(pulled, aShow(6, 8, services.ShowReplay, 1))
		want := []store.HostVersion{{Host: 7, Version: 5}, {Host: 8, Version: 4}, {Host: 9, Pulls: true}}
		equal(b.t, must(b.HostVersions(b.ctx, 0, 10))(b.t), want)
		equal(b.t, must(b.HostVersions(b.ctx, 7, 1))(b.t), want[1:2])
	})
}

func TestHostsOfAReader(t *testing.T) {
	each(t, func(b *bundle) {
		users := b.users("ann", "bob", "cat", "dan", "eve")
		b.host(users[0], users[1], users[2], users[4])
		b.follow(services.Edge{Follower: 1, Followee: 2, Since: 20}, services.Edge{Follower: 1, Followee: 3, Since: 30},
			services.Edge{Follower: 1, Followee: 4, Since: 40}, services.Edge{Follower: 1, Followee: 1, Since: 10}, services.Edge{Follower: 5, Followee: 2, Since: 50})
		equal(b.t, must(b.HostsBy(b.ctx, 1))(b.t), []services.Edge{{Follower: 1, Followee: 2, Since: 20}, {Follower: 1, Followee: 3, Since: 30}})
		mute := services.Restriction{Kind: services.Mute, Owner: 1, Other: 2, Made: 60}
		b.write(func(tx *store.Tx) error { _, err := tx.Restrict(b.ctx, mute); return err })
		equal(b.t, must(b.HostsBy(b.ctx, 1))(b.t), []services.Edge{{Follower: 1, Followee: 3, Since: 30}})
		equal(b.t, len(must(b.HostsBy(b.ctx, 4))(b.t)), 0)
	})
}

// The end of a follow is noted where it is the end of a host's shows on a board: by unfollowing, blocking, muting.
func TestEndsOfFollowsOfHosts(t *testing.T) {
	each(t, func(b *bundle) {
		b.users("ann", "bob", "cat", "dan")
		b.host(2, 3)
		ended := func(followee services.UserID, since time.Time) bool {
			return must(b.UnfollowedSince(b.ctx, 1, followee, since))(b.t)
		}
		start := b.clock.Now().UTC().Truncate(time.Microsecond)
		for followee := services.UserID(2); followee <= 4; followee++ {
			b.follow(services.Edge{Follower: 1, Followee: followee})
			equal(b.t, ended(followee, start), false)
		}
		unfollow := func(followee services.UserID) {
			b.write(func(tx *store.Tx) error { _, err := tx.DeleteFollow(b.ctx, 1, followee); return err })
		}
		unfollow(2)
		unfollow(4) // no host
		unfollow(9) // no host
		equal(b.t, []bool{ended(2, start), ended(2, start.Add(time.Microsecond)), ended(4, start), ended(9, start)}, []bool{true, false, false, false})
		b.clock.advance(time.Minute)
		b.follow(services.Edge{Follower: 1, Followee: 2})
		unfollow(2)
		unfollow(2) // there is none
		equal(b.t, []bool{ended(2, start.Add(time.Minute)), ended(2, start.Add(time.Minute+time.Microsecond))}, []bool{true, false})

		mute := services.Restriction{Kind: services.Mute, Owner: 1, Other: 3, Made: 60}
		b.write(func(tx *store.Tx) error { _, err := tx.Restrict(b.ctx, mute); return err })
		equal(b.t, ended(3, start.Add(time.Hour)), true)
		b.write(func(tx *store.Tx) error { _, err := tx.Unrestrict(b.ctx, mute); return err })
		equal(b.t, ended(3, start), false)
		block := services.Restriction{Kind: services.Block, Owner: 3, Other: 1, Made: 60}
		b.write(func(tx *store.Tx) error { _, err := tx.Restrict(b.ctx, block); return err })
		equal(b.t, ended(3, start.Add(time.Minute)), true)

		equal(b.t, must(b.ForgetPastFollows(b.ctx, start.Add(time.Minute)))(b.t), 0)
		equal(b.t, must(b.ForgetPastFollows(b.ctx, start.Add(2*time.Minute)))(b.t), 2)
		equal(b.t, ended(2, start), false)
	})
}

func TestReminders(t *testing.T) {
	each(t, func(b *bundle) {
		b.show(aShow(5, 1, services.ShowUpcoming, 1), aShow(6, 1, services.ShowUpcoming, 1), aShow(7, 1, services.ShowLive, 1))
		add := func(show services.PostID, user services.UserID) (added bool) {
			b.write(func(tx *store.Tx) (err error) { added, err = tx.AddReminder(b.ctx, show, user); return err })
			return added
		}
		equal(b.t, []bool{add(5, 2), add(5, 2), add(6, 2), add(7, 2), add(5, 4), add(5, 3)}, []bool{true, false, true, true, true, true})
		equal(b.t, must(b.Reminders(b.ctx, 5, 0, 2))(b.t), []services.UserID{2, 3})
		equal(b.t, must(b.Reminders(b.ctx, 5, 3, 2))(b.t), []services.UserID{4})
		equal(b.t, must(b.RemindsOf(b.ctx, 2, []services.PostID{5, 6, 8}))(b.t), map[services.PostID]bool{5: true, 6: true})
		equal(b.t, len(must(b.RemindsOf(b.ctx, 9, []services.PostID{5}))(b.t)), 0)
		b.write(func(tx *store.Tx) error {
			equal(b.t, must(tx.CountReminders(b.ctx, 2, 9))(b.t), 2) // one of the three shows runs
			equal(b.t, must(tx.CountReminders(b.ctx, 2, 1))(b.t), 1)
			equal(b.t, must(tx.DropReminder(b.ctx, 5, 2))(b.t), true)
			equal(b.t, must(tx.DropReminder(b.ctx, 5, 2))(b.t), false)
			equal(b.t, must(tx.CountReminders(b.ctx, 2, 9))(b.t), 1)
			return nil
		})
		// Past reminders are not scanned: a count reads a bounded number of the newest reminders.
		var newer []services.Show
		for id := services.PostID(8); id < 8+4*store.RemindersLooked; id++ {
			newer = append(newer, aShow(id, 1, services.ShowLive, 1))
		}
		b.show(newer...)
		b.write(func(tx *store.Tx) error {
			for _, show := range newer {
				must(tx.AddReminder(b.ctx, show.ID, 2))(b.t)
			}
			equal(b.t, must(tx.CountReminders(b.ctx, 2, 4))(b.t), 0)
			equal(b.t, must(tx.CountReminders(b.ctx, 2, 5))(b.t), 1)
			return nil
		})
	})
}
