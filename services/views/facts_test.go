package views

import (
	"fmt"
	"slices"
	"strings"
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

// factsInDatabase are the facts of views in one database.
type factsInDatabase struct{ *peopletest.TestDB }

// eachFactsDatabase runs a test on both engines, each time on a new database.
func eachFactsDatabase(t *testing.T, test func(b factsInDatabase)) {
	t.Helper()
	peopletest.EachTestDB(t, func(b *peopletest.TestDB) { test(factsInDatabase{b}) })
}

// timeAtSecond is a time, some seconds after a fixed one.
func timeAtSecond(seconds int) time.Time { return time.Unix(1_700_000_000+int64(seconds), 0).UTC() }

func (b factsInDatabase) addItem(view View, item string, when time.Time) (changed bool) {
	b.T.Helper()
	b.MustWrite(func(tx *sql.Tx) (err error) {
		changed, err = addItem(b.Ctx, tx, view, Item{Name: item, At: when})
		return err
	})
	return changed
}

func (b factsInDatabase) removeItem(view View, item string) {
	b.T.Helper()
	b.MustWrite(func(tx *sql.Tx) error {
		_, err := removeItem(b.Ctx, tx, view, item)
		return err
	})
}

// touch touches a view, and returns what is stored then.
func (b factsInDatabase) touch(user services.UserID, view View, upTo time.Time) LastAccess {
	b.T.Helper()
	b.MustWrite(func(tx *sql.Tx) error { return touch(b.Ctx, tx, user, view, upTo, tx.Now, maxCountedViews) })
	return sqltest.Must(readAccessesByView(b.Ctx, b.DB, user, []View{view}))(b.T)[0]
}

// countNewerItems counts the items of a view that are newer than a time.
func (b factsInDatabase) countNewerItems(view View, than time.Time) int {
	b.T.Helper()
	return sqltest.Must(countNewItems(b.Ctx, b.DB, []LastAccess{{View: view, UpTo: than}}, 101))(b.T)[0]
}

func TestItemsStandAtTheirLatestReport(t *testing.T) {
	eachFactsDatabase(t, func(b factsInDatabase) {
		sqltest.Equal(b.T, b.addItem(newsView, "a", timeAtSecond(10)), true)
		sqltest.Equal(b.T, b.addItem(newsView, "b", timeAtSecond(20)), true)
		sqltest.Equal(b.T, b.addItem(View{Code: "news", ID: "city"}, "c", timeAtSecond(30)), true)
		sqltest.Equal(b.T, []int{b.countNewerItems(newsView, timeAtSecond(9)), b.countNewerItems(newsView, timeAtSecond(10)), b.countNewerItems(newsView, timeAtSecond(20))}, []int{2, 1, 0})
		sqltest.Equal(b.T, b.addItem(newsView, "a", timeAtSecond(10)), false) // repeated
		sqltest.Equal(b.T, b.addItem(newsView, "a", timeAtSecond(5)), false)  // and late
		sqltest.Equal(b.T, b.addItem(newsView, "a", timeAtSecond(40)), true)
		sqltest.Equal(b.T, b.countNewerItems(newsView, timeAtSecond(20)), 1)
		b.removeItem(newsView, "a")
		b.removeItem(newsView, "a")
		sqltest.Equal(b.T, b.countNewerItems(newsView, timeAtSecond(9)), 1)
		sqltest.Equal(b.T, b.addItem(newsView, "a", timeAtSecond(40)), false) // a late report does not bring it back
		sqltest.Equal(b.T, b.countNewerItems(newsView, timeAtSecond(9)), 1)
		sqltest.Equal(b.T, b.addItem(newsView, "a", timeAtSecond(41)), true)
		when, stands, err := readItem(b.Ctx, b.DB, newsView, "a")
		sqltest.Equal(b.T, sqltest.Must(when, err)(b.T), timeAtSecond(41))
		sqltest.Equal(b.T, stands, true)
		_, stands, err = readItem(b.Ctx, b.DB, newsView, "z")
		sqltest.Equal(b.T, sqltest.Must(stands, err)(b.T), false)
		sqltest.WantCode(b.T, b.Write(b.Ctx, func(tx *sql.Tx) error {
			_, err := removeItem(b.Ctx, tx, newsView, "z")
			return err
		}), services.NotFound)
	})
}

func TestAPositionNeverGoesBack(t *testing.T) {
	eachFactsDatabase(t, func(b factsInDatabase) {
		sqltest.Equal(b.T, b.touch(1, newsView, timeAtSecond(50)), LastAccess{View: newsView, UpTo: timeAtSecond(50), LastAccessAt: b.Clock.Now(), CountsInBadges: true})
		b.Clock.Advance(time.Second)
		sqltest.Equal(b.T, b.touch(1, newsView, timeAtSecond(20)), LastAccess{View: newsView, UpTo: timeAtSecond(50), LastAccessAt: b.Clock.Now(), CountsInBadges: true}) // never back
		sqltest.Equal(b.T, b.touch(2, newsView, timeAtSecond(20)).UpTo, timeAtSecond(20))
		b.addItem(newsView, "the newest", timeAtSecond(30))
		sqltest.Equal(b.T, b.touch(2, newsView, time.Time{}).UpTo, timeAtSecond(30)) // all there is, whatever the time
		ahead := b.Clock.Now().Add(time.Second)
		tooLate := func(tx *sql.Tx) error { return touch(b.Ctx, tx, 2, newsView, ahead, tx.Now, maxCountedViews) }
		sqltest.WantCode(b.T, b.Write(b.Ctx, tooLate), services.Invalid)
		b.MustWrite(func(tx *sql.Tx) error { return touch(b.Ctx, tx, 4, newsView, ahead, ahead, maxCountedViews) })
		b.addItem(newsView, "of a clock that is ahead", ahead)
		sqltest.Equal(b.T, b.touch(2, newsView, ahead).UpTo, ahead)
		sqltest.Equal(b.T, b.touch(3, newsView, time.Time{}).UpTo, ahead)
	})
}

// A touch of a past time, as events bring it, leaves the time of a later one.
func TestATouchOfAPastTimeLeavesTheLaterOne(t *testing.T) {
	eachFactsDatabase(t, func(b factsInDatabase) {
		b.Clock.Advance(time.Hour)
		last := b.touch(1, newsView, timeAtSecond(50)).LastAccessAt
		b.MustWrite(func(tx *sql.Tx) error {
			tx.SetEventMoment(services.SortableIDAt(b.Clock.Now().Add(-time.Minute)))
			return touch(b.Ctx, tx, 1, newsView, timeAtSecond(20), tx.Now, maxCountedViews)
		})
		stored := sqltest.Must(readAccessesByView(b.Ctx, b.DB, 1, []View{newsView}))(b.T)
		sqltest.Equal(b.T, stored, []LastAccess{{View: newsView, UpTo: timeAtSecond(50), LastAccessAt: last, CountsInBadges: true}})
	})
}

func TestAccessesAreListedInOrder(t *testing.T) {
	eachFactsDatabase(t, func(b factsInDatabase) {
		b.MustWrite(func(tx *sql.Tx) error {
			_, err := positions.Advance(b.Ctx, tx, 1, positions.HomeFeedView, 7)
			return err
		})
		var all []View
		for _, code := range []string{"news", "topic"} {
			for i := range 5 {
				view := View{Code: code, ID: fmt.Sprint("id", i)}
				b.touch(1, view, timeAtSecond(i))
				b.touch(2, view, timeAtSecond(100))
				all = append(all, view)
			}
		}
		var got []View
		after := View{}
		for {
			page := sqltest.Must(readAccesses(b.Ctx, b.DB, 1, []string{"topic", "news", "other"}, after, 3))(b.T)
			if len(page) == 0 {
				break
			}
			for _, access := range page {
				got = append(got, access.View)
				after = access.View
			}
		}
		sqltest.Equal(b.T, got, all)
		page := sqltest.Must(readAccesses(b.Ctx, b.DB, 1, []string{"topic"}, View{}, 10))(b.T)
		sqltest.Equal(b.T, len(page), 5)
		sqltest.Equal(b.T, page[2].UpTo, timeAtSecond(2))
	})
}

func TestNewestItemsAreCompleteAboveTheirFloor(t *testing.T) {
	eachFactsDatabase(t, func(b factsInDatabase) {
		few, none := View{Code: "topic", ID: "few"}, View{Code: "topic", ID: "none"}
		for i := range 6 {
			b.addItem(newsView, fmt.Sprint(i), timeAtSecond(i/2)) // pairs of one moment
		}
		b.addItem(few, "x", timeAtSecond(1))
		b.addItem(newsView, "gone", timeAtSecond(90))
		b.removeItem(newsView, "gone")
		newest := sqltest.Must(readNewestItems(b.Ctx, b.DB, []View{few, none, newsView}, 3))(b.T)
		sqltest.Equal(b.T, newest[0].items, []Item{{Name: "x", At: timeAtSecond(1)}})
		sqltest.Equal(b.T, newest[0].hasOlder, false)
		sqltest.Equal(b.T, newest[1].items, []Item(nil))
		sqltest.Equal(b.T, newest[1].hasOlder, false)
		var names []string
		for _, item := range newest[2].items {
			names = append(names, item.Name)
		}
		slices.Sort(names)
		sqltest.Equal(b.T, strings.Join(names, " "), "2 3 4 5") // the third shares its moment with another
		sqltest.Equal(b.T, newest[2].hasOlder, true)
		sqltest.Equal(b.T, newest[2].completeAbove, timeAtSecond(0))
		counts := sqltest.Must(countNewItems(b.Ctx, b.DB, []LastAccess{{View: newsView, UpTo: timeAtSecond(0)}, {View: none}, {View: newsView}}, 5))(b.T)
		sqltest.Equal(b.T, counts, []int{4, 0, 5})
	})
}

// For any reports in any order, an item is in the view at its latest time, unless it was removed after that.
func TestViewItemsAreWhatWasReported(t *testing.T) {
	histories.ReduceRapidChecks(t, 3)
	sqltest.EachURL(t, func(t *testing.T, url string) {
		b, run := factsInDatabase{peopletest.NewTestDB(t, url)}, 0
		rapid.Check(t, func(rt *rapid.T) {
			run++
			view := View{Code: "run", ID: fmt.Sprint(run)}
			latest, gone := map[string]int{}, map[string]bool{}
			rt.Repeat(map[string]func(*rapid.T){
				"add": func(rt *rapid.T) {
					item, when := fmt.Sprint(rapid.IntRange(0, 3).Draw(rt, "item")), rapid.IntRange(1, 20).Draw(rt, "at")
					had, known := latest[item]
					sqltest.Equal(rt, b.addItem(view, item, timeAtSecond(when)), !known || when > had)
					if !known || when > had {
						latest[item], gone[item] = when, false
					}
				},
				"remove": func(rt *rapid.T) {
					item := fmt.Sprint(rapid.IntRange(0, 3).Draw(rt, "item"))
					if _, known := latest[item]; known {
						b.removeItem(view, item)
						gone[item] = true
					}
				},
				"": func(rt *rapid.T) {
					than, want := rapid.IntRange(0, 20).Draw(rt, "than"), 0
					for item, when := range latest {
						if when > than && !gone[item] {
							want++
						}
					}
					sqltest.Equal(rt, b.countNewerItems(view, timeAtSecond(than)), want)
				},
			})
		})
	})
}
