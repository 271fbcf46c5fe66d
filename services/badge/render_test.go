package badge

import (
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tidings/services"
	"tidings/services/badge/source"
	"tidings/services/rdb"
)

// noon is the time at which most of these tests render badges.
var noon = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

// daysSinceEpoch is the number of days since 1970.
func daysSinceEpoch(t time.Time) int64 { return t.Unix() / 86400 }

// documentWithUnseenLikes is a document with unseen groups of likes: counts[i] of them are of the day that is i days before
// written, and older of days before that week.
func documentWithUnseenLikes(written time.Time, older int, counts ...int) rdb.Document {
	document := rdb.Document{Ready: true, Version: 5, FeedCount: 2}
	like := services.CategoryCounts{Category: services.CategoryLike, Version: 3, Newest: 77, OlderUnseen: older, NewestDay: daysSinceEpoch(written)}
	copy(like.CountByDay[:], counts)
	document.Notifications = []services.CategoryCounts{like}
	return document
}

// render renders a document at a moment, without engines.
func render(document rdb.Document, now time.Time) *services.Badges {
	v := newTestRendering(source.Settings{}, document, momentOf(now))
	return v.render()
}

// An unseen notification counts on its own day and on seven whole days after it, exact to the microsecond.
func TestNotificationsExpireAfterSevenWholeDays(t *testing.T) {
	midnight := noon.Truncate(day)
	document := documentWithUnseenLikes(noon, 4, 1)
	for _, moment := range []struct {
		at    time.Time
		value int
	}{
		{noon, 1},
		{midnight.Add(day - time.Microsecond), 1},
		{midnight.Add(8*day - time.Microsecond), 1},
		{midnight.Add(8 * day), 0},
		{midnight.Add(400 * day), 0},
	} {
		badges := render(document, moment.at)
		if got := badges.Notifications.Like.Value; got != moment.value {
			t.Errorf("at %s it counts %d, want %d", moment.at, got, moment.value)
		}
		if badges.Total.Value != 2+moment.value || badges.Notifications.Newest != 77 {
			t.Errorf("at %s: %+v", moment.at, badges)
		}
	}
}

func TestNotificationsExpireDayByDay(t *testing.T) {
	document := documentWithUnseenLikes(noon, 100, 1, 2, 4, 8, 16, 32, 64, 128)
	want := []int{255, 127, 63, 31, 15, 7, 3, 1, 0, 0}
	for passed, value := range want {
		now := noon.Add(time.Duration(passed) * day)
		badges := render(document, now)
		if got := badges.Notifications.Like.Value; got != value {
			t.Errorf("after %d days %d count, want %d", passed, got, value)
		}
		nextAt := now.Truncate(day).Add(day)
		if value == 0 {
			nextAt = time.Time{}
		}
		if !badges.NextAt.Equal(nextAt) {
			t.Errorf("after %d days time changes it at %v, want %v", passed, badges.NextAt, nextAt)
		}
	}
}

// The version's shared half contains the last midnight: a change by time alone is newer, without a write.
func TestTheVersionRisesWithTheDay(t *testing.T) {
	document := documentWithUnseenLikes(noon, 0, 1)
	morning, evening := render(document, noon.Truncate(day)), render(document, noon.Truncate(day).Add(day-1))
	if morning.Version != evening.Version || !reflect.DeepEqual(morning, evening) {
		t.Errorf("within a day %+v became %+v", morning, evening)
	}
	if next := render(document, noon.Truncate(day).Add(day)); next.Version <= evening.Version {
		t.Errorf("the next day's version %s is not after %s", next.Version, evening.Version)
	}
	document.Version++
	if written := render(document, noon); written.Version <= morning.Version {
		t.Errorf("the version after a write %s is not after %s", written.Version, morning.Version)
	}
}

func TestAFeedBeyondItsLimitIsAtLeast(t *testing.T) {
	badges := render(rdb.Document{Ready: true, FeedCount: services.FeedRetention, FeedCountAtLeast: true}, noon)
	for what, count := range map[string]services.Count{"feed": badges.HomeFeed, "total": badges.Total} {
		if count.Value != services.FeedRetention || count.Precision != services.AtLeast || count.Display != "99+" {
			t.Errorf("%s: %+v", what, count)
		}
	}
	if badges.Notifications.Total.Precision != services.Exact || !badges.NextAt.IsZero() {
		t.Errorf("got %+v", badges)
	}
}

// UNKNOWN badges have an older version than any that a client can hold.
func TestUnknownBadgesNeverReplaceKnownOnes(t *testing.T) {
	badges := unknownBadges(testSources)
	if badges.Version >= render(rdb.Document{Ready: true, Version: 1}, time.Unix(0, 0).UTC()).Version {
		t.Errorf("the version %s would replace what a client holds", badges.Version)
	}
	for _, count := range []services.Count{badges.Total, badges.HomeFeed, badges.Notifications.Total, badges.Notifications.Like} {
		if count.Precision != services.Unknown || count.Value != 0 {
			t.Errorf("got %+v", count)
		}
	}
}

// For any document at any moment the total is the sum of its parts and no count is negative. At a later moment no count is
// higher and the version is not older.
func TestRenderingInvariants(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		counts := rapid.SliceOfN(rapid.IntRange(0, 200), 8, 8).Draw(t, "days")
		document := documentWithUnseenLikes(noon, rapid.IntRange(0, 9).Draw(t, "older"), counts...)
		document.FeedCount, document.FeedCountAtLeast = rapid.IntRange(0, 300).Draw(t, "feed"), rapid.Bool().Draw(t, "more")
		now := noon.Add(time.Duration(rapid.IntRange(0, 12*24*60).Draw(t, "minutes")) * time.Minute)
		badges := render(document, now)
		if badges.Total.Value != document.FeedCount+badges.Notifications.Like.Value || badges.Notifications.Like.Value < 0 {
			t.Fatalf("%+v", badges)
		}
		if document.FeedCountAtLeast != (badges.Total.Precision == services.AtLeast) {
			t.Fatalf("the total is %s", badges.Total.Precision)
		}
		later := render(document, now.Add(time.Duration(rapid.IntRange(0, 3*24*60).Draw(t, "wait"))*time.Minute))
		if later.Total.Value > badges.Total.Value || later.Version < badges.Version {
			t.Fatalf("%+v became %+v by time alone", badges, later)
		}
		if later.Version == badges.Version && !reflect.DeepEqual(later, badges) {
			t.Fatalf("one version, two contents: %+v and %+v", badges, later)
		}
		if !badges.NextAt.IsZero() && !badges.NextAt.After(now) {
			t.Fatalf("at %s the next change is said to be at %s", now, badges.NextAt)
		}
	})
}
