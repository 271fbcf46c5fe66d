package services

import (
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// manualClock is a clock that a test sets.
type manualClock struct {
	mu  sync.Mutex // guards now
	now time.Time
}

func (c *manualClock) Now() time.Time { c.mu.Lock(); defer c.mu.Unlock(); return c.now }

func (c *manualClock) set(now time.Time) { c.mu.Lock(); defer c.mu.Unlock(); c.now = now }

func TestSortableIDTextSortsLikeTheNumber(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		id := rapid.Uint64Max(uint64(MaxSortableID))
		a, b := SortableID(id.Draw(t, "a")), SortableID(id.Draw(t, "b"))
		if back, err := ParseSortableID(a.String()); err != nil || back != a || len(a.String()) != SortableIDLetters {
			t.Fatalf("%d prints %s and reads back as %d, %v", a, a, back, err)
		}
		if (a < b) != (a.String() < b.String()) {
			t.Fatalf("%d and %d print %s and %s", a, b, a, b)
		}
	})
}

func TestParseSortableIDRefuses(t *testing.T) {
	for _, text := range []string{"", "0", "000000000000", "00000000000000", "I000000000000", "000000000000u", "8000000000000", "ZZZZZZZZZZZZZ", "0000000 00000"} {
		if id, err := ParseSortableID(text); CodeOf(err) != Invalid {
			t.Errorf("%q reads as %d, %v", text, id, err)
		}
	}
	if id, err := ParseSortableID("7ZZZZZZZZZZZZ"); err != nil || id != MaxSortableID {
		t.Errorf("the greatest id reads as %d, %v", id, err)
	}
}

func FuzzParseSortableID(f *testing.F) {
	f.Add("38FW962EY00P9")
	f.Add("\xff")
	f.Fuzz(func(t *testing.T, text string) {
		if id, err := ParseSortableID(text); err == nil && id.String() != text {
			t.Errorf("%q reads as %d, which prints %s", text, id, id)
		}
	})
}

func TestSortableIDTime(t *testing.T) {
	at := time.Date(2026, 2, 3, 4, 5, 6, 789_000_000, time.UTC)
	clock := &manualClock{now: at}
	id := NewIDClock(clock, 5).Next()
	if !id.Time().Equal(at) || id < SortableIDAt(at) || id >= SortableIDAt(at.Add(time.Millisecond)) {
		t.Errorf("%s made %s, of %s", at, id, id.Time())
	}
	if SortableIDAt(time.Unix(-1, 0)) != 0 {
		t.Error("before 1970 there is an id")
	}
}

func TestIDsRiseWhenTheClockStandsStillOrFallsBack(t *testing.T) {
	start := time.UnixMilli(1_800_000_000_000)
	clock := &manualClock{now: start}
	ids := NewIDClock(clock, 1023)
	last := SortableID(0)
	for i := range 10_000 { // more than the 1,024 of one millisecond
		if i == 5000 {
			clock.set(start.Add(-time.Hour))
		}
		id := ids.Next()
		if id <= last {
			t.Fatalf("%s after %s", id, last)
		}
		last = id
	}
}

func TestIDsOfTwoNodesDiffer(t *testing.T) {
	clock := &manualClock{now: time.UnixMilli(1_800_000_000_000)}
	a, b := NewIDClock(clock, 1), NewIDClock(clock, 2)
	known := map[SortableID]bool{}
	for range 5000 {
		for _, id := range []SortableID{a.Next(), b.Next()} {
			if known[id] {
				t.Fatalf("%s twice", id)
			}
			known[id] = true
		}
	}
}

func TestIDsAreUniqueUnderConcurrency(t *testing.T) {
	ids := NewIDClock(SystemClock{}, 7)
	made := make([][]SortableID, 8)
	var group sync.WaitGroup
	for i := range made {
		group.Go(func() {
			for range 2000 {
				made[i] = append(made[i], ids.Next())
			}
		})
	}
	group.Wait()
	known := map[SortableID]bool{}
	for _, list := range made {
		for _, id := range list {
			if known[id] {
				t.Fatalf("%s twice", id)
			}
			known[id] = true
		}
	}
}

// After an ID of another node was observed, new IDs are greater, unless that ID is more than a day ahead.
func TestIDsRiseAboveAnObservedID(t *testing.T) {
	now := time.UnixMilli(1_800_000_000_000)
	clock := &manualClock{now: now}
	ids := NewIDClock(clock, 1)
	ahead := NewIDClock(&manualClock{now: now.Add(time.Minute)}, 2).Next()
	ids.Observe(ahead)
	if id := ids.Next(); id <= ahead {
		t.Errorf("%s is not after the one seen, %s", id, ahead)
	}
	poison := SortableIDAt(now.Add(25 * time.Hour))
	ids.Observe(poison)
	if id := ids.Next(); id >= poison {
		t.Errorf("an id from more than a day ahead was followed: %s", id)
	}
}

// A node whose clock is off makes the IDs that the database's clock would give, and they still rise. Its time never falls behind
// an ID that it has made or seen.
func TestIDsUseTheClockOfTheDatabase(t *testing.T) {
	actual := time.UnixMilli(1_800_000_000_000)
	clock := &manualClock{now: actual.Add(time.Hour)}
	ids := NewIDClock(clock, 1)
	ids.SetAheadOfDatabase(time.Hour)
	if first := ids.Next(); !first.Time().Equal(actual.UTC()) || !ids.Now().Equal(actual.UTC()) {
		t.Errorf("an hour ahead of %s the id is of %s and the time %s", actual.UTC(), first.Time(), ids.Now())
	}
	ids.SetAheadOfDatabase(minClockDrift / 2) // less than a message's delay
	last := ids.Next()
	if !last.Time().Equal(clock.now.UTC()) {
		t.Errorf("as good as right at %s the id is of %s", clock.now.UTC(), last.Time())
	}
	clock.now = actual.Add(-time.Hour)
	if next := ids.Next(); next <= last || ids.Now().Before(last.Time()) {
		t.Errorf("after the clock was set back %s follows %s, and the time is %s", next, last, ids.Now())
	}
}

func TestGlobalIDs(t *testing.T) {
	longest := strings.Repeat("k", MaxKeyCharacters)
	for _, key := range []string{"a", "Alice.B_c-9", longest} {
		if got, err := ParseUserID("f", GlobalID(UserType, key)); err != nil || got != key {
			t.Errorf("%s reads as %q, %v", key, got, err)
		}
	}
	for _, id := range []string{"", "alice", "user:", "user:" + longest + "k", "user:a b", "user:ä", "user:a\n", "post:alice", "post:38FW962EY00P9", "foo:bar", ":"} {
		key, err := ParseUserID("userId", id)
		if CodeOf(err) != Invalid || !strings.Contains(err.Error(), "userId") {
			t.Errorf("%q reads as %q, %v", id, key, err)
		}
	}
	if id, err := ParsePostGlobalID("f", "post:38FW962EY00P9"); err != nil || id.String() != "38FW962EY00P9" {
		t.Errorf("a post reads as %s, %v", id, err)
	}
	for _, id := range []string{"38FW962EY00P9", "post:", "post:xyz", "user:38FW962EY00P9", "notification:38FW962EY00P9"} {
		if _, err := ParsePostGlobalID("postId", id); CodeOf(err) != Invalid || !strings.Contains(err.Error(), "postId") {
			t.Errorf("%q: %v", id, err)
		}
	}
	if id, err := ParseNotificationID("f", "notification:0000000000001"); err != nil || id != 1 {
		t.Errorf("a notification reads as %s, %v", id, err)
	}
	if _, _, err := SplitGlobalID("picture:1"); CodeOf(err) != Invalid {
		t.Errorf("an unknown type: %v", err)
	}
}

func TestQuoteShortensLongText(t *testing.T) {
	if got := Quote(strings.Repeat("ä", 100)); len(got) > 100 || !strings.HasSuffix(got, `..."`) || strings.Contains(got, "�") {
		t.Errorf("got %s", got)
	}
	if got := Quote("a\"b\n"); got != `"a\"b\n"` {
		t.Errorf("got %s", got)
	}
}

// The first positions of users with neighbouring IDs, at one moment, are far apart.
func TestFirstPositionsOfNeighbouringUsersDiffer(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	positions := map[NotificationID]UserID{}
	for user := UserID(1); user <= 1000; user++ {
		first := FirstNotificationPosition(now, user)
		if at := SortableID(first); at < SortableIDAt(now) || at >= SortableIDAt(now.Add(time.Millisecond)) {
			t.Fatalf("user %d starts at %s", user, first)
		}
		for next := range NotificationID(100) {
			if other, taken := positions[first+next]; taken {
				t.Fatalf("users %d and %d share the position %s", user, other, first+next)
			}
			positions[first+next] = user
		}
	}
}

func TestUserIDsAreFormattedForKeys(t *testing.T) {
	for _, text := range []string{"", "-1", "x", "4294967296"} {
		if _, err := ParseUserIDText(text); CodeOf(err) != Invalid {
			t.Errorf("%q: %v", text, err)
		}
	}
	if got, err := ParseUserIDText(UserIDText(12)); got != 12 || UserIDText(12) != "12" || err != nil {
		t.Errorf("got %d as %q, %v", got, UserIDText(12), err)
	}
}
