package announcements

import (
	"testing"
	"time"

	"tidings/services"
)

func TestUsersSeeAnnouncementsForThem(t *testing.T) {
	n := &SharedState{
		Announcements: []Announcement{listedAnnouncement(9, time.Hour), listedAnnouncement(7, 0), listedAnnouncement(5, time.Minute), listedAnnouncement(3, 0)},
		Dots:          []Dot{{Name: "a", Raises: []DotRaise{{Stamp: 5}}}, {Name: "b", Raises: []DotRaise{{Target: 2, Stamp: 7}}}},
	}
	n.Announcements[0].Segments, n.Announcements[2].Segments = 1, 2
	for _, c := range []struct {
		segments Segments
		position uint64
		count    int
		ends     time.Duration // from noon to the first end; 0: none ends
	}{{0, 0, 2, 0}, {1, 0, 3, time.Hour}, {3, 0, 4, time.Minute}, {3, 5, 2, time.Hour}, {2, 4, 2, time.Minute}, {3, 9, 0, 0}} {
		state := services.AnnouncementState{Version: 1, Position: c.position}
		count, ends := n.countUnread(state, c.segments)
		if count != c.count || !ends.Equal(listedAnnouncement(0, c.ends).EndsAt) {
			t.Errorf("%+v: %d unread until %s", c, count, ends)
		}
		listed := 0
		for _, a := range n.visible(c.segments, 100, 100) {
			if a.Position > c.position {
				listed++
			}
		}
		if listed != count || len(n.unread(state, c.segments)) != count {
			t.Errorf("%+v: %d are listed as unread, %d counted", c, listed, count)
		}
	}
	if count, _ := n.countUnread(services.AnnouncementState{}, 3); count != 0 {
		t.Errorf("without a position %d are unread", count)
	}
	if page := n.visible(3, 9, 2); len(page) != 2 || page[0].ID != 7 || page[1].ID != 5 {
		t.Errorf("a page after the first: %v", page)
	}
	if _, ok := n.findVisible(9, 0); ok {
		t.Error("an announcement for others is shown")
	}
	if a, ok := n.findVisible(9, 1); !ok || a.ID != 9 {
		t.Error("an announcement is not shown")
	}
	lit := func(state services.AnnouncementState, segments Segments, cleared map[string]uint64) (all [2]bool) {
		for i, dot := range n.dotsFor(state, segments, cleared) {
			all[i] = dot.Lit
		}
		return all
	}
	for _, c := range []struct {
		got, want [2]bool
	}{
		{lit(services.AnnouncementState{}, 2, nil), [2]bool{}},
		{lit(services.AnnouncementState{Version: 1}, 2, nil), [2]bool{true, true}},
		{lit(services.AnnouncementState{Version: 1}, 0, nil), [2]bool{true, false}},
		{lit(services.AnnouncementState{Version: 1, DotsDismissedUpTo: 5}, 2, nil), [2]bool{false, true}},
		{lit(services.AnnouncementState{Version: 1, DotsDismissedUpTo: 4}, 2, map[string]uint64{"b": 7}), [2]bool{true, false}},
	} {
		if c.got != c.want {
			t.Errorf("lit are %v, want %v", c.got, c.want)
		}
	}
}
