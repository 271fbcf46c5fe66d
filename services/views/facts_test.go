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

// facts are the facts of views in one database.
type facts struct{ *peopletest.Bundle }

func eachFacts(t *testing.T, test func(b facts)) {
	t.Helper()
	peopletest.EachBundle(t, func(b *peopletest.Bundle) { test(facts{b}) })
}

// at is a time, some seconds after a fixed one.
func at(seconds int) time.Time { return time.Unix(1_700_000_000+int64(seconds), 0).UTC() }

func (b facts) addItem(view View, item string, when time.Time) (changed bool) {
	b.T.Helper()
	b.MustWrite(func(tx *sql.Tx) (err error) {
		changed, err = addItem(b.Ctx, tx, view, Item{Name: item, At: when})
		return err
	})
	return changed
}

func (b facts) removeItem(view View, item string) {
	b.T.Helper()
	b.MustWrite(func(tx *sql.Tx) error {
		_, err := removeItem(b.Ctx, tx, view, item)
		return err
	})
}

func (b facts) touch(user services.UserID, view View, upTo time.Time) (access Access) {
	b.T.Helper()
	b.MustWrite(func(tx *sql.Tx) (err error) {
		access, err = touch(b.Ctx, tx, user, view, upTo, tx.Now)
		return err
	})
	return access
}

// countNewer counts the items of a view that are newer than a time.
func (b facts) countNewer(view View, than time.Time) int {
	b.T.Helper()
	return sqltest.Must(countItems(b.Ctx, b.DB, []Access{{View: view, UpTo: than}}, 101))(b.T)[0]
}

func TestItemsStandAtTheirLatestReport(t *testing.T) {
	eachFacts(t, func(b facts) {
		sqltest.Equal(b.T, b.addItem(news, "a", at(10)), true)
		sqltest.Equal(b.T, b.addItem(news, "b", at(20)), true)
		sqltest.Equal(b.T, b.addItem(View{Code: "news", ID: "city"}, "c", at(30)), true)
		sqltest.Equal(b.T, []int{b.countNewer(news, at(9)), b.countNewer(news, at(10)), b.countNewer(news, at(20))}, []int{2, 1, 0})
		sqltest.Equal(b.T, b.addItem(news, "a", at(10)), false) // repeated
		sqltest.Equal(b.T, b.addItem(news, "a", at(5)), false)  // and late
		sqltest.Equal(b.T, b.addItem(news, "a", at(40)), true)
		sqltest.Equal(b.T, b.countNewer(news, at(20)), 1)
		b.removeItem(news, "a")
		b.removeItem(news, "a")
		sqltest.Equal(b.T, b.countNewer(news, at(9)), 1)
		sqltest.Equal(b.T, b.addItem(news, "a", at(40)), false) // a late report does not bring it back
		sqltest.Equal(b.T, b.countNewer(news, at(9)), 1)
		sqltest.Equal(b.T, b.addItem(news, "a", at(41)), true)
		when, stands, err := readItem(b.Ctx, b.DB, news, "a")
		sqltest.Equal(b.T, sqltest.Must(when, err)(b.T), at(41))
		sqltest.Equal(b.T, stands, true)
		_, stands, err = readItem(b.Ctx, b.DB, news, "z")
		sqltest.Equal(b.T, sqltest.Must(stands, err)(b.T), false)
		sqltest.WantCode(b.T, b.Write(b.Ctx, func(tx *sql.Tx) error {
			_, err := removeItem(b.Ctx, tx, news, "z")
			return err
		}), services.NotFound)
	})
}

func TestAPositionNeverGoesBack(t *testing.T) {
	eachFacts(t, func(b facts) {
		sqltest.Equal(b.T, b.touch(1, news, at(50)), Access{View: news, UpTo: at(50), LastAccessAt: b.Clock.Now(), Counts: true})
		b.Clock.Advance(time.Second)
		sqltest.Equal(b.T, b.touch(1, news, at(20)), Access{View: news, UpTo: at(50), LastAccessAt: b.Clock.Now(), Counts: true}) // never back
		sqltest.Equal(b.T, b.touch(2, news, at(20)).UpTo, at(20))
		b.addItem(news, "the newest", at(30))
		sqltest.Equal(b.T, b.touch(2, news, time.Time{}).UpTo, at(30)) // all there is, whatever the time
		ahead := b.Clock.Now().Add(time.Second)
		tooLate := func(tx *sql.Tx) error { _, err := touch(b.Ctx, tx, 2, news, ahead, tx.Now); return err }
		sqltest.WantCode(b.T, b.Write(b.Ctx, tooLate), services.Invalid)
		b.MustWrite(func(tx *sql.Tx) error { _, err := touch(b.Ctx, tx, 4, news, ahead, ahead); return err })
		b.addItem(news, "of a clock that is ahead", ahead)
		sqltest.Equal(b.T, b.touch(2, news, ahead).UpTo, ahead)
		sqltest.Equal(b.T, b.touch(3, news, time.Time{}).UpTo, ahead)
	})
}

func TestAccessesAreListedInOrder(t *testing.T) {
	eachFacts(t, func(b facts) {
		b.MustWrite(func(tx *sql.Tx) error { _, err := positions.Raise(b.Ctx, tx, 1, positions.HomePage, "", 7); return err })
		var all []View
		for _, code := range []string{"news", "topic"} {
			for i := range 5 {
				view := View{Code: code, ID: fmt.Sprint("id", i)}
				b.touch(1, view, at(i))
				b.touch(2, view, at(100))
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
		sqltest.Equal(b.T, page[2].UpTo, at(2))
	})
}

func TestTheNewestItemsHaveAFloor(t *testing.T) {
	eachFacts(t, func(b facts) {
		few, none := View{Code: "topic", ID: "few"}, View{Code: "topic", ID: "none"}
		for i := range 6 {
			b.addItem(news, fmt.Sprint(i), at(i/2)) // pairs of one moment
		}
		b.addItem(few, "x", at(1))
		b.addItem(news, "gone", at(90))
		b.removeItem(news, "gone")
		newest := sqltest.Must(readNewest(b.Ctx, b.DB, []View{few, none, news}, 3))(b.T)
		sqltest.Equal(b.T, newest[0].items, []Item{{Name: "x", At: at(1)}})
		sqltest.Equal(b.T, newest[0].more, false)
		sqltest.Equal(b.T, newest[1].items, []Item(nil))
		sqltest.Equal(b.T, newest[1].more, false)
		var names []string
		for _, item := range newest[2].items {
			names = append(names, item.Name)
		}
		slices.Sort(names)
		sqltest.Equal(b.T, strings.Join(names, " "), "2 3 4 5") // the third shares its moment with another
		sqltest.Equal(b.T, newest[2].more, true)
		sqltest.Equal(b.T, newest[2].floor, at(0))
		counts := sqltest.Must(countItems(b.Ctx, b.DB, []Access{{View: news, UpTo: at(0)}, {View: none}, {View: news}}, 5))(b.T)
		sqltest.Equal(b.T, counts, []int{4, 0, 5})
	})
}

// For any reports in any order, an item is in the view at its latest time, unless it was removed after that.
func TestViewItemsAreWhatWasReported(t *testing.T) {
	histories.Reduce(t, 3)
	sqltest.EachURL(t, func(t *testing.T, url string) {
		b, run := facts{peopletest.NewBundle(t, url)}, 0
		rapid.Check(t, func(rt *rapid.T) {
			run++
			view := View{Code: "run", ID: fmt.Sprint(run)}
			latest, gone := map[string]int{}, map[string]bool{}
			rt.Repeat(map[string]func(*rapid.T){
				"add": func(rt *rapid.T) {
					item, when := fmt.Sprint(rapid.IntRange(0, 3).Draw(rt, "item")), rapid.IntRange(1, 20).Draw(rt, "at")
					had, known := latest[item]
					sqltest.Equal(rt, b.addItem(view, item, at(when)), !known || when > had)
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
					sqltest.Equal(rt, b.countNewer(view, at(than)), want)
				},
			})
		})
	})
}
