package model

import (
	"fmt"
	"slices"
	"time"

	"pgregory.net/rapid"

	"tidings/tests/world"
)

// viewsModel is the part of allSourcesModel for general views: the items that the host application reported, and up to which time each
// person has seen each view.
type viewsModel struct {
	items    map[string]map[string]*viewItem // view -> item
	seenUpTo map[string]map[string]time.Time // person -> view -> seen up to this time; absent: never touched
}

// viewItem is an item of a view in the model.
type viewItem struct {
	itemTime time.Time // the newest time that was reported for the item
	removed  bool
}

// viewKeys are the names of the views of each model. A view's key on the node is a person's key and such a name (see viewInput).
var viewKeys = []string{"town", "music"}

// viewInput returns the arguments of a mutation that name a view. The view's key contains the key of a person of this model, because the
// models of several histories share a database.
func (e *allSourcesModel) viewInput(key string) string {
	return fmt.Sprintf(`code:"news",key:"%s-%s"`, e.People[0], key)
}

// initViews makes the empty model of the views.
func (e *allSourcesModel) initViews() {
	e.views = viewsModel{items: map[string]map[string]*viewItem{}, seenUpTo: map[string]map[string]time.Time{}}
	for _, key := range viewKeys {
		e.views.items[key] = map[string]*viewItem{}
	}
	for _, person := range e.People {
		e.views.seenUpTo[person] = map[string]time.Time{}
	}
}

// reportViewItem reports an item of a view as the host application, or reports it again with another time. An item moves to a later time
// only.
func (e *allSourcesModel) reportViewItem(t *rapid.T) {
	key, item := rapid.SampledFrom(viewKeys).Draw(t, "view"), fmt.Sprint(rapid.IntRange(0, 3).Draw(t, "item"))
	at := e.Node.Clock.Now().Add(-time.Duration(rapid.IntRange(0, 9).Draw(t, "ago")) * time.Second).Truncate(time.Second)
	e.sendAsHost(fmt.Sprintf(`mutation{addViewItem(input:{%s,item:%q,at:%q}){changed}}`, e.viewInput(key), item, at.UTC().Format(time.RFC3339)), nil)
	if had := e.views.items[key][item]; had == nil || at.After(had.itemTime) {
		e.views.items[key][item] = &viewItem{itemTime: at}
	}
	e.Node.SettleJobsAndCaches()
}

// removeViewItem removes a random item of a view as the host application.
func (e *allSourcesModel) removeViewItem(t *rapid.T) {
	key, item := rapid.SampledFrom(viewKeys).Draw(t, "view"), fmt.Sprint(rapid.IntRange(0, 3).Draw(t, "item"))
	if e.views.items[key][item] == nil {
		return
	}
	e.sendAsHost(fmt.Sprintf(`mutation{removeViewItem(input:{%s,item:%q}){changed}}`, e.viewInput(key), item), nil)
	e.views.items[key][item].removed = true
	e.Node.SettleJobsAndCaches()
}

// touchView lets a person mark a view as seen up to its newest item, or up to a random time, as a client with an old list does. The
// answer must have the new badges.
func (e *allSourcesModel) touchView(t *rapid.T) {
	person, key := e.DrawPerson(t, "person"), rapid.SampledFrom(viewKeys).Draw(t, "view")
	var upTo time.Time
	for _, one := range e.views.items[key] {
		if !one.removed && one.itemTime.After(upTo) {
			upTo = one.itemTime
		}
	}
	input := e.viewInput(key)
	if rapid.Bool().Draw(t, "late") {
		upTo = e.Node.Clock.Now().Add(-time.Duration(rapid.IntRange(0, 9).Draw(t, "ago")) * time.Second).Truncate(time.Second)
		input += fmt.Sprintf(",upTo:%q", upTo.UTC().Format(time.RFC3339))
	}
	var data struct {
		TouchView struct {
			Badges struct{ Views struct{ Value int } }
			Viewer struct {
				Badges struct{ Views struct{ Value int } }
			}
		}
	}
	e.Node.MustAsk(person, `mutation{touchView(input:{`+input+`}){badges{views{value}} viewer{badges{views{value}}}}}`, nil, &data)
	if seen, touched := e.views.seenUpTo[person][key]; !touched || upTo.After(seen) {
		e.views.seenUpTo[person][key] = upTo
	}
	if want := e.unseenViewItems(person); data.TouchView.Badges.Views.Value != want || data.TouchView.Viewer.Badges.Views.Value != want {
		t.Fatalf("%s touched %s and is answered %+v, want %d", person, key, data, want)
	}
}

// compareViews compares the count of a person's views with the model, and returns the badges.
func (e *allSourcesModel) compareViews(t *rapid.T, person string) (got world.Badges) {
	want := e.unseenViewItems(person)
	// On a busy machine Redis may miss its deadline. Then a count is right but STALE for a moment.
	world.Eventually(e.Node.TB, world.RedisLossRecoveryTimeout, person+"'s count of views is exact", func() bool {
		got = e.ReadBadges(t, person)
		if got.Views.Value != want || got.Views.Precision != "EXACT" && got.Views.Precision != "STALE" {
			t.Fatalf("%s: views %+v, want %d", person, got.Views, want)
		}
		return got.Views.Precision == "EXACT"
	})
	return got
}

// unseenViewItems returns the number that the model expects for a person: the items of the views that they have touched which are newer
// than seenUpTo.
func (e *allSourcesModel) unseenViewItems(person string) (count int) {
	for key, seen := range e.views.seenUpTo[person] {
		for _, one := range e.views.items[key] {
			if !one.removed && one.itemTime.After(seen) {
				count++
			}
		}
	}
	return count
}

// sourcesOutOfTotalByDefault are the sources that do not count in a person's total unless their display policy says so.
var sourcesOutOfTotalByDefault = []string{"VIEWS"}

// isOutOfTotal reports whether a source is not in a person's total.
func (e *allSourcesModel) isOutOfTotal(person, source string) bool {
	if out, chosen := e.sourcesOutOfTotal[person][source]; chosen {
		return out
	}
	return slices.Contains(sourcesOutOfTotalByDefault, source)
}
