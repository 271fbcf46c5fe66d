package model

import (
	"fmt"
	"slices"
	"time"

	"pgregory.net/rapid"
)

// listings are the views of a world: the items that the host application reported, and each person's seen positions.
type listings struct {
	items map[string]map[string]*listed   // view -> item
	seen  map[string]map[string]time.Time // person -> view -> seen up to this time; absent: never touched
}

// listed is an item of a view.
type listed struct {
	at      time.Time
	removed bool
}

// worldViews are the keys of the views of each world.
var worldViews = []string{"town", "music"}

// view returns the input of a view. Its key contains a person of this world, because worlds share a database.
func (e *everything) view(key string) string {
	return fmt.Sprintf(`code:"news",key:"%s-%s"`, e.People[0], key)
}

func (e *everything) startListings() {
	e.lists = listings{items: map[string]map[string]*listed{}, seen: map[string]map[string]time.Time{}}
	for _, key := range worldViews {
		e.lists.items[key] = map[string]*listed{}
	}
	for _, person := range e.People {
		e.lists.seen[person] = map[string]time.Time{}
	}
}

// list reports an item, or reports an item again with another time. An item moves to a later time only.
func (e *everything) list(t *rapid.T) {
	key, item := rapid.SampledFrom(worldViews).Draw(t, "view"), fmt.Sprint(rapid.IntRange(0, 3).Draw(t, "item"))
	at := e.N.Clock.Now().Add(-time.Duration(rapid.IntRange(0, 9).Draw(t, "ago")) * time.Second).Truncate(time.Second)
	e.host(fmt.Sprintf(`mutation{addViewItem(input:{%s,item:%q,at:%q}){changed}}`, e.view(key), item, at.UTC().Format(time.RFC3339)), nil)
	if had := e.lists.items[key][item]; had == nil || at.After(had.at) {
		e.lists.items[key][item] = &listed{at: at}
	}
	e.N.Settle()
}

func (e *everything) unlist(t *rapid.T) {
	key, item := rapid.SampledFrom(worldViews).Draw(t, "view"), fmt.Sprint(rapid.IntRange(0, 3).Draw(t, "item"))
	if e.lists.items[key][item] == nil {
		return
	}
	e.host(fmt.Sprintf(`mutation{removeViewItem(input:{%s,item:%q}){changed}}`, e.view(key), item), nil)
	e.lists.items[key][item].removed = true
	e.N.Settle()
}

// touch marks a view as seen up to its newest item, or up to an earlier time as a late device does. The answer has the new
// badges.
func (e *everything) touch(t *rapid.T) {
	person, key := e.Person(t, "person"), rapid.SampledFrom(worldViews).Draw(t, "view")
	var upTo time.Time
	for _, one := range e.lists.items[key] {
		if !one.removed && one.at.After(upTo) {
			upTo = one.at
		}
	}
	input := e.view(key)
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
	if seen, touched := e.lists.seen[person][key]; !touched || upTo.After(seen) {
		e.lists.seen[person][key] = upTo
	}
	if want := e.unseenItems(person); data.TouchView.Badges.Views.Value != want || data.TouchView.Viewer.Badges.Views.Value != want {
		t.Fatalf("%s touched %s and is answered %+v, want %d", person, key, data, want)
	}
}

// unseenItems returns the number of items of touched views that are newer than the person's positions.
func (e *everything) unseenItems(person string) (count int) {
	for key, seen := range e.lists.seen[person] {
		for _, one := range e.lists.items[key] {
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
