package stream

import (
	"testing"
	"time"

	"tidings/services"
	"tidings/services/sql"
)

// dueNow makes all users due.
var dueNow = sql.AdHoc("all users are due", `UPDATE stream_due SET due_at = $1`)

// liked is a state with so many likes and comments.
func liked(likes, comments int) State {
	parts := []Part{
		{Source: services.SourceNotifications, Name: "LIKE", Value: likes, InTotal: true},
		{Source: services.SourceNotifications, Name: "COMMENT", Value: comments, InTotal: true},
	}
	return State{Total: Part{Value: likes + comments}, Parts: parts}
}

// Whether a change is silent depends on what its reader has: an alert that the reader missed is not lost to a later fall, and
// one that was taken back does not sound late.
func TestSilent(t *testing.T) {
	at := time.Unix(1000, 0)
	news := func(id string, second int) map[services.Source]Cause {
		return map[services.Source]Cause{services.SourceNotifications: {Source: services.SourceNotifications, ID: id, At: at.Add(time.Duration(second) * time.Second)}}
	}
	one := liked(1, 0).follows(State{}, 10, news("a", 1))
	two := liked(2, 0).follows(one, 20, news("b", 2))
	less := liked(1, 0).follows(two, 30, nil)
	none := liked(0, 0).follows(less, 40, nil)
	unread := liked(1, 0).follows(none, 50, nil)
	for name, c := range map[string]struct {
		state  State
		seq    uint64
		after  uint64
		silent bool
		cause  string
	}{
		"a first item":                          {one, 10, 0, false, "a"},
		"the same, known":                       {one, 10, 10, true, ""},
		"a second":                              {two, 20, 10, false, "b"},
		"a fall after both":                     {less, 30, 20, true, ""},
		"a fall, and the second was not heard":  {less, 30, 10, false, "b"},
		"all seen before anything was heard of": {none, 40, 0, true, ""},
		"marked unread":                         {unread, 50, 40, true, ""},
	} {
		change := Change{Seq: c.seq, State: c.state}
		if change.Silent(c.after) != c.silent {
			t.Errorf("%s: silent %v: %+v", name, !c.silent, c.state)
		}
		if c.cause != "" && (c.state.Cause == nil || c.state.Cause.ID != c.cause) {
			t.Errorf("%s: the cause is %+v", name, c.state.Cause)
		}
	}
	quiet := one
	quiet.Quiet = true
	if !(Change{Seq: 10, State: quiet}).Silent(0) {
		t.Error("a quiet hour is not silent")
	}
}

// The parts that changed carry the version, the others keep theirs; equal states have equal faces.
func TestFollows(t *testing.T) {
	first := liked(1, 2).follows(State{}, 10, nil)
	second := liked(1, 3).follows(first, 20, nil)
	if first.Parts[0].Changed != 10 || second.Parts[0].Changed != 10 || second.Parts[1].Changed != 20 || second.Total.Changed != 20 {
		t.Errorf("%+v, then %+v", first, second)
	}
	same := liked(1, 3).follows(second, 30, nil)
	if same.face() != second.face() || first.face() == second.face() {
		t.Error("faces do not tell states apart")
	}
	lit := liked(1, 3)
	lit.Dots = []string{"shop"}
	if after := lit.follows(second, 40, nil); after.DotsAt != 40 || after.face() == second.face() || lit.empty() {
		t.Errorf("a dot: %+v", after)
	}
	moved := liked(1, 3)
	moved.Newest = 7
	if risen := moved.risen(second); len(risen) != 1 || moved.face() == second.face() {
		t.Errorf("one item replaced by another: %v", risen)
	}
}

// A category that is removed is told as an empty part, by the version that removed it; one that comes back counts again.
func TestARemovedPartIsTold(t *testing.T) {
	first := liked(1, 2).follows(State{}, 10, nil)
	fewer := liked(1, 0)
	fewer.Parts = fewer.Parts[:1]
	removed := fewer.follows(first, 20, nil)
	part := removed.of(services.SourceNotifications, "COMMENT")
	if !removed.counts(services.SourceNotifications, "COMMENT") || part.Value != 0 || part.Changed != 20 || part.Display != none.Display || !part.InTotal {
		t.Errorf("the removed part is %+v", part)
	}
	if removed.face() != fewer.face() {
		t.Error("a removed part changes what is shown")
	}
	later := fewer.follows(removed, 30, nil)
	if part := later.of(services.SourceNotifications, "COMMENT"); part.Changed != 20 || len(later.Parts) != 2 {
		t.Errorf("a later change has %+v", later.Parts)
	}
	back := liked(1, 3)
	if again := back.follows(later, 40, nil); len(again.Parts) != 2 || again.Parts[1].Value != 3 || again.Parts[1].Changed != 40 || len(back.risen(later)) != 1 {
		t.Errorf("a part that came back: %+v", again.Parts)
	}
}

func TestVersionText(t *testing.T) {
	if got, err := parseVersion(VersionText(1_700_000_000_000_000)); err != nil || got != 1_700_000_000_000_000 {
		t.Errorf("%d, %v", got, err)
	}
	for _, text := range []string{"", "1", "12345678901234567", "abcdefghijklmnop", "-000000000000001"} {
		if _, err := parseVersion(text); services.CodeOf(err) != services.Invalid {
			t.Errorf("%q: %v", text, err)
		}
	}
}

// What is older than the moment from which on posts count again alerts nobody, if it is a post or a show.
func TestHorizon(t *testing.T) {
	began, later := time.Unix(1000, 0), time.Unix(2000, 0)
	for _, c := range []struct {
		of     horizon
		source services.Source
		want   time.Time
	}{
		{horizon{began, time.Time{}}, services.SourceHomeFeed, began}, {horizon{later, began}, services.SourceHomeFeed, later},
		{horizon{began, later}, services.SourceHomeFeed, later}, {horizon{began, later}, services.SourceLiveBoard, later},
		{horizon{began, later}, services.SourceNotifications, began}, {horizon{began, later}, services.SourceConversations, began},
	} {
		if got := c.of.of(c.source); !got.Equal(c.want) {
			t.Errorf("%s after %+v: %v, want %v", c.source, c.of, got, c.want)
		}
	}
}
