package services

import (
	"maps"
	"strings"
	"testing"
	"time"
)

// A setting is parsed as documented, or refused with the reason.
func TestSourceExpiryIsParsed(t *testing.T) {
	got, reason := ParseSourceExpiry([]string{"CONVERSATIONS=7", "HOME_FEED=never"})
	if want := (SourceExpiry{SourceConversations: 7, SourceHomeFeed: NeverExpires}); reason != "" || !maps.Equal(got, want) {
		t.Errorf("%v, %q, want %v", got, reason, want)
	}
	for item, want := range map[string]string{
		"SONG=2": `"SONG=2" is not a source`, "CONVERSATIONS=8": "1 to 7 or never", "CONVERSATIONS=0": "1 to 7 or never", "CONVERSATIONS": "1 to 7 or never",
		"NOTIFICATIONS=2": "--notification-expiry", "VIEWS=2": "VIEWS do not expire", "HOME_FEED=1,HOME_FEED=2": "HOME_FEED is named twice",
	} {
		if _, reason := ParseSourceExpiry(strings.Split(item, ",")); !strings.Contains(reason, want) {
			t.Errorf("%s: %q, want %q", item, reason, want)
		}
	}
}

// An item counts on its own day and on as many whole days after it as its source allows. The checks by ID, by time, by day and
// by position agree.
func TestAnItemLeavesAtTheBeginningOfADay(t *testing.T) {
	expiry := SourceExpiry{SourceHomeFeed: 2, SourceAnnouncements: 2}
	sent := time.Date(2026, 1, 31, 23, 59, 59, 0, time.UTC)
	for days, counts := range []bool{true, true, true, false, false} {
		today := DayOf(sent) + int64(days)
		if byMark := SortableIDAt(sent) > expiry.ExpiredUpTo(SourceHomeFeed, today); byMark != counts {
			t.Errorf("after %d days its id counts: %t", days, byMark)
		}
		if byTime := !sent.Before(expiry.CountedSince(SourceHomeFeed, today)); byTime != counts {
			t.Errorf("after %d days its time counts: %t", days, byTime)
		}
		if byDay := today < expiry.ExpiryDay(SourceHomeFeed, DayOf(sent)); byDay != counts {
			t.Errorf("after %d days its day counts: %t", days, byDay)
		}
		if byPosition := uint64(sent.UnixMicro()) > expiry.SkipExpiredAnnouncements(AnnouncementState{}, today).Position; byPosition != counts {
			t.Errorf("after %d days its position counts: %t", days, byPosition)
		}
		if expiry.ExpiredUpTo(SourceLiveBoard, today) != 0 || expiry.ExpiryDay(SourceLiveBoard, DayOf(sent)) != 0 {
			t.Error("what never expires does")
		}
	}
}

// Counts by day do not depend on the order of items. Items older than the days that are counted separately still count.
func TestDayCounts(t *testing.T) {
	var counts DayCounts
	for _, day := range []int64{100, 103, 90, 103, 96, 102} {
		counts.Add(day, 1)
	}
	if want := (DayCounts{OlderCount: 1, NewestDay: 103, CountByDay: [8]int{2, 1, 0, 1, 0, 0, 0, 1}}); counts != want {
		t.Errorf("%+v, want %+v", counts, want)
	}
	if got := counts.CountSince(101); got != 3 {
		t.Errorf("%d from day 101, want 3", got)
	}
}
