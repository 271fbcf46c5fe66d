package services

import (
	"testing"
	"time"
)

// IDs of a past millisecond rise in the order of the calls, whatever was made in between. A full millisecond continues in the next.
func TestIDsOfThePastRiseWithinTheirMillisecond(t *testing.T) {
	ids := NewIDClock(SystemClock{}, 7)
	begin := time.UnixMilli(1_700_000_000_000)
	const perMillisecond = pastEventBit >> idNodeBits
	seen := map[SortableID]bool{}
	var last SortableID
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
	if kept := len(ids.past.recentLastByMillisecond) + len(ids.past.olderLastByMillisecond); kept > 2*maxPastIDs {
		t.Errorf("%d milliseconds are kept", kept)
	}
}

// An ID of the present and an ID of an event of the same millisecond differ, whichever is made first, however full the
// millisecond is, and whatever the node has seen. The event may be of the past, of now, or of the near future.
func TestIDsOfThePresentAndOfThePastDiffer(t *testing.T) {
	begin := time.UnixMilli(1_700_000_000_000)
	clock := &manualClock{now: begin}
	ids := NewIDClock(clock, 7)
	made := map[SortableID]string{}
	var last SortableID
	keep := func(kind string, id SortableID) SortableID {
		if before, known := made[id]; known {
			t.Fatalf("%s is of %s and of %s", id, before, kind)
		}
		if kind == "the present" {
			if id <= last {
				t.Fatalf("%s follows %s", id, last)
			}
			last = id
		}
		made[id] = kind
		return id
	}
	for step := range 50 {
		now := begin.Add(time.Duration(step) * time.Millisecond)
		clock.set(now)
		for range 30 {
			keep("the present", ids.Next())
			for _, away := range []time.Duration{0, -1, -20, 1, 20} {
				keep("an event", ids.NextAt(now.Add(away*time.Millisecond)))
			}
		}
		if step%10 == 9 { // a node observes the greatest ID of a table, which may be of an event
			seen := keep("an event", ids.NextAt(now.Add(time.Millisecond)))
			ids.Observe(seen)
			if id := keep("the present", ids.Next()); id <= seen {
				t.Fatalf("%s is not after %s, which was seen", id, seen)
			}
		}
	}
	for range SortableIDsPerMillisecond >> idNodeBits { // both continue in the next milliseconds
		keep("the present", ids.Next())
		keep("an event", ids.NextAt(begin.Add(time.Hour)))
	}
	clock.set(begin.Add(time.Hour))
	for range SortableIDsPerMillisecond >> idNodeBits {
		keep("the present", ids.Next())
	}
}

// RaiseAbove returns an ID that is greater than the IDs of a table, and keeps the node's bits.
func TestRaiseAboveReturnsAGreaterIDOfTheNode(t *testing.T) {
	const first = SortableID(5) << idLowBits
	for _, c := range []struct{ id, taken, want SortableID }{
		{first | 7, 0, first | 7},
		{first | 7, first | 7, first + 1<<idNodeBits | 7},
		{first | 7, first | 9, first + 1<<idNodeBits | 7},
		{first | 7, first + 3<<idNodeBits | 2, first + 4<<idNodeBits | 7},
		// The IDs of events are in the second half of their millisecond.
		{first | pastEventBit | 7, first + 3<<idNodeBits | 2, first | pastEventBit | 7},
		{first | pastEventBit | 7, first | pastEventBit | 2<<idNodeBits | 2, first | pastEventBit | 3<<idNodeBits | 7},
		{first | pastEventBit | 7, first | (SortableIDsPerMillisecond - 1), first + SortableIDsPerMillisecond | pastEventBit | 7},
	} {
		if got := c.id.RaiseAbove(c.taken); got != c.want || got <= c.taken {
			t.Errorf("%d after %d is %d, want %d", c.id, c.taken, got, c.want)
		}
	}
	if from, next := (first + 5).MillisecondBounds(); from != first || next != first+SortableIDsPerMillisecond {
		t.Errorf("the millisecond is %d to %d", from, next)
	}
}
