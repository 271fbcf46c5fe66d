package model

import (
	"fmt"
	"slices"

	"pgregory.net/rapid"

	"tidings/tests/world"
)

// categoriesModel is the part of allSourcesModel for the host application's own categories of notifications, and for the users'
// preferences of all categories.
type categoriesModel struct {
	unseenCounts map[string]map[string]int    // person -> category of the host -> notifications not seen
	definedModes map[string]string            // category of the host -> COUNT, DOT, or OUT for a number outside the total
	chosenModes  map[string]map[string]string // person -> category -> COUNT, DOT, OFF; absent: the category's definition applies
}

// hostCategoryNames are the host application's categories in every model.
var hostCategoryNames = []string{"promo", "orders"} // rapid draws the first names more often

// initCategories defines the host application's categories on the node and in the model.
func (e *allSourcesModel) initCategories() {
	e.categories = categoriesModel{unseenCounts: map[string]map[string]int{}, definedModes: map[string]string{}, chosenModes: map[string]map[string]string{}}
	e.defineCategory("orders", "COUNT")
	e.defineCategory("promo", "OUT")
	for _, person := range e.People {
		e.categories.unseenCounts[person], e.categories.chosenModes[person] = map[string]int{}, map[string]string{}
	}
	e.CategoryTurnedOff = func(person, category string) bool { return e.modeOf(person, category) == "OFF" }
}

// defineCategory defines a category of the host application, or redefines it; mode is as in definedModes.
func (e *allSourcesModel) defineCategory(name, mode string) {
	settings := map[string]string{"COUNT": "style:NUMBER", "DOT": "style:DOT", "OUT": "style:NUMBER,inTotal:false"}[mode]
	e.Node.MustAsk("boss:admin", fmt.Sprintf(`mutation{defineCategory(input:{name:%q,expiryDays:null,%s}){category{name}}}`, name, settings), nil, nil)
	e.Node.SettleJobsAndCaches()
	e.categories.definedModes[name] = mode
}

// redefineCategory redefines a category of the host application, which changes it for everybody without a preference for it.
func (e *allSourcesModel) redefineCategory(t *rapid.T) {
	e.defineCategory(rapid.SampledFrom(hostCategoryNames).Draw(t, "category"), rapid.SampledFrom([]string{"COUNT", "DOT", "OUT"}).Draw(t, "definition"))
}

// notify notifies some people in a category of the host application.
func (e *allSourcesModel) notify(t *rapid.T) {
	name := rapid.SampledFrom(hostCategoryNames).Draw(t, "category")
	var to []string
	for _, person := range e.People {
		if rapid.Bool().Draw(t, "to "+person) {
			to = append(to, "user:"+person)
			e.categories.unseenCounts[person][name]++
		}
	}
	if len(to) > 0 {
		e.Node.MustAsk("host:ingest", `mutation($i:NotifyInput!){notify(input:$i){recipients}}`,
			map[string]any{"i": map[string]any{"category": name, "to": to, "title": "news"}}, nil)
		e.JobsPending = true
	}
}

// markCategorySeen marks a person's notifications in a category of the host application as seen.
func (e *allSourcesModel) markCategorySeen(t *rapid.T) {
	person, name := e.DrawPerson(t, "person"), rapid.SampledFrom(hostCategoryNames).Draw(t, "category")
	e.Node.SettleJobsAndCaches()
	e.JobsPending = false
	e.Node.MustAsk(person, fmt.Sprintf(`mutation{markNotificationsSeen(input:{hostCategories:[%q]}){badges{version}}}`, name), nil, nil)
	e.categories.unseenCounts[person][name] = 0
}

// modeOf returns how a category counts for a person: COUNT, DOT, OFF, or OUT (a number outside the total).
func (e *allSourcesModel) modeOf(person, category string) string {
	defined, host := e.categories.definedModes[category]
	if !host {
		defined = "COUNT"
	}
	switch chosen := e.categories.chosenModes[person][category]; {
	case chosen == "", chosen == "COUNT" && defined == "OUT":
		return defined
	default:
		return chosen
	}
}

// changeCategoryPreference changes how a category counts for one person. The answer and the next read have the change, and every other
// count stays.
func (e *allSourcesModel) changeCategoryPreference(t *rapid.T) {
	person, category := e.DrawPerson(t, "person"), rapid.SampledFrom(append(slices.Clone(hostCategoryNames), "LIKE", "FOLLOW", "COMMENT")).Draw(t, "category")
	mode := rapid.SampledFrom([]string{"COUNT", "DOT", "OFF", "null"}).Draw(t, "mode")
	before := e.ReadBadges(t, person)
	had := e.categories.chosenModes[person][category]
	e.categories.chosenModes[person][category] = map[bool]string{true: "", false: mode}[mode == "null"]
	var data struct {
		SetCategoryPreference struct {
			Changed    bool
			Preference struct{ Category, Mode string }
			Badges     world.Badges
		}
	}
	e.Node.MustAsk(person, fmt.Sprintf(`mutation{setCategoryPreference(input:{category:%q,mode:%s}){changed preference{category mode} badges{%s}}}`,
		category, mode, world.BadgeFields), nil, &data)
	done, shown := data.SetCategoryPreference, e.modeOf(person, category)
	if done.Changed != (had != e.categories.chosenModes[person][category]) {
		t.Fatalf("%s: from %q to %s: changed is %v", person, had, mode, done.Changed)
	}
	if want := map[bool]string{true: "COUNT", false: shown}[shown == "OUT"]; done.Preference.Mode != want || done.Preference.Category != category {
		t.Fatalf("%s: to %s: the preference is %+v, want %s", person, mode, done.Preference, want)
	}
	for _, after := range []world.Badges{done.Badges, e.ReadBadges(t, person)} {
		e.checkCategoryModes(t, person, after)
		for i, count := range after.Notifications.Categories {
			if was := before.Notifications.Categories[i].Count; count.Name != category && !e.JobsPending && was != count.Count {
				t.Fatalf("%s: %s to %s changes %s from %+v to %+v", person, category, mode, count.Name, was, count.Count)
			}
		}
	}
}

// checkCategoryModes checks a person's count of each category. It must be in the total if modeOf returns COUNT and the person has left
// the notifications in the total, and out of it otherwise. If modeOf returns OFF, the count must be 0.
func (e *allSourcesModel) checkCategoryModes(t *rapid.T, person string, got world.Badges) {
	for _, category := range got.Notifications.Categories {
		mode := e.modeOf(person, category.Name)
		if want := mode == "COUNT" && !e.isOutOfTotal(person, "NOTIFICATIONS"); category.Count.InTotal != want {
			t.Fatalf("%s: %s as %s: %+v, in the total should be %v", person, category.Name, mode, category.Count, want)
		}
		if mode == "OFF" && category.Count.Value != 0 {
			t.Fatalf("%s: %s is off: %+v", person, category.Name, category.Count)
		}
	}
}

// compareCategories compares a person's counts of the host application's categories, and the lists of their notifications, with the
// model.
func (e *allSourcesModel) compareCategories(t *rapid.T, person string, got world.Badges) {
	e.checkCategoryModes(t, person, got)
	for _, name := range hostCategoryNames {
		want := e.categories.unseenCounts[person][name]
		at := slices.IndexFunc(got.Notifications.Categories, func(c struct {
			Name  string
			Count world.Count
		}) bool {
			return c.Name == name
		})
		if at < 0 {
			t.Fatalf("%s: no count of %s in %+v", person, name, got.Notifications)
		}
		var page struct {
			Viewer struct {
				All, Unseen struct{ Nodes []struct{ Seen bool } }
			}
		}
		e.Node.MustAsk(person, fmt.Sprintf(`{viewer{all:notifications(hostCategories:[%[1]q]){nodes{seen}} unseen:notifications(hostCategories:[%[1]q],unseenOnly:true){nodes{seen}}}}`, name), nil, &page)
		unseen := 0
		for _, one := range page.Viewer.All.Nodes {
			if !one.Seen {
				unseen++
			}
		}
		if unseen != want {
			t.Fatalf("%s: the list has %d unseen of %s, want %d", person, unseen, name, want)
		}
		if e.CategoryTurnedOff(person, name) {
			want = 0
		}
		if count := got.Notifications.Categories[at].Count; count.Value != want || len(page.Viewer.Unseen.Nodes) != want {
			t.Fatalf("%s: %s as %s: %+v, and %d are listed, want %d", person, name, e.modeOf(person, name), count, len(page.Viewer.Unseen.Nodes), want)
		}
	}
}
