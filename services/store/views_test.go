package store_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tidings/services"
	"tidings/services/sql/sqltest"
	"tidings/services/store"
	"tidings/tests/histories"
)

var news = services.View{Code: "news", ID: "town"}

// at is a moment some seconds after the first.
func at(seconds int) time.Time { return time.Unix(1_700_000_000+int64(seconds), 0).UTC() }

func (b *bundle) addItem(view services.View, item string, when time.Time) (changed bool) {
	b.t.Helper()
	b.write(func(tx *store.Tx) (err error) {
		changed, err = tx.AddViewItem(b.ctx, view, services.ViewItem{Item: item, At: when})
		return err
	})
	return changed
}

func (b *bundle) removeItem(view services.View, item string) {
	b.t.Helper()
	b.write(func(tx *store.Tx) error { return tx.RemoveViewItem(b.ctx, view, item) })
}

func (b *bundle) touch(user services.UserID, view services.View, upTo time.Time) (access services.ViewAccess) {
	b.t.Helper()
	b.write(func(tx *store.Tx) (err error) {
		access, err = tx.TouchView(b.ctx, user, view, upTo, tx.Now)
		return err
	})
	return access
}

func (b *bundle) countNewer(view services.View, than time.Time) int {
	b.t.Helper()
	return must(b.CountViewItems(b.ctx, []services.ViewAccess{{View: view, UpTo: than}}, 101))(b.t)[0]
}

func TestViewItems(t *testing.T) {
	each(t, func(b *bundle) {
		equal(b.t, b.addItem(news, "a", at(10)), true)
		equal(b.t, b.addItem(news, "b", at(20)), true)
		equal(b.t, b.addItem(services.View{Code: "news", ID: "city"}, "c", at(30)), true)
		equal(b.t, []int{b.countNewer(news, at(9)), b.countNewer(news, at(10)), b.countNewer(news, at(20))}, []int{2, 1, 0})
		equal(b.t, b.addItem(news, "a", at(10)), false) // repeated
		equal(b.t, b.addItem(news, "a", at(5)), false)  // and late
		equal(b.t, b.addItem(news, "a", at(40)), true)
		equal(b.t, b.countNewer(news, at(20)), 1)
		b.removeItem(news, "a")
		b.removeItem(news, "a")
		equal(b.t, b.countNewer(news, at(9)), 1)
		equal(b.t, b.addItem(news, "a", at(40)), false) // a late report does not bring it back
		equal(b.t, b.countNewer(news, at(9)), 1)
		equal(b.t, b.addItem(news, "a", at(41)), true)
		when, stands, err := b.ViewItem(b.ctx, news, "a")
		equal(b.t, must(when, err)(b.t), at(41))
		equal(b.t, stands, true)
		_, stands, err = b.ViewItem(b.ctx, news, "z")
		equal(b.t, must(stands, err)(b.t), false)
		coded(b.t, b.Write(b.ctx, func(tx *store.Tx) error { return tx.RemoveViewItem(b.ctx, news, "z") }), services.NotFound)
	})
}

func TestTouchView(t *testing.T) {
	each(t, func(b *bundle) {
		equal(b.t, b.touch(1, news, at(50)), services.ViewAccess{View: news, UpTo: at(50), LastAccessAt: b.clock.Now()})
		b.clock.advance(time.Second)
		equal(b.t, b.touch(1, news, at(20)), services.ViewAccess{View: news, UpTo: at(50), LastAccessAt: b.clock.Now()}) // never back
		equal(b.t, b.touch(2, news, at(20)).UpTo, at(20))
		b.addItem(news, "the newest", at(30))
		equal(b.t, b.touch(2, news, time.Time{}).UpTo, at(30)) // all there is, whatever the time
		ahead := b.clock.Now().Add(time.Second)
		touch := func(tx *store.Tx) error { _, err := tx.TouchView(b.ctx, 2, news, ahead, tx.Now); return err }
		coded(b.t, b.Write(b.ctx, touch), services.Invalid)
		b.write(func(tx *store.Tx) error { _, err := tx.TouchView(b.ctx, 4, news, ahead, ahead); return err })
		b.addItem(news, "of a clock that is ahead", ahead)
		equal(b.t, b.touch(2, news, ahead).UpTo, ahead)
		equal(b.t, b.touch(3, news, time.Time{}).UpTo, ahead)
	})
}

func TestViews(t *testing.T) {
	each(t, func(b *bundle) {
		b.write(func(tx *store.Tx) error { _, err := tx.RaisePosition(b.ctx, 1, store.HomePage, "", 7); return err })
		var all []services.View
		for _, code := range []string{"news", "topic"} {
			for i := range 5 {
				view := services.View{Code: code, ID: fmt.Sprint("id", i)}
				b.touch(1, view, at(i))
				b.touch(2, view, at(100))
				all = append(all, view)
			}
		}
		var got []services.View
		after := services.View{}
		for {
			page := must(b.Views(b.ctx, 1, []string{"topic", "news", "other"}, after, 3))(b.t)
			if len(page) == 0 {
				break
			}
			for _, access := range page {
				got = append(got, access.View)
				after = access.View
			}
		}
		equal(b.t, got, all)
		page := must(b.Views(b.ctx, 1, []string{"topic"}, services.View{}, 10))(b.t)
		equal(b.t, len(page), 5)
		equal(b.t, page[2].UpTo, at(2))
	})
}

func TestNewestViewItems(t *testing.T) {
	each(t, func(b *bundle) {
		few, none := services.View{Code: "topic", ID: "few"}, services.View{Code: "topic", ID: "none"}
		for i := range 6 {
			b.addItem(news, fmt.Sprint(i), at(i/2)) // pairs of one moment
		}
		b.addItem(few, "x", at(1))
		b.addItem(news, "gone", at(90))
		b.removeItem(news, "gone")
		newest := must(b.NewestViewItems(b.ctx, []services.View{few, none, news}, 3))(b.t)
		equal(b.t, newest[0], store.NewestViewItems{Items: []services.ViewItem{{Item: "x", At: at(1)}}})
		equal(b.t, newest[1], store.NewestViewItems{})
		var names []string
		for _, item := range newest[2].Items {
			names = append(names, item.Item)
		}
		slices.Sort(names)
		equal(b.t, strings.Join(names, " "), "2 3 4 5") // the third shares its moment with another
		equal(b.t, newest[2].More, true)
		equal(b.t, newest[2].Floor, at(0))
		counts := must(b.CountViewItems(b.ctx, []services.ViewAccess{{View: news, UpTo: at(0)}, {View: none}, {View: news}}, 5))(b.t)
		equal(b.t, counts, []int{4, 0, 5})
	})
}

// Whatever is reported in whatever order, an item stands at its latest time unless it was removed after that.
func TestViewItemsAreWhatWasReported(t *testing.T) {
	histories.Fewer(t, 3)
	sqltest.EachURL(t, func(t *testing.T, url string) {
		b, run := newBundle(t, url), 0
		rapid.Check(t, func(rt *rapid.T) {
			run++
			view := services.View{Code: "run", ID: fmt.Sprint(run)}
			latest, gone := map[string]int{}, map[string]bool{}
			rt.Repeat(map[string]func(*rapid.T){
				"add": func(rt *rapid.T) {
					item, when := fmt.Sprint(rapid.IntRange(0, 3).Draw(rt, "item")), rapid.IntRange(1, 20).Draw(rt, "at")
					had, known := latest[item]
					equal(rt, b.addItem(view, item, at(when)), !known || when > had)
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
					equal(rt, b.countNewer(view, at(than)), want)
				},
			})
		})
	})
}
