package store_test

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tidings/services"
	"tidings/services/changelog"
	"tidings/services/sql/sqltest"
	"tidings/services/store"
	"tidings/tests/histories"
)

// showTime is a whole second of the day of these tests.
func showTime(second int) time.Time {
	return time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC).Add(time.Duration(second) * time.Second)
}

// aShow is a show that boards have, of a status, with all its times made of one number.
func aShow(id services.PostID, host services.UserID, status services.ShowStatus, second int) services.Show {
	show := services.Show{
		ID: id, Host: host, Title: fmt.Sprint("show ", id), Status: status, PlannedAt: showTime(second), UpdatedAt: showTime(second), Version: uint64(id),
	}
	switch status {
	case services.ShowLive:
		show.StartedAt, show.LiveVersion, show.LiveStamp = showTime(second), uint64(id), id
	case services.ShowReplay:
		show.StartedAt, show.EndedAt = showTime(second-5), showTime(second)
	case services.ShowCancelled:
		show.CancelledAt = showTime(second)
	}
	return show
}

func (b *bundle) show(shows ...services.Show) {
	b.t.Helper()
	b.write(func(tx *store.Tx) error {
		for _, show := range shows {
			if _, err := tx.PutHost(b.ctx, show.Host); err != nil {
				return err
			}
			if err := tx.InsertShow(b.ctx, show, ""); err != nil {
				return err
			}
		}
		return nil
	})
}

func idsOf(shows []services.Show) []services.PostID {
	ids := make([]services.PostID, len(shows))
	for i, show := range shows {
		ids[i] = show.ID
	}
	return ids
}

func TestAShowIsKeptAsItIs(t *testing.T) {
	each(t, func(b *bundle) {
		at := showTime(0).Add(123 * time.Millisecond)
		show := services.Show{
			ID: services.MaxPostID, Host: 1<<32 - 1, Title: "„Jazz“ 😀", CoverURL: "https://example.com/c", Status: services.ShowUpcoming,
			PlannedAt: at, UpdatedAt: at.Add(time.Microsecond),
		}
		b.show(show)
		read := func() services.Show {
			return must(store.Shows(b.ctx, b.Store.DB.Runner, []services.PostID{show.ID, 5}))(b.t)[show.ID]
		}
		equal(b.t, read(), show)
		show.Title, show.CoverURL, show.ReplayURL, show.Status = "a", "", "https://example.com/r", services.ShowReplay
		show.PlannedAt, show.StartedAt, show.EndedAt, show.UpdatedAt = at.Add(time.Hour), at, at.Add(time.Second), at.Add(time.Minute)
		show.Version, show.LiveVersion, show.LiveStamp, show.Pull = 1<<62, 1<<61, services.MaxPostID, true
		former := store.ShowFormer{
			Show: show.ID, Host: show.Host, Version: 7, Until: 1 << 62, UntilAt: b.clock.Now().UTC().Truncate(time.Microsecond), Status: services.ShowUpcoming, Score: -at.UnixMilli(),
		}
		b.write(func(tx *store.Tx) error { return tx.UpdateShow(b.ctx, show, &former) })
		equal(b.t, read(), show)
		equal(b.t, must(b.ShowHistory(b.ctx, former.UntilAt))(b.t), []store.ShowFormer{former})
		equal(b.t, len(must(b.ShowHistory(b.ctx, former.UntilAt.Add(time.Microsecond)))(b.t)), 0)
		equal(b.t, idsOf(must(b.EndedShows(b.ctx, former.UntilAt))(b.t)), []services.PostID{show.ID})
		show.Title = "b"
		b.write(func(tx *store.Tx) error { return tx.UpdateShow(b.ctx, show, nil) })
		equal(b.t, read(), show)
		equal(b.t, len(must(b.ShowHistory(b.ctx, time.Time{}))(b.t)), 1)
		equal(b.t, must(b.ForgetShowHistory(b.ctx, former.UntilAt))(b.t), 0)
		equal(b.t, must(b.ForgetShowHistory(b.ctx, former.UntilAt.Add(time.Microsecond)))(b.t), 1)
		equal(b.t, len(must(b.EndedShows(b.ctx, time.Time{}))(b.t)), 0)

		for _, key := range []string{"k", ""} {
			err := b.Write(b.ctx, func(tx *store.Tx) error { return tx.InsertShow(b.ctx, show, key) })
			coded(b.t, err, services.Conflict)
		}
		other := aShow(9, 1, services.ShowUpcoming, 0)
		b.write(func(tx *store.Tx) error { return tx.InsertShow(b.ctx, other, "k") })
		other.ID = 10
		coded(b.t, b.Write(b.ctx, func(tx *store.Tx) error { return tx.InsertShow(b.ctx, other, "k") }), services.Conflict)
	})
}

func TestShowsAreLocked(t *testing.T) {
	each(t, func(b *bundle) {
		show := aShow(9, 1, services.ShowLive, 0)
		b.show(show)
		b.write(func(tx *store.Tx) error {
			head, err := changelog.LockLog(b.ctx, tx.Tx, "show")
			equal(b.t, head, uint64(0))
			equal(b.t, must(tx.ShowForUpdate(b.ctx, 9))(b.t), show)
			equal(b.t, must(tx.ShowForShare(b.ctx, 9))(b.t), show)
			_, missing := tx.ShowForUpdate(b.ctx, 10)
			coded(b.t, missing, services.NotFound)
			_, missing = tx.ShowForShare(b.ctx, 10)
			coded(b.t, missing, services.NotFound)
			return err
		})
		b.appendLog("show", "a")
		b.write(func(tx *store.Tx) error {
			head, err := changelog.LockLog(b.ctx, tx.Tx, "show")
			equal(b.t, head, uint64(1))
			return err
		})
		equal(b.t, b.appendLog("show", "b"), uint64(2))
	})
}

// A transaction that has locked a log's head keeps others from appending until it ends, even to an empty log.
func TestALockedLogWaits(t *testing.T) {
	b := newBundle(t, sqltest.Postgres(t))
	for range 2 { // the first time there is no head
		locked, done := make(chan struct{}), make(chan uint64)
		var first uint64
		go func() {
			<-locked
			var version uint64
			_ = b.Write(b.ctx, func(tx *store.Tx) (err error) {
				version, err = changelog.AppendLog(b.ctx, tx.Tx, "show", "second", nil)
				return err
			})
			done <- version
		}()
		b.write(func(tx *store.Tx) error {
			head, err := changelog.LockLog(b.ctx, tx.Tx, "show")
			if err != nil {
				return err
			}
			close(locked)
			select {
			case <-done:
				b.t.Error("somebody appended to a log that is locked")
			case <-time.After(100 * time.Millisecond):
			}
			first, err = changelog.AppendLog(b.ctx, tx.Tx, "show", "first", nil)
			equal(b.t, first, head+1)
			return err
		})
		equal(b.t, <-done, first+1)
	}
}

func TestActiveShows(t *testing.T) {
	each(t, func(b *bundle) {
		unpublished := aShow(90, 2, services.ShowUpcoming, 1)
		unpublished.Version = 0
		alone := aShow(91, 3, services.ShowUpcoming, 1)
		alone.Version = 0
		shows := []services.Show{
			aShow(1, 2, services.ShowUpcoming, 9), aShow(4, 2, services.ShowLive, 3), aShow(2, 5, services.ShowUpcoming, 9), aShow(3, 7, services.ShowLive, 9),
		}
		b.show(shows...)
		b.show(unpublished, alone, aShow(5, 2, services.ShowReplay, 9), aShow(6, 2, services.ShowCancelled, 9), aShow(7, 4, services.ShowReplay, 9))
		equal(b.t, must(b.ActiveShows(b.ctx, 0, 10))(b.t), shows)
		equal(b.t, must(b.ActiveShows(b.ctx, 0, 1))(b.t), shows[:2])
		equal(b.t, must(b.ActiveShows(b.ctx, 2, 1))(b.t), shows[2:3])
		equal(b.t, must(b.ActiveShows(b.ctx, 2, 2))(b.t), shows[2:])
		equal(b.t, len(must(b.ActiveShows(b.ctx, 7, 2))(b.t)), 0)
		b.write(func(tx *store.Tx) error {
			for limit, want := range map[int]int{1: 1, 2: 2, 5: 2} {
				equal(b.t, must(tx.CountUpcoming(b.ctx, 2, limit))(b.t), want)
			}
			equal(b.t, must(tx.CountUpcoming(b.ctx, 4, 5))(b.t), 0)
			return nil
		})
	})
}

func TestReplaysOfHosts(t *testing.T) {
	each(t, func(b *bundle) {
		pulled := func(show services.Show) services.Show {
			show.Pull = true
			return show
		}
		unpublished := aShow(99, 2, services.ShowReplay, 9)
		unpublished.Version = 0
		b.show(aShow(1, 2, services.ShowReplay, 5), aShow(2, 2, services.ShowReplay, 5), aShow(3, 2, services.ShowReplay, 4), unpublished,
			pulled(aShow(4, 2, services.ShowReplay, 9)), pulled(aShow(5, 2, services.ShowReplay, 8)), pulled(aShow(6, 2, services.ShowReplay, 8)),
			pulled(aShow(7, 3, services.ShowReplay, 1)), aShow(8, 2, services.ShowLive, 7))
		equal(b.t, idsOf(must(b.HostReplays(b.ctx, 2, 10))(b.t)), []services.PostID{2, 1, 3})
		equal(b.t, idsOf(must(b.HostReplays(b.ctx, 2, 2))(b.t)), []services.PostID{2, 1})
		equal(b.t, len(must(b.HostReplays(b.ctx, 3, 2))(b.t)), 0)
		hosts := []services.UserID{2, 3, 4}
		equal(b.t, idsOf(must(b.PulledReplays(b.ctx, hosts, 10))(b.t)), []services.PostID{4, 6, 5, 7})
		equal(b.t, idsOf(must(b.PulledReplays(b.ctx, hosts, 2))(b.t)), []services.PostID{4, 6, 7})
		equal(b.t, idsOf(must(b.PulledReplays(b.ctx, hosts, 1))(b.t)), []services.PostID{4, 7})
	})
}

// The replays of a board are the newest of the followed hosts, page by page equal to a sorted list.
func TestReplaysFeedIsASortedList(t *testing.T) {
	each(t, func(b *bundle) {
		next := services.PostID(0)
		reader := services.UserID(0)
		histories.Fewer(b.t, 5)
		rapid.Check(b.t, func(t *rapid.T) {
			reader += 10
			var want []services.Show
			hosts := services.UserID(rapid.IntRange(0, 5).Draw(t, "hosts"))
			for host := reader + 1; host <= reader+hosts; host++ {
				shown := rapid.IntRange(0, 4).Draw(t, "shown") > 0
				var shows []services.Show
				for range rapid.IntRange(0, 12).Draw(t, "shows") {
					next++
					show := aShow(next, host, services.ShowReplay, rapid.IntRange(0, 9).Draw(t, "second"))
					if rapid.IntRange(0, 5).Draw(t, "other") == 0 {
						show.Pull = true
					}
					shows = append(shows, show)
					if shown && !show.Pull {
						want = append(want, show)
					}
				}
				b.show(shows...)
				b.write(func(tx *store.Tx) error {
					if _, err := tx.PutHost(b.ctx, host); err != nil {
						return err
					}
					return tx.Exec(b.ctx, `INSERT INTO follows (follower, followee, since, shown) VALUES ($1, $2, 0, $3)`, reader, host, shown)
				})
			}
			slices.SortFunc(want, func(x, y services.Show) int {
				return cmp.Or(y.EndedAt.Compare(x.EndedAt), cmp.Compare(y.ID, x.ID))
			})
			size := rapid.IntRange(1, 9).Draw(t, "size")
			place, got := services.ShowPlace{Score: 5}, []services.Show{} // a position among the live: all replays are after it
			for {
				page, err := b.ReplaysFeed(b.ctx, reader, place, size)
				if err != nil || len(page) > size {
					t.Fatalf("%d shows, %v", len(page), err)
				}
				got = append(got, page...)
				if len(page) < size {
					break
				}
				place = page[len(page)-1].Place()
			}
			equal(t, idsOf(got), idsOf(want))
		})
	})
}
