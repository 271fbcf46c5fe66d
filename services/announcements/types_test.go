package announcements

import (
	"strings"
	"testing"
	"time"

	"tidings/services"
)

func TestTargetsReachSegments(t *testing.T) {
	for _, c := range []struct {
		target, user Segments
		want         bool
	}{{0, 0, true}, {0, 5, true}, {1, 0, false}, {1 << 63, 1<<63 | 1, true}, {6, 1, false}, {6, 4, true}} {
		if got := c.target.reaches(c.user); got != c.want {
			t.Errorf("%b reaches %b: %t", c.target, c.user, got)
		}
	}
}

func TestDotsAreLitForTheirTargets(t *testing.T) {
	dot := Dot{Name: "shop", Raises: []DotRaise{{Target: 2, Stamp: 9}, {Stamp: 5}}}
	for _, c := range []struct {
		segments Segments
		seen     uint64
		want     bool
	}{{0, 4, true}, {0, 5, false}, {2, 5, true}, {2, 8, true}, {2, 9, false}, {1, 8, false}, {3, 8, true}} {
		if got := dot.litFor(c.segments, c.seen); got != c.want {
			t.Errorf("with %b, seen up to %d: %t", c.segments, c.seen, got)
		}
	}
	if (Dot{Name: "new"}).litFor(0, 0) {
		t.Error("a dot that nobody raised is lit")
	}
}

func TestAnnouncementsEndAtTheirEndTime(t *testing.T) {
	end := time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)
	a := Announcement{EndsAt: end}
	if a.isOverAt(end.Add(-1)) || !a.isOverAt(end) || (Announcement{}).isOverAt(end) {
		t.Error("an announcement is over from its end on, and never without one")
	}
}

func TestNamesOfDotsAndSegments(t *testing.T) {
	for _, good := range []string{"a", "shop.sale_2-b", strings.Repeat("z", 64)} {
		if err := checkName("name", good); err != nil {
			t.Error(err)
		}
	}
	for _, bad := range []string{"", "Shop", "a b", "ä", "a/b", strings.Repeat("z", 65)} {
		if err := checkName("name", bad); services.CodeOf(err) != services.Invalid || !strings.HasPrefix(err.Error(), "name: ") {
			t.Errorf("%q: %v", bad, err)
		}
	}
}

func TestAnnouncementIDs(t *testing.T) {
	a := Announcement{ID: services.AnnouncementID(services.SortableIDAt(time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)))}
	if id, err := ParseID("upTo", a.GlobalID()); id != a.ID || err != nil {
		t.Errorf("%s is read as %s, %v", a.GlobalID(), id, err)
	}
	for _, bad := range []string{"", "announcement:", "post:" + a.ID.String(), "announcement:lower"} {
		if _, err := ParseID("upTo", bad); services.CodeOf(err) != services.Invalid {
			t.Errorf("%q: %v", bad, err)
		}
	}
}
