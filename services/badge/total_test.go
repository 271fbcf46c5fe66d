package badge

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"tidings/services"
	"tidings/services/badge/source"
	"tidings/services/rdb"
)

// documentWithUnreadItems is a document with unread posts, likes, site messages and conversations.
func documentWithUnreadItems(feed, like, message, conversations int) rdb.Document {
	document := documentWithUnseenLikes(noon, 0, like)
	document.FeedCount = feed
	document.Messages = []services.MessageTypeState{{Type: "general", Unread: message}, {Type: "billing", Unread: 1}}
	document.Conversations = services.ConversationSums{Unread: conversations, Mentions: min(conversations, 1)}
	return document
}

func TestTheTotalHasWhatThePolicyLetsIn(t *testing.T) {
	document := documentWithUnreadItems(2, 3, 4, 5)
	if got := render(document, noon).Total; got.Value != 2+3+5+5 {
		t.Errorf("all of it: %+v", got)
	}
	document.Policy.InTotalInverted = map[services.Source]bool{services.SourceHomeFeed: true, services.SourceSiteMessages: true}
	badges := render(document, noon)
	if badges.Total.Value != 3+5 || badges.HomeFeed.Value != 2 || badges.SiteMessages.Total.Value != 5 {
		t.Errorf("without feed and messages: %+v", badges)
	}
	for what, want := range map[string]struct {
		count   services.Count
		inTotal bool
	}{
		"the feed": {badges.HomeFeed, false}, "the messages": {badges.SiteMessages.Total, false}, "a type": {badges.SiteMessages.Types[0].Count, false},
		"likes": {badges.Notifications.Like, true}, "notifications": {badges.Notifications.Total, true}, "conversations": {badges.Conversations.Total, true},
		"mentions, which are in the conversations already": {badges.Conversations.Mentions, false},
	} {
		if want.count.InTotal != want.inTotal {
			t.Errorf("%s: in the total %v", what, want.count.InTotal)
		}
	}
	document.FeedCountAtLeast = true
	if got := render(document, noon).Total.Precision; got != services.Exact {
		t.Errorf("a part that is out of it makes the total %s", got)
	}
}

// A second sum leaves the badges as they are: they are summed again when counts turn STALE or UNKNOWN after rendering.
func TestSummingTotalsTwiceChangesNothing(t *testing.T) {
	for _, key := range services.Sources {
		document := documentWithUnreadItems(2, 3, 4, 5)
		document.Policy.InTotalInverted = map[services.Source]bool{key: true}
		v := newTestRendering(source.Settings{}, document, momentOf(noon))
		badges := v.render()
		first := *badges
		v.writeTotals(badges)
		if diff := cmp.Diff(first, *badges); diff != "" {
			t.Errorf("with %s turned (- first, + second):\n%s", key, diff)
		}
	}
}

func TestNumbersAreShownUpToTheirCap(t *testing.T) {
	for value, want := range map[int]string{0: "0", 1: "1", 98: "98", 99: "99", 100: "99+", 300: "99+"} {
		badges := render(documentWithUnreadItems(value, 0, 0, 0), noon)
		if badges.HomeFeed.Display != want || badges.HomeFeed.Value != value {
			t.Errorf("%d is shown as %q", value, badges.HomeFeed.Display)
		}
	}
	v := newTestRendering(source.Settings{Caps: source.DisplayCaps{services.SourceHomeFeed: 150, source.CapTotal: 9, services.SourceNotifications: 3}}, documentWithUnreadItems(200, 3, 4, 5), momentOf(noon))
	badges := v.render()
	if badges.HomeFeed.Display != "150+" || badges.Total.Display != "9+" || badges.Notifications.Like.Display != "3" || badges.Conversations.Total.Display != "5" {
		t.Errorf("with caps of their own: %+v", badges)
	}
}

// More unread messages than are counted (services.MaxCountedSiteMessages) are AT_LEAST, shown with a "+" under any cap.
func TestMessagesBeyondTheirLimitAreAtLeast(t *testing.T) {
	const most = services.MaxCountedSiteMessages
	for _, limit := range []int{99, 9999} {
		for unread, precision := range map[int]services.Precision{most: services.Exact, most + 1: services.AtLeast} {
			document := documentWithUnreadItems(0, 0, unread, 0)
			document.Messages = document.Messages[:1]
			v := newTestRendering(source.Settings{Caps: source.DisplayCaps{services.SourceSiteMessages: limit, source.CapTotal: limit}}, document, momentOf(noon))
			badges := v.render()
			want := "99+"
			switch {
			case limit > most && precision == services.Exact:
				want = fmt.Sprint(most)
			case limit > most:
				want = fmt.Sprint(most, "+")
			}
			for what, count := range map[string]services.Count{"type": badges.SiteMessages.Types[0].Count, "source": badges.SiteMessages.Total, "total": badges.Total} {
				if count.Value != most || count.Precision != precision || count.Display != want {
					t.Errorf("%s of %d with the cap %d: %+v, want %s", what, unread, limit, count, want)
				}
			}
		}
	}
}

func TestADotReplacesTheNumber(t *testing.T) {
	document := documentWithUnreadItems(200, 0, 4, 5)
	document.Policy.AsDot = map[services.Source]bool{services.SourceHomeFeed: true, services.SourceNotifications: true}
	badges := render(document, noon)
	if badges.HomeFeed.Display != services.DisplayDot || badges.HomeFeed.Value != 200 || badges.Notifications.Like.Display != "" || badges.Notifications.Total.Display != "" {
		t.Errorf("%+v", badges)
	}
	if badges.Total.Display != "99+" || badges.SiteMessages.Total.Display != "5" {
		t.Errorf("the others: %+v", badges)
	}
}

func TestQuietHoursHideEveryCount(t *testing.T) {
	document := documentWithUnreadItems(2, 3, 4, 5)
	document.Policy.QuietFromMinute, document.Policy.QuietToMinute, document.Policy.UTCOffsetMinutes = 22*60, 7*60, 60
	at := func(hour, minute int) time.Time { return time.Date(2026, 1, 31, hour, minute, 0, 0, time.UTC) }
	last := ""
	for _, moment := range []struct {
		at    time.Time
		quiet bool
		next  time.Time // NextAt of the badges
	}{
		{at(5, 59), true, at(6, 0)},
		{at(6, 0), false, at(21, 0)},
		{at(12, 0), false, at(21, 0)},
		{at(20, 59), false, at(21, 0)},
		{at(21, 0), true, at(24, 0)}, // the notifications' day ends before the quiet hours
		{at(24, 0), true, at(30, 0)},
		{at(30, 0), false, at(45, 0)},
	} {
		badges := render(document, moment.at)
		if badges.Quiet != moment.quiet || (badges.Total.Display == "") != moment.quiet || (badges.HomeFeed.Display == "") != moment.quiet {
			t.Errorf("at %s: quiet %v, %+v", moment.at, badges.Quiet, badges.Total)
		}
		if badges.Total.Value != 15 {
			t.Errorf("at %s the number itself is %d", moment.at, badges.Total.Value)
		}
		if !badges.NextAt.Equal(moment.next) {
			t.Errorf("at %s time changes it at %s, want %s", moment.at, badges.NextAt, moment.next)
		}
		if badges.Version < last {
			t.Errorf("at %s the version falls from %s to %s", moment.at, last, badges.Version)
		}
		last = badges.Version
	}
}

// Under any policy at any moment the total is the sum of its parts. Time alone never renders one version in two ways, nor
// makes a version older.
func TestTotalsAndVersionsUnderEveryPolicy(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		document := documentWithUnreadItems(rapid.IntRange(0, 300).Draw(t, "feed"), rapid.IntRange(0, 20).Draw(t, "likes"), rapid.IntRange(0, 20).Draw(t, "messages"), rapid.IntRange(0, 20).Draw(t, "chat"))
		minute := rapid.IntRange(0, 24*60-1)
		document.Policy = services.DisplayPolicy{
			InTotalInverted: services.UnpackSources(rapid.Uint64Max(1<<len(services.Sources)-1).Draw(t, "out")), AsDot: services.UnpackSources(rapid.Uint64Max(1<<len(services.Sources)-1).Draw(t, "dots")),
			QuietFromMinute: minute.Draw(t, "from"), QuietToMinute: minute.Draw(t, "to"), UTCOffsetMinutes: rapid.IntRange(minUTCOffsetMinutes, maxUTCOffsetMinutes).Draw(t, "offset"),
		}
		mode := services.CategoryMode(rapid.IntRange(0, 2).Draw(t, "mode of likes"))
		if mode != services.CategoryCounted {
			document.Modes.ByCategory = map[services.Category]services.CategoryMode{services.CategoryLike: mode}
		}
		now := noon.Add(time.Duration(rapid.IntRange(0, 3*24*60).Draw(t, "minutes")) * time.Minute)
		badges := render(document, now)
		sum := 0
		for count := range testSources.counts(badges) {
			if count.InTotal {
				sum += count.Value
			}
		}
		likes := badges.Notifications.Like
		if mode != services.CategoryCounted && (likes.InTotal || badges.Notifications.Total.Value != 0) || mode == services.CategoryOff && likes.Value != 0 {
			t.Fatalf("as %d likes are %+v of %+v", mode, likes, badges.Notifications.Total)
		}
		if want := map[bool]string{true: "", false: services.DisplayDot}[badges.Quiet || likes.Value == 0]; mode == services.CategoryDot && likes.Display != want {
			t.Fatalf("as a dot %d likes are shown as %q", likes.Value, likes.Display)
		}
		if badges.Total.Value != sum {
			t.Fatalf("the total is %d, its parts make %d", badges.Total.Value, sum)
		}
		if !badges.NextAt.IsZero() && !badges.NextAt.After(now) {
			t.Fatalf("at %s the next change is said to be at %s", now, badges.NextAt)
		}
		later := now.Add(time.Duration(rapid.IntRange(1, 2*24*60).Draw(t, "wait")) * time.Minute)
		then := render(document, later)
		switch same := then.Quiet == badges.Quiet && then.Total == badges.Total; {
		case then.Version < badges.Version:
			t.Fatalf("the version fell from %s at %s to %s at %s", badges.Version, now, then.Version, later)
		case then.Version == badges.Version && !same:
			t.Fatalf("one version, two faces: %+v at %s and %+v at %s", badges.Total, now, then.Total, later)
		case !same && (badges.NextAt.IsZero() || badges.NextAt.After(later)):
			t.Fatalf("it changed between %s and %s, and the next change was said to be at %s", now, later, badges.NextAt)
		}
	})
}
