package stream

import (
	"slices"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/people"
	"tidings/services/sql"
)

// makeAllUsersDue makes all marked users due at a time, $1.
var makeAllUsersDue = sql.AdHoc("all users are due", `UPDATE stream_due SET due_at = $1`)

// likedState is a state with these numbers of likes and comments.
func likedState(likes, comments int) State {
	parts := []Part{
		{Source: services.SourceNotifications, Name: "LIKE", Value: likes, InTotal: true},
		{Source: services.SourceNotifications, Name: "COMMENT", Value: comments, InTotal: true},
	}
	return State{Total: Part{Value: likes + comments}, Parts: parts}
}

// Whether a change is silent depends on what its reader has: an alert that the reader missed is not lost to a later fall, and an
// alert that was taken back does not come late.
func TestAChangeIsSilentUnlessItsReaderMissedAnAlert(t *testing.T) {
	at := time.Unix(1000, 0)
	like := func(id string, second int) AlertItem {
		return AlertItem{Source: services.SourceNotifications, Part: "LIKE", ID: id, At: at.Add(time.Duration(second) * time.Second)}
	}
	news := func(id string, second int) explainingItems {
		return explainingItems{newItems: []AlertItem{like(id, second)}}
	}
	left := func(id string, second int) explainingItems {
		return explainingItems{newestOfFallenParts: map[string]AlertItem{"NOTIFICATIONS:LIKE": like(id, second)}}
	}
	one := likedState(1, 0).withVersions(State{}, 10, news("a", 1))
	two := likedState(2, 0).withVersions(one, 20, news("b", 2))
	less := likedState(1, 0).withVersions(two, 30, left("b", 2))
	seen := likedState(1, 0).withVersions(two, 30, left("a", 1))
	off := likedState(1, 0).withVersions(two, 30, explainingItems{})
	none := likedState(0, 0).withVersions(less, 40, explainingItems{})
	unread := likedState(1, 0).withVersions(none, 50, explainingItems{})
	silent := likedState(3, 0).withVersions(State{}, 10, explainingItems{})
	beside := likedState(3, 1).withVersions(silent, 20, explainingItems{newItems: []AlertItem{{Source: services.SourceNotifications, Part: "COMMENT", ID: "c", At: at}}})
	apart := likedState(0, 1).withVersions(beside, 30, explainingItems{})
	gone := likedState(3, 0).withVersions(beside, 30, explainingItems{})
	dot := likedState(2, 0)
	dot.Parts[0].InTotal = false
	dot = dot.withVersions(two, 30, explainingItems{})
	for name, c := range map[string]struct {
		state  State
		seq    uint64
		after  uint64 // the reader has every change up to this version
		silent bool
		cause  string // the ID of the newest alert; "": not checked
	}{
		"a first item":                              {one, 10, 0, false, "a"},
		"the same, known":                           {one, 10, 10, true, ""},
		"a second":                                  {two, 20, 10, false, "b"},
		"a fall after both":                         {less, 30, 20, true, ""},
		"a fall, and the second was not heard":      {less, 30, 10, false, "b"},
		"the second was read":                       {seen, 30, 10, true, ""},
		"the second was read, unheard as the first": {seen, 30, 0, false, "a"},
		"what is left does not alert any more":      {off, 30, 0, true, ""},
		"silent ones were read, beside an alert":    {apart, 30, 10, false, "c"},
		"the alert was read, beside silent ones":    {gone, 30, 10, true, ""},
		"a category that became a dot":              {dot, 30, 0, true, ""},
		"all seen before anything was heard of":     {none, 40, 0, true, ""},
		"marked unread":                             {unread, 50, 40, true, ""},
	} {
		change := Change{Seq: c.seq, State: c.state}
		if change.Silent(c.after) != c.silent {
			t.Errorf("%s: silent %v: %+v", name, !c.silent, c.state)
		}
		if newest := c.state.NewestAlert(c.after); c.cause != "" && (newest == nil || newest.ID != c.cause) {
			t.Errorf("%s: the cause is %+v", name, newest)
		}
	}
	quiet := one
	quiet.Quiet = true
	if !(Change{Seq: 10, State: quiet}).Silent(0) {
		t.Error("a quiet hour is not silent")
	}
}

// Parts that changed get the new version, and other parts keep theirs. Equal states have equal hashes.
func TestChangedPartsGetTheNewVersion(t *testing.T) {
	first := likedState(1, 2).withVersions(State{}, 10, explainingItems{})
	second := likedState(1, 3).withVersions(first, 20, explainingItems{})
	if first.Parts[0].ChangedVersion != 10 || second.Parts[0].ChangedVersion != 10 || second.Parts[1].ChangedVersion != 20 || second.Total.ChangedVersion != 20 {
		t.Errorf("%+v, then %+v", first, second)
	}
	same := likedState(1, 3).withVersions(second, 30, explainingItems{})
	if same.shownHash() != second.shownHash() || first.shownHash() == second.shownHash() {
		t.Error("hashes do not tell states apart")
	}
	lit := likedState(1, 3)
	lit.Dots = []string{"shop"}
	if after := lit.withVersions(second, 40, explainingItems{}); after.DotsVersion != 40 || after.shownHash() == second.shownHash() || lit.empty() {
		t.Errorf("a dot: %+v", after)
	}
	only := likedState(1, 0).withVersions(State{}, 10, explainingItems{})
	if like, comment := only.Parts[0], only.Parts[1]; like.ChangedVersion != 10 || comment.ChangedVersion != 0 || only.Total.ChangedVersion != 10 {
		t.Errorf("the first like: %+v", only)
	}
	quiet := likedState(1, 0)
	quiet.Quiet, quiet.Parts[0].Display, quiet.Parts[1].Display = true, "none", "none"
	if quiet = quiet.withVersions(only, 20, explainingItems{}); quiet.Parts[0].ChangedVersion != 20 || quiet.Parts[1].ChangedVersion != 0 || quiet.QuietVersion != 20 {
		t.Errorf("the likes are not displayed any more: %+v", quiet)
	}
	dark := State{Total: Part{Display: "0"}, Dots: []string{"shop"}}.withVersions(State{}, 10, explainingItems{})
	if dark.Total.ChangedVersion != 0 || dark.DotsVersion != 10 {
		t.Errorf("a dot first: %+v", dark)
	}
	moved := likedState(1, 3)
	moved.NewestNotificationPosition = 7
	if risen := moved.risenParts(second); len(risen) != 2 || moved.shownHash() == second.shownHash() {
		t.Errorf("one item replaced by another: %v", risen)
	}
}

// The part of a removed category stays in the state with the count 0 and the version of the removal. If the category comes back,
// the part has its count again, with a new version.
func TestARemovedPartIsReported(t *testing.T) {
	first := likedState(1, 2).withVersions(State{}, 10, explainingItems{})
	fewer := likedState(1, 0)
	fewer.Parts = fewer.Parts[:1]
	removed := fewer.withVersions(first, 20, explainingItems{})
	part := removed.part(services.SourceNotifications, "COMMENT")
	if !removed.hasPart(services.SourceNotifications, "COMMENT") || part.Value != 0 || part.ChangedVersion != 20 || part.Display != noCount.Display || !part.InTotal {
		t.Errorf("the removed part is %+v", part)
	}
	if removed.shownHash() != fewer.shownHash() {
		t.Error("a removed part changes what is shown")
	}
	later := fewer.withVersions(removed, 30, explainingItems{})
	if part := later.part(services.SourceNotifications, "COMMENT"); part.ChangedVersion != 20 || len(later.Parts) != 2 {
		t.Errorf("a later change has %+v", later.Parts)
	}
	back := likedState(1, 3)
	if again := back.withVersions(later, 40, explainingItems{}); len(again.Parts) != 2 || again.Parts[1].Value != 3 || again.Parts[1].ChangedVersion != 40 || len(back.risenParts(later)) != 1 {
		t.Errorf("a part that came back: %+v", again.Parts)
	}
}

// Each part has the newest item of its own: an item of another part does not hide it, and the order of equal times is always the
// same.
func TestEachPartHasItsNewestItem(t *testing.T) {
	at := time.Unix(1000, 0)
	item := func(part, id string, second int) AlertItem {
		return AlertItem{Source: services.SourceNotifications, Part: part, ID: id, At: at.Add(time.Duration(second) * time.Second)}
	}
	any := func(services.Source, string) bool { return true }
	only := func(name string) func(services.Source, string) bool {
		return func(_ services.Source, part string) bool { return part == name }
	}
	first := likedState(1, 1).withVersions(State{}, 10, explainingItems{newItems: []AlertItem{item("LIKE", "l1", 1), item("COMMENT", "c1", 1)}})
	second := likedState(2, 1).withVersions(first, 20, explainingItems{newItems: []AlertItem{item("LIKE", "l2", 2)}})
	read := likedState(2, 0).withVersions(second, 30, explainingItems{})
	for name, c := range map[string]struct {
		state  State
		chosen func(services.Source, string) bool
		after  uint64 // only alerts of later versions are wanted
		want   string // the ID of the newest alert; "" for none
	}{
		"any of the same time":              {first, any, 0, "c1"},
		"a like of the same time":           {first, only("LIKE"), 0, "l1"},
		"a comment below a later like":      {second, only("COMMENT"), 0, "c1"},
		"any, with a later like":            {second, any, 0, "l2"},
		"a comment that was heard":          {second, only("COMMENT"), 10, ""},
		"a like that was not":               {second, only("LIKE"), 10, "l2"},
		"a comment that was read since":     {read, only("COMMENT"), 0, ""},
		"a like after the comment was read": {read, any, 0, "l2"},
		"nothing at all":                    {State{}, any, 0, ""},
	} {
		got := ""
		if newest := c.state.NewestAlertOf(c.chosen, c.after); newest != nil {
			got = newest.ID
		}
		if got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
	if first.NewestAlertVersion() != 10 || second.NewestAlertVersion() != 20 || read.NewestAlertVersion() != 20 || (State{}).NewestAlertVersion() != 0 {
		t.Errorf("the loudest are %d, %d and %d", first.NewestAlertVersion(), second.NewestAlertVersion(), read.NewestAlertVersion())
	}
}

// The reported item of a part is found by the part, or by the source in a state that an earlier version wrote.
func TestNewestReported(t *testing.T) {
	whole := AlertItem{Source: services.SourceConversations, ID: "conversation:1", At: time.Unix(5, 0)}
	like := AlertItem{Source: services.SourceNotifications, Part: "LIKE", ID: "l", At: time.Unix(7, 0)}
	comment := AlertItem{Source: services.SourceNotifications, Part: "COMMENT", ID: "c", At: time.Unix(8, 0)}
	state := State{NewestReported: map[string]AlertItem{"CONVERSATIONS": whole, "NOTIFICATIONS": like, "NOTIFICATIONS:COMMENT": comment}}
	for _, c := range []struct {
		source services.Source
		part   string
		want   string // the ID of the item; "" for none
	}{
		{services.SourceConversations, "", "conversation:1"}, {services.SourceConversations, services.MentionsPart, ""},
		{services.SourceNotifications, "COMMENT", "c"}, {services.SourceNotifications, "LIKE", "l"}, {services.SourceNotifications, "promo", "l"},
		{services.SourceHomeFeed, "", ""},
	} {
		got, some := state.newestReported(c.source, c.part)
		if !some {
			got.ID = ""
		}
		if got.ID != c.want {
			t.Errorf("%s %s: %q, want %q", c.source, c.part, got.ID, c.want)
		}
	}
}

// Only parts in the total can rise. Mentions are in the total if the messages are.
func TestOnlyPartsInTheTotalRise(t *testing.T) {
	talk := func(unread, mentions int, inTotal bool) State {
		return State{Parts: []Part{
			{Source: services.SourceConversations, Value: unread, InTotal: inTotal},
			{Source: services.SourceConversations, Name: services.MentionsPart, Value: mentions},
			{Source: services.SourceNotifications, Name: "promo", Value: unread},
		}}
	}
	for name, c := range map[string]struct {
		now, before State
		want        []string
	}{
		"a message":              {talk(2, 1, true), talk(1, 1, true), []string{"CONVERSATIONS"}},
		"a mention":              {talk(2, 2, true), talk(1, 1, true), []string{"CONVERSATIONS", "CONVERSATIONS:MENTIONS"}},
		"not in the total":       {talk(2, 2, false), talk(1, 1, false), nil},
		"a mention, others read": {talk(1, 1, true), talk(4, 0, true), []string{"CONVERSATIONS:MENTIONS"}},
		"everything read":        {talk(0, 0, true), talk(4, 2, true), nil},
	} {
		var got []string
		for _, part := range c.now.risenParts(c.before) {
			got = append(got, services.PartName(part.Source, part.Name))
		}
		if !slices.Equal(got, c.want) {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}

// Versions sort as texts.
func TestVersionText(t *testing.T) {
	last := ""
	for _, seq := range []uint64{0, 9, 10, 1_700_000_000_000_000, 9_999_999_999_999_999} {
		text := VersionText(seq)
		if len(text) != 16 || text <= last {
			t.Errorf("%d is %q, after %q", seq, text, last)
		}
		last = text
	}
}

// The start is when the stream began, or when items of the source began to count again, if that is later.
func TestAlertStart(t *testing.T) {
	began, later, last := time.Unix(1000, 0), time.Unix(2000, 0), time.Unix(3000, 0)
	all := alertStart{began, people.AlertStarts{PostsAndShows: later, Messages: last}}
	for _, c := range []struct {
		of     alertStart
		source services.Source
		want   time.Time
	}{
		{alertStart{streamBegan: began}, services.SourceHomeFeed, began}, {alertStart{later, people.AlertStarts{PostsAndShows: began}}, services.SourceHomeFeed, later},
		{all, services.SourceHomeFeed, later}, {all, services.SourceLiveBoard, later}, {all, services.SourceConversations, last},
		{all, services.SourceNotifications, began}, {alertStart{last, people.AlertStarts{Messages: began}}, services.SourceConversations, last},
	} {
		if got := c.of.forSource(c.source); !got.Equal(c.want) {
			t.Errorf("%s after %+v: %v, want %v", c.source, c.of, got, c.want)
		}
	}
}
