package stream

import (
	"testing"
	"time"

	"tidings/services"
	"tidings/services/people/peopletest"
	"tidings/services/sql/sqltest"
)

// An item that alerts with a total that lacks it alerts again once the total has it: a device that takes only alerts would keep the
// lower total. It does so once. If no item is new but the ones that the total lacks, nothing alerts before they are counted.
func TestAnItemAlertsAgainOnceItIsCounted(t *testing.T) {
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
			item   string // the ID of the newest
			ahead  bool   // there are more than unread of them
			alert  string // "" for none
		}{
			{1, "a", false, "a"},
			{2, "c", true, "c"}, {3, "c", false, "c"}, {4, "c", false, ""}, // b is counted first, then c, then another one is marked unread
			{5, "e", true, "e"}, {6, "e", true, ""}, {7, "e", false, "e"}, // three come at once
			{4, "f", true, ""}, {5, "f", false, "f"}, // four are read, and f is not counted yet
			{6, "h", true, "h"}, {7, "i", false, "i"}, {6, "h", false, ""}, // the newest is read
		} {
			w.setLikes(ann[0], c.unread, c.item, now.Add(time.Duration(c.item[0])*time.Millisecond))
			w.siteMessageVersions[ann[0]], w.newestIsAhead[ann[0]] = uint64(i+1), c.ahead
			sqltest.Equal(t, s.Mark(b.Ctx, ann), nil)
			w.runUntilIdle(s)
			changes := sqltest.Must(s.ChangesAfter(b.Ctx, last, 10))(t)
			if len(changes) != 1 {
				t.Fatalf("step %d: %d changes", i, len(changes))
			}
			alert, got := changes[0].State.NewestAlert(last), ""
			if alert != nil {
				got = alert.ID
			}
			if got != c.alert {
				t.Errorf("step %d: the alert is %q, want %q", i, got, c.alert)
			}
			last = changes[0].Seq
		}
	})
}

// An alert covers older items and itself, and another item of the same time never. One with a total that lacked items does not cover
// itself, unless the total still lacks some.
func TestAnAlertCoversWhatItHasReported(t *testing.T) {
	at := time.Unix(5, 0)
	item := func(id string, after time.Duration, ahead bool) AlertItem {
		return AlertItem{Source: services.SourceConversations, ID: id, At: at.Add(after), Ahead: ahead}
	}
	for name, c := range map[string]struct {
		reported, item AlertItem
		covered        bool
	}{
		"a newer item":                  {item("a", 0, false), item("a", 1, false), false},
		"an older item":                 {item("a", 0, false), item("b", -1, true), true},
		"an older item, and some lack":  {item("a", 0, true), item("b", -1, false), true},
		"another one of the time":       {item("a", 0, false), item("b", 0, true), false},
		"itself":                        {item("a", 0, false), item("a", 0, false), true},
		"itself, and another one lacks": {item("a", 0, false), item("a", 0, true), true},
		"itself, once it is counted":    {item("a", 0, true), item("a", 0, false), false},
		"itself, and some still lack":   {item("a", 0, true), item("a", 0, true), true},
	} {
		if covered := c.reported.covers(c.item); covered != c.covered {
			t.Errorf("%s: %v", name, covered)
		}
	}
}
