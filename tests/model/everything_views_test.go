package model

import (
	"fmt"
	"slices"
	"time"

	"pgregory.net/rapid"

	"tidings/tests/world"
)

// viewsModel is the model of the views of a world: the items that the host application reported, and each person's seen positions.
type viewsModel struct {
	items map[string]map[string]*viewItem // view -> item
	seen  map[string]map[string]time.Time // person -> view -> seen up to this time; absent: never touched
}

// viewItem is an item of a view.
type viewItem struct {
	at      time.Time
	removed bool
}

// worldViews are the keys of the views of each world.
var worldViews = []string{"town", "music"}

// viewInput returns the input of a view. Its key contains a person of this world, because worlds share a database.
func (e *everything) viewInput(key string) string {
	return fmt.Sprintf(`code:"news",key:"%s-%s"`, e.People[0], key)
}

func (e *everything) startViews() {
	e.views = viewsModel{items: map[string]map[string]*viewItem{}, seen: map[string]map[string]time.Time{}}
	for _, key := range worldViews {
		e.views.items[key] = map[string]*viewItem{}
	}
	for _, person := range e.People {
		e.views.seen[person] = map[string]time.Time{}
	}
}

// reportItem reports an item, or reports an item again with another time. An item moves to a later time only.
func (e *everything) reportItem(t *rapid.T) {
	key, item := rapid.SampledFrom(worldViews).Draw(t, "view"), fmt.Sprint(rapid.IntRange(0, 3).Draw(t, "item"))
	at := e.N.Clock.Now().Add(-time.Duration(rapid.IntRange(0, 9).Draw(t, "ago")) * time.Second).Truncate(time.Second)
	e.sendAsHost(fmt.Sprintf(`mutation{addViewItem(input:{%s,item:%q,at:%q}){changed}}`, e.viewInput(key), item, at.UTC().Format(time.RFC3339)), nil)
	if had := e.views.items[key][item]; had == nil || at.After(had.at) {
		e.views.items[key][item] = &viewItem{at: at}
	}
	e.N.Settle()
}

func (e *everything) removeItem(t *rapid.T) {
	key, item := rapid.SampledFrom(worldViews).Draw(t, "view"), fmt.Sprint(rapid.IntRange(0, 3).Draw(t, "item"))
	if e.views.items[key][item] == nil {
		return
	}
	e.sendAsHost(fmt.Sprintf(`mutation{removeViewItem(input:{%s,item:%q}){changed}}`, e.viewInput(key), item), nil)
	e.views.items[key][item].removed = true
	e.N.Settle()
}

// touch marks a view as seen up to its newest item, or up to an earlier time as a late device does. The answer has the new
// badges.
func (e *everything) touch(t *rapid.T) {
	person, key := e.DrawPerson(t, "person"), rapid.SampledFrom(worldViews).Draw(t, "view")
	var upTo time.Time
	for _, one := range e.views.items[key] {
		if !one.removed && one.at.After(upTo) {
			upTo = one.at
		}
	}
	input := e.viewInput(key)
	if rapid.Bool().Draw(t, "late") {
		upTo = e.N.Clock.Now().Add(-time.Duration(rapid.IntRange(0, 9).Draw(t, "ago")) * time.Second).Truncate(time.Second)
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
	e.N.Must(person, `mutation{touchView(input:{`+input+`}){badges{views{value}} viewer{badges{views{value}}}}}`, nil, &data)
	if seen, touched := e.views.seen[person][key]; !touched || upTo.After(seen) {
		e.views.seen[person][key] = upTo
	}
	if want := e.unseenItems(person); data.TouchView.Badges.Views.Value != want || data.TouchView.Viewer.Badges.Views.Value != want {
		t.Fatalf("%s touched %s and is answered %+v, want %d", person, key, data, want)
	}
}

// compareViews compares the count of a person's views with the model, and returns the badges.
func (e *everything) compareViews(t *rapid.T, person string) (got world.Badges) {
	want := e.unseenItems(person)
	// On a busy machine Redis may miss its deadline. Then a count is right but STALE for a moment.
	world.Eventually(e.N.TB, world.ConvergenceTimeout, person+"'s count of views is exact", func() bool {
		got = e.ReadBadges(t, person)
		if got.Views.Value != want || got.Views.Precision != "EXACT" && got.Views.Precision != "STALE" {
			t.Fatalf("%s: views %+v, want %d", person, got.Views, want)
		}
		return got.Views.Precision == "EXACT"
	})
	return got
}

// unseenItems returns the number of items of touched views that are newer than the person's positions.
func (e *everything) unseenItems(person string) (count int) {
	for key, seen := range e.views.seen[person] {
		for _, one := range e.views.items[key] {
			if !one.removed && one.at.After(seen) {
				count++
			}
		}
	}
	return count
}

// sourcesOutByDefault are not in the total of a person who chose nothing.
var sourcesOutByDefault = []string{"VIEWS"}

// isOut reports whether a source is not in a person's total.
func (e *everything) isOut(person, source string) bool {
	if out, chosen := e.outOfTotal[person][source]; chosen {
		return out
	}
	return slices.Contains(sourcesOutByDefault, source)
}
