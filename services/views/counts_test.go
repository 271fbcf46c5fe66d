package views

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tidings/services"
	"tidings/services/people/peopletest"
	"tidings/services/positions"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
	"tidings/tests/histories"
)

// readViewsStates reads users' counts of new items in their views.
func (b factsInDatabase) readViewsStates(users ...services.UserID) map[services.UserID]services.ViewsState {
	b.T.Helper()
	return sqltest.Must(readCounts(b.Ctx, b.DB, users))(b.T)
}

// touchWithMaxCountedViews touches a view, with most as the number of views that count.
func (b factsInDatabase) touchWithMaxCountedViews(user services.UserID, view View, upTo time.Time, most int) {
	b.T.Helper()
	b.MustWrite(func(tx *sql.Tx) error { return touch(b.Ctx, tx, user, view, upTo, tx.Now, most) })
}

// Only the views that a user touched last are counted, each up to 100 items. Other rows of user_access_log, such as the position in the
// home feed, are not.
func TestTheViewsTouchedLastCount(t *testing.T) {
	eachFactsDatabase(t, func(b factsInDatabase) {
		b.MustWrite(func(tx *sql.Tx) error {
			_, err := positions.Advance(b.Ctx, tx, 1, positions.HomeFeedView, 7)
			return err
		})
		b.MustWrite(func(tx *sql.Tx) error {
			_, err := positions.Advance(b.Ctx, tx, 1, positions.LiveBoardView, 7)
			return err
		})
		if got := b.readViewsStates(1); len(got) > 0 {
			b.T.Errorf("who touched no view has %+v", got)
		}
		for i := range 105 {
			b.addItem(newsView, fmt.Sprint(i), timeAtSecond(100+i))
		}
		b.touch(1, newsView, timeAtSecond(104))
		sqltest.Equal(b.T, b.readViewsStates(1)[1].Unread, 100)
		sqltest.Equal(b.T, b.readViewsStates(1)[1].AtLeast, false)
		b.touch(2, newsView, timeAtSecond(103))
		sqltest.Equal(b.T, b.readViewsStates(2)[2].Unread, 100)
		sqltest.Equal(b.T, b.readViewsStates(2)[2].AtLeast, true)
		for i := range maxCountedViews {
			view := View{Code: "topic", ID: fmt.Sprint(i)}
			b.touch(1, view, timeAtSecond(0))
			if i < 3 {
				b.addItem(view, "x", timeAtSecond(1))
			}
		}
		among := func(view View) bool {
			listed := sqltest.Must(readAccesses(b.Ctx, b.DB, 1, []string{"news", "topic"}, View{}, 2*maxCountedViews))(b.T)
			alone := sqltest.Must(readAccessesByView(b.Ctx, b.DB, 1, []View{view}))(b.T)
			i := slices.IndexFunc(listed, func(access LastAccess) bool { return access.View == view })
			sqltest.Equal(b.T, listed[i], alone[0])
			return alone[0].CountsInBadges
		}
		// The topics were touched after news, and as many views count as there are topics.
		sqltest.Equal(b.T, b.readViewsStates(1)[1].Unread, 3)
		sqltest.Equal(b.T, among(newsView), false)
		sqltest.Equal(b.T, among(View{Code: "topic", ID: "0"}), true)
		b.touch(1, newsView, timeAtSecond(0)) // an earlier time does not move the position back, and the view counts again
		sqltest.Equal(b.T, b.readViewsStates(1)[1].Unread, 102)
		sqltest.Equal(b.T, among(newsView), true)
		sqltest.Equal(b.T, among(View{Code: "topic", ID: "0"}), false)
		sqltest.Equal(b.T, sqltest.Must(readReaders(b.Ctx, b.DB, View{Code: "topic", ID: "0"}, 0, time.Time{}, 9))(b.T), []services.UserID(nil))
	})
}

// readerModel is the model of one reader's views.
type readerModel struct {
	countedViews []View       // the views that count, the last touched first
	touchedUpTo  map[View]int // the time up to which each view was touched
}

// After any history the count is the model's, its version never falls and rises with every change of the count, and the audit's own
// way of counting agrees.
func TestCountsAndVersionsOfViewsAreTheModels(t *testing.T) {
	histories.ReduceRapidChecks(t, 3)
	const most = 2
	sqltest.EachURL(t, func(t *testing.T, url string) {
		b, run := factsInDatabase{peopletest.NewTestDB(t, url)}, 0
		rapid.Check(t, func(rt *rapid.T) {
			run++
			var list []View
			for i := range 4 {
				list = append(list, View{Code: "run", ID: fmt.Sprint(run, "-", i)})
			}
			items := map[View]map[string]int{}
			users := []services.UserID{services.UserID(2 * run), services.UserID(2*run + 1)}
			readers, last := map[services.UserID]*readerModel{}, map[services.UserID]services.ViewsState{}
			for _, user := range users {
				readers[user] = &readerModel{touchedUpTo: map[View]int{}}
			}
			draw := func(rt *rapid.T) View { return rapid.SampledFrom(list).Draw(rt, "view") }
			rt.Repeat(map[string]func(*rapid.T){
				"add": func(rt *rapid.T) {
					view, item, when := draw(rt), fmt.Sprint(rapid.IntRange(0, 3).Draw(rt, "item")), rapid.IntRange(1, 20).Draw(rt, "at")
					if b.addItem(view, item, timeAtSecond(when)) {
						if items[view] == nil {
							items[view] = map[string]int{}
						}
						items[view][item] = when
					}
				},
				"remove": func(rt *rapid.T) {
					view, item := draw(rt), fmt.Sprint(rapid.IntRange(0, 3).Draw(rt, "item"))
					if _, stands := items[view][item]; stands {
						b.removeItem(view, item)
						delete(items[view], item)
					}
				},
				"touch": func(rt *rapid.T) {
					user, view, when := rapid.SampledFrom(users).Draw(rt, "user"), draw(rt), rapid.IntRange(0, 20).Draw(rt, "upTo")
					b.touchWithMaxCountedViews(user, view, timeAtSecond(when), most)
					reader := readers[user]
					reader.countedViews = append([]View{view}, slices.DeleteFunc(reader.countedViews, func(v View) bool { return v == view })...)
					reader.countedViews = reader.countedViews[:min(most, len(reader.countedViews))]
					reader.touchedUpTo[view] = max(reader.touchedUpTo[view], when)
				},
				"": func(rt *rapid.T) {
					states := b.readViewsStates(users...)
					for _, user := range users {
						want := 0
						for _, view := range readers[user].countedViews {
							for _, when := range items[view] {
								if when > readers[user].touchedUpTo[view] {
									want++
								}
							}
						}
						got, had := states[user], last[user]
						if got.Unread != want || got.AtLeast {
							rt.Fatalf("user %d has %+v, want %d", user, got, want)
						}
						if got.Version < had.Version || got.Version == had.Version && got != had {
							rt.Fatalf("user %d has %+v after %+v", user, got, had)
						}
						last[user] = got
						audited, found, err := auditCounts(b.Ctx, b.DB, user)
						if err != nil || audited != got || found != (len(readers[user].countedViews) > 0) {
							rt.Fatalf("user %d has %+v, audited %+v, %v, %v", user, got, audited, found, err)
						}
					}
				},
			})
		})
	})
}

// While items come and the reader's views push each other out, every read of one version has one count, and versions never fall: a
// versioned field may be written late and in any order.
func TestNoVersionOfACountHasTwoValues(t *testing.T) {
	eachFactsDatabase(t, func(b factsInDatabase) {
		const most, rounds = 1, 150
		other := View{Code: "topic", ID: "other"}
		b.touchWithMaxCountedViews(1, newsView, timeAtSecond(0), most)
		var group sync.WaitGroup
		ctx, stop := context.WithCancel(b.Ctx)
		defer stop()
		run := func(once func(round int) error) {
			group.Go(func() {
				for round := range rounds {
					if err := once(round); err != nil {
						b.T.Error(err)
						return
					}
				}
			})
		}
		for writer := range 2 {
			run(func(round int) error {
				return b.Write(b.Ctx, func(tx *sql.Tx) error {
					_, err := addItem(b.Ctx, tx, newsView, Item{Name: fmt.Sprint(writer, "-", round%40), At: timeAtSecond(1 + round)})
					return err
				})
			})
		}
		run(func(round int) error {
			return b.Write(b.Ctx, func(tx *sql.Tx) error {
				return touch(b.Ctx, tx, 1, []View{other, newsView}[round%2], timeAtSecond(0), tx.Now, most)
			})
		})
		seen, readers := make([]map[uint64]services.ViewsState, 2), sync.WaitGroup{}
		for i := range seen {
			seen[i] = map[uint64]services.ViewsState{}
			readers.Go(func() {
				last := uint64(0)
				for ctx.Err() == nil {
					states, err := readCounts(b.Ctx, b.DB, []services.UserID{1})
					got := states[1]
					if had, known := seen[i][got.Version]; err != nil || got.Version < last || known && had != got {
						b.T.Errorf("%+v, and before it %+v and version %d (%v)", got, had, last, err)
						return
					}
					seen[i][got.Version], last = got, got.Version
				}
			})
		}
		group.Wait()
		stop()
		readers.Wait()
		final := b.readViewsStates(1)[1]
		for _, versions := range seen {
			for version, state := range versions {
				if had, known := seen[0][version]; known && had != state {
					b.T.Errorf("version %d is %+v and %+v", version, had, state)
				}
				if version > final.Version {
					b.T.Errorf("version %d is above the last, %+v", version, final)
				}
			}
		}
	})
}
