package mirror

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tidings/services"
	"tidings/services/store"
)

// noon is when these tests begin.
var noon = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

func micro(t time.Time) uint64 { return uint64(t.UnixMicro()) }

func shows(t *testing.T, m *Mirror, now time.Time) *Notices {
	t.Helper()
	n, err := m.Notices(t.Context(), now)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func ids(n *Notices) (list []services.PostID) {
	for _, a := range n.Announcements {
		list = append(list, a.ID)
	}
	return list
}

// entry is an announcement of the list; it ends after a while, or never with 0.
func entry(id services.PostID, ends time.Duration) services.Announcement {
	a := services.Announcement{ID: id, Position: uint64(id), UpdatedAt: noon}
	if ends > 0 {
		a.EndsAt = noon.Add(ends)
	}
	return a
}

func TestAnnouncementsEndInMemory(t *testing.T) {
	e := newEngines()
	e.notices = store.Notices{At: noon, Stamp: micro(noon), Announcements: []services.Announcement{entry(3, time.Minute), entry(2, 0), entry(1, time.Hour)}}
	m := newMirror(e)
	first := shows(t, m, noon)
	if got := ids(first); !slices.Equal(got, []services.PostID{3, 2, 1}) || first.Shared != micro(noon) {
		t.Fatalf("at first %v at %d", got, first.Shared)
	}
	if again := shows(t, m, noon.Add(time.Minute-1)); again != first || e.sqlNotices != 1 {
		t.Errorf("made again before anything changed; SQL was asked %d times", e.sqlNotices)
	}
	over := shows(t, m, noon.Add(time.Minute))
	if got := ids(over); !slices.Equal(got, []services.PostID{2, 1}) || over.Shared != micro(noon.Add(time.Minute)) {
		t.Errorf("after the first end %v at %d", got, over.Shared)
	}
	if late := shows(t, m, noon.Add(time.Minute-1)); late != over {
		t.Errorf("a reader that was held up sees %v again: it flickers", ids(late))
	}
	midnight := noon.Add(12 * time.Hour)
	if night := shows(t, m, midnight.Add(time.Hour)); night.Shared != micro(midnight) || len(night.Announcements) != 1 {
		t.Errorf("after midnight %v at %d", ids(night), night.Shared)
	}
	if e.sqlNotices != 1 {
		t.Errorf("SQL was asked %d times", e.sqlNotices)
	}
}

// A change that this node learns of late, when an end after it has passed already, is news all the same.
func TestALateChangeHasItsOwnVersion(t *testing.T) {
	e := newEngines()
	e.notices = store.Notices{At: noon, Stamp: 5, Announcements: []services.Announcement{entry(1, time.Minute)}}
	m := newMirror(e)
	shows(t, m, noon)
	end := noon.Add(time.Minute)
	over := shows(t, m, end)
	e.notices = store.Notices{At: end.Add(1), Stamp: micro(end) - 1, LastEnd: end, Dots: []services.RaisedDot{{Name: "shop"}}}
	if err := m.RefreshNotices(t.Context()); err != nil {
		t.Fatal(err)
	}
	if raised := shows(t, m, end.Add(1)); raised.Shared != over.Shared+1 || len(raised.Dots) != 1 || !slices.Equal(e.dots, []string{"shop"}) {
		t.Errorf("the raise has the version %d after %d", raised.Shared, over.Shared)
	}
}

func TestTheClockIsSetBack(t *testing.T) {
	e := newEngines()
	e.notices = store.Notices{At: noon, Stamp: 5, LastEnd: noon.Add(-time.Minute)}
	m := newMirror(e)
	before := shows(t, m, noon).Shared
	back := noon.Add(-time.Hour)
	e.notices = store.Notices{At: back, Stamp: 5, Announcements: []services.Announcement{entry(1, time.Nanosecond)}}
	e.notices.Announcements[0].EndsAt = noon.Add(-time.Minute)
	if n := shows(t, m, back); len(n.Announcements) != 1 || n.Shared <= before {
		t.Errorf("what has not ended yet is not shown: %v at %d after %d", ids(n), n.Shared, before)
	}
	e.sqlDown = errors.New("away")
	if n := shows(t, m, back.Add(-time.Hour)); len(n.Announcements) != 1 {
		t.Error("memory was lost with SQL")
	}
}

func TestNoticesFollowTheLog(t *testing.T) {
	e := newEngines()
	e.sqlDown = services.Errorf(services.Unavailable, "no SQL")
	m := newMirror(e)
	told := 0
	m.OnShared(func() { told++ })
	if _, err := m.Notices(t.Context(), noon); !services.IsUnavailable(err) {
		t.Fatalf("nothing was ever loaded: %v", err)
	}
	e.sqlDown = nil
	turn := func(want int) {
		t.Helper()
		if _, err := m.RunOnce(t.Context()); err != nil || told != want {
			t.Fatalf("told %d times, want %d; %v", told, want, err)
		}
	}
	turn(1) // the first state is news
	turn(1)
	e.notices = store.Notices{At: noon, Stamp: 7, Dots: []services.RaisedDot{{Name: "shop", Raises: []services.DotRaise{{At: 7}}}}}
	e.log = append(e.log, store.LogEntry{Kind: LogNotice, Version: 1, Key: "shop"})
	e.sqlDown = errors.New("away")
	if _, err := m.RunOnce(t.Context()); err == nil || told != 1 {
		t.Fatalf("the log was read without SQL: %v", err)
	}
	e.sqlDown = nil
	turn(2)
	if n := shows(t, m, noon); len(n.Dots) != 1 {
		t.Errorf("the raise is not there: %+v", n)
	}
	// A read that took long does not bring an older state back.
	newest := e.notices
	e.notices = store.Notices{At: noon, Stamp: 6}
	if err := m.RefreshNotices(t.Context()); err != nil || len(shows(t, m, noon).Dots) != 1 || told != 2 {
		t.Errorf("an older state replaced a newer one; told %d times, %v", told, err)
	}
	e.notices = newest
	e.notices.Stamp = 8
	if err := m.CatchUpNotices(t.Context(), 8); err != nil || told != 3 {
		t.Errorf("one's own change was told %d times, %v", told, err)
	}
	asked := e.sqlNotices
	if err := m.CatchUpNotices(t.Context(), 8); err != nil || e.sqlNotices != asked {
		t.Errorf("what is known was read again, %v", err)
	}
}

func TestTextsOfAnnouncements(t *testing.T) {
	e := newEngines()
	text := func(title string, at time.Time) services.Announcement {
		return services.Announcement{ID: 1, Title: title, UpdatedAt: at}
	}
	e.announcements = map[services.PostID]services.Announcement{1: text("old", noon)}
	e.notices = store.Notices{At: noon, Stamp: 5, Announcements: []services.Announcement{entry(1, 0)}}
	m := newMirror(e)
	title := func() string {
		t.Helper()
		found, err := m.Announcements(t.Context(), []services.PostID{1, 2})
		if err != nil || len(found) != 1 {
			t.Fatalf("%v, %v", found, err)
		}
		return found[1].Title
	}
	shows(t, m, noon)
	for range 2 {
		if got := title(); got != "old" {
			t.Errorf("the title is %q", got)
		}
	}
	if e.sqlAnnouncements != 3 { // the second is asked for each time: there is none
		t.Errorf("SQL was asked for %d", e.sqlAnnouncements)
	}
	e.announcements[1] = text("new", noon.Add(1000))
	e.notices.Stamp, e.notices.Announcements[0].UpdatedAt = 6, noon.Add(1000)
	if err := m.RefreshNotices(t.Context()); err != nil || title() != "new" {
		t.Errorf("the title is %q, %v", title(), err)
	}
}

func TestWhatIsMeantForAUser(t *testing.T) {
	n := &Notices{
		Announcements: []services.Announcement{entry(9, time.Hour), entry(7, 0), entry(5, time.Minute), entry(3, 0)},
		Dots:          []services.RaisedDot{{Name: "a", Raises: []services.DotRaise{{At: 5}}}, {Name: "b", Raises: []services.DotRaise{{Target: 2, At: 7}}}},
	}
	n.Announcements[0].Segments, n.Announcements[2].Segments = 1, 2
	for _, c := range []struct {
		segments services.SegmentBits
		position uint64
		count    int
		ends     time.Duration
	}{{0, 0, 2, 0}, {1, 0, 3, time.Hour}, {3, 0, 4, time.Minute}, {3, 5, 2, time.Hour}, {2, 4, 2, time.Minute}, {3, 9, 0, 0}} {
		state := services.NoticeState{Version: 1, Position: c.position}
		count, ends := n.CountUnread(state, c.segments)
		if count != c.count || !ends.Equal(entry(0, c.ends).EndsAt) {
			t.Errorf("%+v: %d unread until %s", c, count, ends)
		}
		listed := 0
		for _, a := range n.Visible(c.segments, 100, 100) {
			if a.Position > c.position {
				listed++
			}
		}
		if listed != count || len(n.Unread(state, c.segments)) != count {
			t.Errorf("%+v: %d are listed as unread, %d counted", c, listed, count)
		}
	}
	if count, _ := n.CountUnread(services.NoticeState{}, 3); count != 0 {
		t.Errorf("without a position %d are unread", count)
	}
	if page := n.Visible(3, 9, 2); len(page) != 2 || page[0].ID != 7 || page[1].ID != 5 {
		t.Errorf("a page after the first: %v", page)
	}
	if _, ok := n.Shows(9, 0); ok {
		t.Error("an announcement for others is shown")
	}
	if a, ok := n.Shows(9, 1); !ok || a.ID != 9 {
		t.Error("an announcement is not shown")
	}
	lit := func(state services.NoticeState, segments services.SegmentBits, cleared map[string]uint64) (all [2]bool) {
		for i, dot := range n.Lights(state, segments, cleared) {
			all[i] = dot.Lit
		}
		return all
	}
	for _, c := range []struct {
		got, want [2]bool
	}{
		{lit(services.NoticeState{}, 2, nil), [2]bool{}},
		{lit(services.NoticeState{Version: 1}, 2, nil), [2]bool{true, true}},
		{lit(services.NoticeState{Version: 1}, 0, nil), [2]bool{true, false}},
		{lit(services.NoticeState{Version: 1, DotsFrom: 5}, 2, nil), [2]bool{false, true}},
		{lit(services.NoticeState{Version: 1, DotsFrom: 4}, 2, map[string]uint64{"b": 7}), [2]bool{true, false}},
	} {
		if c.got != c.want {
			t.Errorf("lit are %v, want %v", c.got, c.want)
		}
	}
}

// TestOneVersionIsOneState lets facts change, come late and be read again, announcements end and the clock jump, at
// random: the version never falls, and two states never have the same one.
func TestOneVersionIsOneState(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := newEngines()
		m := newMirror(e)
		now, stamp := noon, micro(noon)
		var all []services.Announcement
		e.notices = store.Notices{At: now, Stamp: stamp}
		load := func() {
			e.notices.At, e.notices.LastEnd, e.notices.Announcements, e.notices.Stamp = now, time.Time{}, nil, stamp
			for _, a := range slices.Backward(all) {
				if a.OverAt(now) {
					e.notices.LastEnd = later(e.notices.LastEnd, a.EndsAt)
				} else {
					e.notices.Announcements = append(e.notices.Announcements, a)
				}
			}
		}
		states := map[uint64][]services.PostID{}
		last := uint64(0)
		for _, step := range rapid.SliceOfN(rapid.IntRange(0, 5), 1, 60).Draw(t, "steps") {
			switch step {
			case 0: // published a while ago by a node whose clock is not ours
				stamp = max(stamp+1, micro(now.Add(-time.Duration(rapid.IntRange(-2, 2).Draw(t, "late"))*time.Second)))
				a := entry(services.PostID(len(all)+1), 0)
				a.Position, a.EndsAt = stamp, now.Add(time.Duration(rapid.IntRange(1, 5).Draw(t, "s"))*time.Second)
				all = append(all, a)
			case 1:
				load()
				if err := m.RefreshNotices(context.Background()); err != nil {
					t.Fatal(err)
				}
			case 2:
				now = now.Add(time.Duration(rapid.IntRange(0, 3000).Draw(t, "ms")) * time.Millisecond)
			case 3:
				now = now.Add(-time.Duration(rapid.IntRange(0, 5).Draw(t, "back")) * time.Second)
			case 4:
				now = now.Add(12 * time.Hour)
			}
			n, err := m.Notices(context.Background(), now)
			if err != nil {
				t.Fatal(err)
			}
			if n.Shared < last {
				t.Fatalf("the version falls from %d to %d", last, n.Shared)
			}
			last = n.Shared
			shown := ids(n)
			if had, known := states[n.Shared]; known && !slices.Equal(had, shown) {
				t.Fatalf("the version %d is of %v and of %v", n.Shared, had, shown)
			}
			states[n.Shared] = shown
		}
	})
}
