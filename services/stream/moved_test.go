package stream

import (
	"testing"
	"time"

	"tidings/services"
	"tidings/services/people/peopletest"
	"tidings/services/sql/sqltest"
)

// A part that did not rise moved if it fell, or if its facts changed below the same number. A part that shows nothing, or is not
// in the total, did not move.
func TestPartsThatFellOrChangedHaveMoved(t *testing.T) {
	letters := func(unread int, facts uint64, inTotal bool) State {
		return State{Parts: []Part{{Source: services.SourceSiteMessages, Name: "general", Value: unread, FactsVersion: facts, InTotal: inTotal}}}
	}
	for name, c := range map[string]struct {
		now, before State
		moved       bool
	}{
		"one was read":                        {letters(2, 8, true), letters(3, 7, true), true},
		"one was read, another one came":      {letters(3, 9, true), letters(3, 7, true), true},
		"nothing happened":                    {letters(3, 7, true), letters(3, 7, true), false},
		"it rose":                             {letters(4, 8, true), letters(3, 7, true), false},
		"all was read":                        {letters(0, 8, true), letters(3, 7, true), false},
		"not in the total":                    {letters(3, 9, false), letters(3, 7, false), false},
		"an earlier version wrote no facts":   {letters(3, 9, true), letters(3, 0, true), false},
		"one was read, and facts are unknown": {letters(2, 0, true), letters(3, 0, true), true},
	} {
		if moved := c.now.partsWithChangedItems(c.before); (len(moved) == 1) != c.moved {
			t.Errorf("%s: %v", name, moved)
		}
		if c.now.Parts[0].Value == c.before.Parts[0].Value && c.now.shownHash() != c.before.shownHash() {
			t.Errorf("%s: facts are shown", name)
		}
	}
}

// A user who read an item and got another one between two comparisons is alerted, whether the number fell or is the same. They are
// not alerted of an item that an earlier change has alerted them of. They are not alerted either if the newest item's time is uncertain
// (Item.AtIsUncertain): it may be of a part of the source that does not count.
func TestNewItemBetweenComparisonsAlerts(t *testing.T) {
	peopletest.EachTestDB(t, func(b *peopletest.TestDB) {
		t := b.T
		w := newTestWorld(b)
		ann := b.MakeUsers("ann")
		s := w.newService()
		w.runUntilIdle(s)
		now := time.Now()
		var last uint64
		for i, c := range []struct {
			unread int    // the number of site messages
			facts  uint64 // the version of their facts
			item   string // the ID of the newest
			loose  bool   // Item.AtIsUncertain of the newest
			alert  string // "" for none: then there is no change either if the number is the same
		}{
			{5, 10, "a", false, "a"}, {3, 20, "b", false, "b"}, {2, 30, "b", false, ""}, {2, 40, "c", false, "c"}, {2, 50, "c", false, ""}, {2, 40, "d", false, ""},
			{1, 60, "e", true, ""}, {1, 70, "f", true, ""}, {1, 80, "g", false, "g"},
		} {
			was := w.likes[ann[0]]
			w.setLikes(ann[0], c.unread, c.item, now.Add(time.Duration(c.item[0])*time.Millisecond))
			item := w.newestItem[ann[0]]
			item.AtIsUncertain = c.loose
			w.newestItem[ann[0]], w.siteMessageVersions[ann[0]] = item, c.facts
			sqltest.Equal(t, s.Mark(b.Ctx, ann), nil)
			w.runUntilIdle(s)
			changes := sqltest.Must(s.ChangesAfter(b.Ctx, last, 10))(t)
			if len(changes) == 0 {
				if c.alert != "" || was != c.unread {
					t.Errorf("step %d: there is no change", i)
				}
				continue
			}
			alert, got := changes[0].State.NewestAlert(last), ""
			if alert != nil {
				got = alert.ID
			}
			if got != c.alert || c.alert == "" && was == c.unread {
				t.Errorf("step %d: the alert is %q, want %q", i, got, c.alert)
			}
			last = changes[0].Seq
		}
	})
}
