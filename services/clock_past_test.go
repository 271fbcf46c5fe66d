package services

import (
	"testing"
	"time"
)

// IDs of a past millisecond rise in the order of the calls, whatever was made in between. If it is full, they continue in the
// next.
func TestIDsOfThePastRiseWithinTheirMillisecond(t *testing.T) {
	ids := NewIDClock(SystemClock{}, 7)
	begin := time.UnixMilli(1_700_000_000_000)
	const perMillisecond = PostsAMillisecond >> idNodeBits
	seen := map[PostID]bool{}
	var last PostID
	for i := range perMillisecond + 3 {
		id := ids.NextAt(begin.Add(time.Duration(i) * time.Nanosecond))
		if id <= last || seen[id] || id&(1<<idNodeBits-1) != 7 {
			t.Fatalf("ID %d is %d after %d", i, id, last)
		}
		if want := begin.Add(time.Duration(i/perMillisecond) * time.Millisecond); !id.Time().Equal(want) {
			t.Fatalf("ID %d is of %s, want %s", i, id.Time(), want)
		}
		seen[id], last = true, id
		ids.NextAt(begin.Add(-time.Hour)) // of another millisecond, which changes nothing here
	}
	if id := ids.NextAt(begin.Add(time.Millisecond)); id <= last {
		t.Errorf("the next millisecond begins at %d, after it was used up to %d", id, last)
	}
	for i := range 2 * maxPastIDs { // more than are remembered
		ids.NextAt(begin.Add(time.Duration(i) * time.Second))
	}
	if kept := len(ids.past.recent) + len(ids.past.older); kept > 2*maxPastIDs {
		t.Errorf("%d milliseconds are kept", kept)
	}
}

// After returns an ID that is greater than the IDs of a table, and keeps the node's bits.
func TestAnIDAfterATakenOne(t *testing.T) {
	const first = PostID(5) << idLowBits
	for _, c := range []struct{ id, taken, want PostID }{
		{first | 7, 0, first | 7},
		{first | 7, first | 7, first + 1<<idNodeBits | 7},
		{first | 7, first | 9, first + 1<<idNodeBits | 7},
		{first | 7, first + 3<<idNodeBits | 2, first + 4<<idNodeBits | 7},
	} {
		if got := c.id.After(c.taken); got != c.want || got <= c.taken {
			t.Errorf("%d after %d is %d, want %d", c.id, c.taken, got, c.want)
		}
	}
	if from, next := (first + 5).OfMillisecond(); from != first || next != first+PostsAMillisecond {
		t.Errorf("the millisecond is %d to %d", from, next)
	}
}
