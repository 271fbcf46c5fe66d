package live

import (
	"cmp"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tidings/services"
	"tidings/services/changelog"
	"tidings/services/people/peopletest"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
	"tidings/tests/histories"
)

// testDB is a database with helpers for tests of the facts.
type testDB struct{ *peopletest.TestDB }

// eachTestDB runs a test on both engines, each time on a new database with a stopped clock.
func eachTestDB(t *testing.T, test func(b *testDB)) {
	t.Helper()
	peopletest.EachTestDB(t, func(b *peopletest.TestDB) { test(&testDB{b}) })
}

// appendLogEntry writes an entry of the log of shows, and returns its version.
func (b *testDB) appendLogEntry(key string) (version uint64) {
	b.T.Helper()
	b.MustWrite(func(tx *sql.Tx) (err error) {
		version, err = changelog.AppendLog(b.Ctx, tx, ChangelogKind, key, nil)
		return err
	})
	return version
}

// showTime is a whole second of the day of these tests.
func showTime(second int) time.Time {
	return time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC).Add(time.Duration(second) * time.Second)
}

// aShow returns a show that is or was on boards. Its times derive from second, its versions from its ID.
func aShow(id services.ShowID, host services.UserID, status ShowStatus, second int) Show {
	show := Show{
		ID: id, Host: host, Title: fmt.Sprint("show ", id), Status: status, PlannedAt: showTime(second), UpdatedAt: showTime(second), Version: uint64(id),
	}
	switch status {
	case ShowLive:
		show.StartedAt, show.LiveVersion, show.LiveStamp = showTime(second), uint64(id), services.SortableID(id)
	case ShowReplay:
		show.StartedAt, show.EndedAt = showTime(second-5), showTime(second)
	case ShowCancelled:
		show.CancelledAt = showTime(second)
	}
	return show
}

// addShows inserts shows and records their hosts.
func (b *testDB) addShows(shows ...Show) {
	b.T.Helper()
	b.MustWrite(func(tx *sql.Tx) error {
		for _, show := range shows {
			if _, err := putHost(b.Ctx, tx, show.Host); err != nil {
				return err
			}
			if err := putShow(b.Ctx, tx, show); err != nil {
				return err
			}
		}
		return nil
	})
}

func idsOf(shows []Show) []services.ShowID {
	ids := make([]services.ShowID, len(shows))
	for i, show := range shows {
		ids[i] = show.ID
	}
	return ids
}

// A show and its former position are read as they were written, also after a change of every field.
func TestAShowIsStoredUnchanged(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		at := showTime(0).Add(123 * time.Millisecond)
		show := Show{
			ID: services.ShowID(services.MaxSortableID), Host: 1<<32 - 1, Title: "„Jazz“ 😀", CoverURL: "https://example.com/c", Status: ShowUpcoming,
			PlannedAt: at, UpdatedAt: at.Add(time.Microsecond),
		}
		b.addShows(show)
		read := func() Show {
			return sqltest.Must(readShows(b.Ctx, b.DB.Runner, []services.ShowID{show.ID, 5}))(b.T)[show.ID]
		}
		sqltest.Equal(b.T, read(), show)
		show.Title, show.CoverURL, show.ReplayURL, show.Status = "a", "", "https://example.com/r", ShowReplay
		show.PlannedAt, show.StartedAt, show.EndedAt, show.UpdatedAt = at.Add(time.Hour), at, at.Add(time.Second), at.Add(time.Minute)
		show.Version, show.LiveVersion, show.LiveStamp, show.Pull = 1<<62, 1<<61, services.MaxSortableID, true
		former := formerPosition{
			Show: show.ID, Host: show.Host, FromVersion: 7, UntilVersion: 1 << 62, UntilAt: b.Clock.Now().UTC().Truncate(time.Microsecond), Status: ShowUpcoming, Score: -at.UnixMilli(),
		}
		b.MustWrite(func(tx *sql.Tx) error { return rewriteShow(b.Ctx, tx, show, &former) })
		sqltest.Equal(b.T, read(), show)
		sqltest.Equal(b.T, sqltest.Must(database{b.DB}.showHistory(b.Ctx, former.UntilAt))(b.T), []formerPosition{former})
		sqltest.Equal(b.T, len(sqltest.Must(database{b.DB}.showHistory(b.Ctx, former.UntilAt.Add(time.Microsecond)))(b.T)), 0)
		sqltest.Equal(b.T, idsOf(sqltest.Must(database{b.DB}.endedShows(b.Ctx, former.UntilAt))(b.T)), []services.ShowID{show.ID})
		show.Title = "b"
		b.MustWrite(func(tx *sql.Tx) error { return rewriteShow(b.Ctx, tx, show, nil) })
		sqltest.Equal(b.T, read(), show)
		sqltest.Equal(b.T, len(sqltest.Must(database{b.DB}.showHistory(b.Ctx, time.Time{}))(b.T)), 1)
		sqltest.Equal(b.T, sqltest.Must(forgetFormerPositions(b.Ctx, b.DB, former.UntilAt))(b.T), 0)
		sqltest.Equal(b.T, sqltest.Must(forgetFormerPositions(b.Ctx, b.DB, former.UntilAt.Add(time.Microsecond)))(b.T), 1)
		sqltest.Equal(b.T, len(sqltest.Must(database{b.DB}.endedShows(b.Ctx, time.Time{}))(b.T)), 0)

		sqltest.WantCode(b.T, b.DB.Write(b.Ctx, func(tx *sql.Tx) error { return putShow(b.Ctx, tx, show) }), services.Conflict)
	})
}

// lockShow and lockShowShared read the show that they lock, and return NOT_FOUND for an unknown ID.
func TestShowsAreLocked(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		show := aShow(9, 1, ShowLive, 0)
		b.addShows(show)
		b.MustWrite(func(tx *sql.Tx) error {
			last, err := changelog.LockLog(b.Ctx, tx, ChangelogKind)
			sqltest.Equal(b.T, last, uint64(0))
			sqltest.Equal(b.T, sqltest.Must(lockShow(b.Ctx, tx, 9))(b.T), show)
			sqltest.Equal(b.T, sqltest.Must(lockShowShared(b.Ctx, tx, 9))(b.T), show)
			_, missing := lockShow(b.Ctx, tx, 10)
			sqltest.WantCode(b.T, missing, services.NotFound)
			_, missing = lockShowShared(b.Ctx, tx, 10)
			sqltest.WantCode(b.T, missing, services.NotFound)
			return err
		})
		b.appendLogEntry("a")
		b.MustWrite(func(tx *sql.Tx) error {
			last, err := changelog.LockLog(b.Ctx, tx, ChangelogKind)
			sqltest.Equal(b.T, last, uint64(1))
			return err
		})
		sqltest.Equal(b.T, b.appendLogEntry("b"), uint64(2))
	})
}

// activeShows lists the upcoming and live shows that boards have, host by host. A page never ends within a host.
func TestActiveShows(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		unpublished := aShow(90, 2, ShowUpcoming, 1)
		unpublished.Version = 0
		alone := aShow(91, 3, ShowUpcoming, 1)
		alone.Version = 0
		shows := []Show{
			aShow(1, 2, ShowUpcoming, 9), aShow(4, 2, ShowLive, 3), aShow(2, 5, ShowUpcoming, 9), aShow(3, 7, ShowLive, 9),
		}
		b.addShows(shows...)
		b.addShows(unpublished, alone, aShow(5, 2, ShowReplay, 9), aShow(6, 2, ShowCancelled, 9), aShow(7, 4, ShowReplay, 9))
		sqltest.Equal(b.T, sqltest.Must(database{b.DB}.activeShows(b.Ctx, 0, 10))(b.T), shows)
		sqltest.Equal(b.T, sqltest.Must(database{b.DB}.activeShows(b.Ctx, 0, 1))(b.T), shows[:2])
		sqltest.Equal(b.T, sqltest.Must(database{b.DB}.activeShows(b.Ctx, 2, 1))(b.T), shows[2:3])
		sqltest.Equal(b.T, sqltest.Must(database{b.DB}.activeShows(b.Ctx, 2, 2))(b.T), shows[2:])
		sqltest.Equal(b.T, len(sqltest.Must(database{b.DB}.activeShows(b.Ctx, 7, 2))(b.T)), 0)
		b.MustWrite(func(tx *sql.Tx) error {
			for limit, want := range map[int]int{1: 1, 2: 2, 5: 2} {
				sqltest.Equal(b.T, sqltest.Must(countUpcoming(b.Ctx, tx, 2, limit))(b.T), want)
			}
			sqltest.Equal(b.T, sqltest.Must(countUpcoming(b.Ctx, tx, 4, 5))(b.T), 0)
			return nil
		})
	})
}

// Pushed and pulled replays of hosts are listed apart, the newest end first, without shows that no board has yet.
func TestReplaysOfHosts(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		pulled := func(show Show) Show {
			show.Pull = true
			return show
		}
		unpublished := aShow(99, 2, ShowReplay, 9)
		unpublished.Version = 0
		b.addShows(aShow(1, 2, ShowReplay, 5), aShow(2, 2, ShowReplay, 5), aShow(3, 2, ShowReplay, 4), unpublished,
			pulled(aShow(4, 2, ShowReplay, 9)), pulled(aShow(5, 2, ShowReplay, 8)), pulled(aShow(6, 2, ShowReplay, 8)),
			pulled(aShow(7, 3, ShowReplay, 1)), aShow(8, 2, ShowLive, 7))
		sqltest.Equal(b.T, idsOf(sqltest.Must(newestReplaysOf(b.Ctx, b.DB, 2, 10))(b.T)), []services.ShowID{2, 1, 3})
		sqltest.Equal(b.T, idsOf(sqltest.Must(newestReplaysOf(b.Ctx, b.DB, 2, 2))(b.T)), []services.ShowID{2, 1})
		sqltest.Equal(b.T, len(sqltest.Must(newestReplaysOf(b.Ctx, b.DB, 3, 2))(b.T)), 0)
		hosts := []services.UserID{2, 3, 4}
		sqltest.Equal(b.T, idsOf(sqltest.Must(database{b.DB}.pulledReplays(b.Ctx, hosts, 10))(b.T)), []services.ShowID{4, 6, 5, 7})
		sqltest.Equal(b.T, idsOf(sqltest.Must(database{b.DB}.pulledReplays(b.Ctx, hosts, 2))(b.T)), []services.ShowID{4, 6, 7})
		sqltest.Equal(b.T, idsOf(sqltest.Must(database{b.DB}.pulledReplays(b.Ctx, hosts, 1))(b.T)), []services.ShowID{4, 7})
	})
}

// replaysOfFollowedHosts lists the newest pushed replays of the followed hosts whose shows the reader may see. Its pages together
// equal a sorted list.
func TestReplaysOfFollowedHostsAreASortedList(t *testing.T) {
	eachTestDB(t, func(b *testDB) {
		next := services.ShowID(0)
		reader := services.UserID(0)
		histories.ReduceRapidChecks(b.T, 5)
		rapid.Check(b.T, func(t *rapid.T) {
			reader += 10
			var want []Show
			hosts := services.UserID(rapid.IntRange(0, 5).Draw(t, "hosts"))
			for host := reader + 1; host <= reader+hosts; host++ {
				shown := rapid.IntRange(0, 4).Draw(t, "shown") > 0
				var shows []Show
				for range rapid.IntRange(0, 12).Draw(t, "shows") {
					next++
					show := aShow(next, host, ShowReplay, rapid.IntRange(0, 9).Draw(t, "second"))
					if rapid.IntRange(0, 5).Draw(t, "other") == 0 {
						show.Pull = true
					}
					shows = append(shows, show)
					if shown && !show.Pull {
						want = append(want, show)
					}
				}
				b.addShows(shows...)
				b.MustWrite(func(tx *sql.Tx) error {
					if _, err := putHost(b.Ctx, tx, host); err != nil {
						return err
					}
					_, err := tx.Run(b.Ctx, sql.AdHoc("test", `INSERT INTO follows (follower, followee, since, shown) VALUES ($1, $2, 0, $3)`), reader, host, shown)
					return err
				})
			}
			slices.SortFunc(want, func(x, y Show) int {
				return cmp.Or(y.EndedAt.Compare(x.EndedAt), cmp.Compare(y.ID, x.ID))
			})
			size := rapid.IntRange(1, 9).Draw(t, "size")
			position, got := ShowPosition{Score: 5}, []Show{} // a position among the live: all replays are after it
			for {
				page, err := replaysOfFollowedHosts(b.Ctx, b.DB, reader, position, size)
				if err != nil || len(page) > size {
					t.Fatalf("%d shows, %v", len(page), err)
				}
				got = append(got, page...)
				if len(page) < size {
					break
				}
				position = page[len(page)-1].Position()
			}
			sqltest.Equal(t, idsOf(got), idsOf(want))
			// At a version of the log, without a host.
			version, without := uint64(max(0, int(next)-rapid.IntRange(0, 40).Draw(t, "later versions"))), services.FollowedAuthor{Author: reader + services.UserID(rapid.IntRange(0, 5).Draw(t, "without"))}
			then := slices.DeleteFunc(want, func(show Show) bool { return show.Version > version || show.Host == without.Author })
			got, err := replaysOfFollowedHostsAt(b.Ctx, b.DB, reader, version, []services.FollowedAuthor{without}, ShowPosition{}, size)
			if err != nil {
				t.Fatal(err)
			}
			sqltest.Equal(t, idsOf(got), idsOf(then[:min(size, len(then))]))
		})
	})
}
