package mirror

import (
	"context"
	"errors"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tidings/services"
	"tidings/services/changelog"
	"tidings/services/store"
)

// noon is when these tests begin.
var noon = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

func micro(t time.Time) uint64 { return uint64(t.UnixMicro()) }

func shows(t *testing.T, m *Memories, now time.Time) *Notices {
	t.Helper()
	n, err := m.Announcements.At(t.Context(), now)
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

// entry is an announcement in the list; it ends after a while, or never with 0.
func entry(id services.PostID, ends time.Duration) services.Announcement {
	a := services.Announcement{ID: id, Position: uint64(id), UpdatedAt: noon}
	if ends > 0 {
		a.EndsAt = noon.Add(ends)
	}
	return a
}

func TestAnnouncementsEndInMemory(t *testing.T) {
	e := newEngines()
	e.notices = store.Notices{At: noon, Version: 7, Ended: 2, HiddenEnds: []time.Time{noon.Add(2 * time.Hour)}, Announcements: []services.Announcement{entry(3, time.Minute), entry(2, 0), entry(1, time.Hour)}}
	m := newMirror(e)
	first := shows(t, m, noon)
	if got := ids(first); !slices.Equal(got, []services.PostID{3, 2, 1}) || first.Sequence() != 2*7+2 {
		t.Fatalf("at first %v at %d", got, first.Sequence())
	}
	if again := shows(t, m, noon.Add(time.Minute-1)); again != first || e.sqlNotices != 1 {
		t.Errorf("made again before anything changed; SQL was asked %d times", e.sqlNotices)
	}
	over := shows(t, m, noon.Add(time.Minute))
	if got := ids(over); !slices.Equal(got, []services.PostID{2, 1}) || over.Sequence() != first.Sequence()+1 {
		t.Errorf("after the first end %v at %d", got, over.Sequence())
	}
	if late := shows(t, m, noon.Add(time.Minute-1)); late != over {
		t.Errorf("a reader that was held up sees %v again: it flickers", ids(late))
	}
	midnight := noon.Add(12 * time.Hour)
	if night := shows(t, m, midnight.Add(time.Hour)); night.Sequence() != first.Sequence()+3 || len(night.Announcements) != 1 {
		t.Errorf("after all ends %v at %d", ids(night), night.Sequence())
	}
	if e.sqlNotices != 1 {
		t.Errorf("SQL was asked %d times", e.sqlNotices)
	}
}

// A change that this node learns of late, after a later end has passed, still raises the sequence, and so does one that takes
// an end back.
func TestALateChangeHasItsOwnVersion(t *testing.T) {
	e := newEngines()
	e.notices = store.Notices{At: noon, Stamp: 5, Version: 1, Announcements: []services.Announcement{entry(1, time.Minute)}}
	m := newMirror(e)
	shows(t, m, noon)
	end := noon.Add(time.Minute)
	over := shows(t, m, end)
	change := func(notices store.Notices) *Notices {
		t.Helper()
		e.notices = notices
		if err := m.Announcements.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		return shows(t, m, notices.At)
	}
	raised := change(store.Notices{At: end.Add(1), Stamp: 6, Version: 2, Ended: 1, Dots: []services.RaisedDot{{Name: "shop"}}})
	if raised.Sequence() <= over.Sequence() || len(raised.Dots) != 1 || !slices.Equal(e.dots, []string{"shop"}) {
		t.Errorf("the raise has the version %d after %d", raised.Sequence(), over.Sequence())
	}
	longer := change(store.Notices{At: end.Add(2), Stamp: 7, Version: 3, Announcements: []services.Announcement{entry(1, time.Hour)}})
	if longer.Sequence() <= raised.Sequence() || len(longer.Announcements) != 1 {
		t.Errorf("an end that was moved has the version %d after %d", longer.Sequence(), raised.Sequence())
	}
}

// The notices of a moment are those of that moment. A node whose clock was set back gives them a sequence of its own, greater
// than all before, since clients drop what is not newer.
func TestTheClockIsSetBack(t *testing.T) {
	e := newEngines()
	e.notices = store.Notices{At: noon, Stamp: 5, Version: 3, Ended: 1}
	m := newMirror(e)
	now := shows(t, m, noon).Sequence()
	back := noon.Add(-time.Hour)
	e.notices = store.Notices{At: back, Stamp: 5, Version: 3, Announcements: []services.Announcement{entry(1, time.Nanosecond)}}
	e.notices.Announcements[0].EndsAt = noon.Add(-time.Minute)
	before := shows(t, m, back)
	if len(before.Announcements) != 1 || before.Sequence() <= now {
		t.Errorf("what has not ended yet: %v at %d, after %d", ids(before), before.Sequence(), now)
	}
	if n := shows(t, m, noon); len(n.Announcements) != 0 || n.Sequence() <= before.Sequence() {
		t.Errorf("when the time comes again: %v at %d, after %d", ids(n), n.Sequence(), before.Sequence())
	}
	e.sqlDown = errors.New("away")
	if n := shows(t, m, back.Add(-time.Hour)); n == nil {
		t.Error("memory was lost with SQL")
	}
}

func TestNoticesFollowTheLog(t *testing.T) {
	e := newEngines()
	e.sqlDown = services.Errorf(services.Unavailable, "no SQL")
	m := newMirror(e)
	told := 0
	m.Log.OnShared(func() { told++ })
	if _, err := m.Announcements.At(t.Context(), noon); !services.IsUnavailable(err) {
		t.Fatalf("nothing was ever loaded: %v", err)
	}
	e.sqlDown = nil
	turn := func(want int) {
		t.Helper()
		if _, err := m.Log.RunOnce(t.Context()); err != nil || told != want {
			t.Fatalf("notified %d times, want %d; %v", told, want, err)
		}
	}
	turn(1) // the first state is news
	turn(1)
	e.notices = store.Notices{At: noon, Stamp: 7, Dots: []services.RaisedDot{{Name: "shop", Raises: []services.DotRaise{{At: 7}}}}}
	e.log = append(e.log, changelog.Entry{Kind: LogNotice, Version: 1, Key: "shop"})
	e.sqlDown = errors.New("away")
	if _, err := m.Log.RunOnce(t.Context()); err == nil || told != 1 {
		t.Fatalf("the log was read without SQL: %v", err)
	}
	e.sqlDown = nil
	turn(2)
	if n := shows(t, m, noon); len(n.Dots) != 1 {
		t.Errorf("the raise is not there: %+v", n)
	}
	// A slow read does not bring an older state back.
	newest := e.notices
	e.notices = store.Notices{At: noon, Stamp: 6}
	if err := m.Announcements.Refresh(t.Context()); err != nil || len(shows(t, m, noon).Dots) != 1 || told != 2 {
		t.Errorf("an older state replaced a newer one; notified %d times, %v", told, err)
	}
	e.notices = newest
	e.notices.Stamp = 8
	if err := m.Announcements.CatchUp(t.Context(), 8); err != nil || told != 3 {
		t.Errorf("its own change was notified %d times, %v", told, err)
	}
	asked := e.sqlNotices
	if err := m.Announcements.CatchUp(t.Context(), 8); err != nil || e.sqlNotices != asked {
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
		found, err := m.Announcements.Whole(t.Context(), []services.PostID{1, 2})
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
	if e.sqlAnnouncements != 3 { // the second is asked for each time: it does not exist
		t.Errorf("SQL was asked for %d", e.sqlAnnouncements)
	}
	e.announcements[1] = text("new", noon.Add(1000))
	e.notices.Stamp, e.notices.Announcements[0].UpdatedAt = 6, noon.Add(1000)
	if err := m.Announcements.Refresh(t.Context()); err != nil || title() != "new" {
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

// Facts change at random on two nodes: ends of past announcements too, late and repeated, while announcements end. On each node
// the sequence never falls and means one state, and when both nodes know all facts it is the same on both.
func TestOneVersionIsOneState(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := newEngines()
		nodes := []*Memories{newMirror(e), newMirror(e)}
		now, version := noon, uint64(0)
		var all []services.Announcement
		load := func() {
			e.notices = store.Notices{At: now, Stamp: version, Version: version}
			for _, a := range slices.Backward(all) {
				switch {
				case a.OverAt(now):
					e.notices.Ended++
				case a.Withdrawn:
					e.notices.HiddenEnds = append(e.notices.HiddenEnds, a.EndsAt)
				default:
					e.notices.Announcements = append(e.notices.Announcements, a)
				}
			}
		}
		load()
		states := []map[uint64][]services.PostID{{}, {}}
		last := make([]uint64, len(nodes))
		look := func(at int) *Notices {
			load()
			n, err := nodes[at].Announcements.At(context.Background(), now)
			if err != nil {
				t.Fatal(err)
			}
			if n.Sequence() < last[at] {
				t.Fatalf("the number falls from %d to %d", last[at], n.Sequence())
			}
			last[at] = n.Sequence()
			if had, known := states[at][n.Sequence()]; known && !slices.Equal(had, ids(n)) {
				t.Fatalf("the number %d is of %v and of %v", n.Sequence(), had, ids(n))
			}
			states[at][n.Sequence()] = ids(n)
			return n
		}
		for _, step := range rapid.SliceOfN(rapid.IntRange(0, 5), 1, 60).Draw(t, "steps") {
			at := rapid.IntRange(0, 1).Draw(t, "node")
			ends := now.Add(time.Duration(rapid.IntRange(1, 5).Draw(t, "s")) * time.Second)
			switch step {
			case 0:
				version++
				a := entry(services.PostID(len(all)+1), 0)
				a.Position, a.EndsAt = version, ends
				all = append(all, a)
			case 1:
				if len(all) > 0 {
					version++
					one := &all[rapid.IntRange(0, len(all)-1).Draw(t, "which")]
					one.EndsAt, one.Withdrawn = ends, rapid.Bool().Draw(t, "withdrawn")
				}
			case 2, 3:
				load()
				if err := nodes[at].Announcements.Refresh(context.Background()); err != nil {
					t.Fatal(err)
				}
			case 4:
				now = now.Add(time.Duration(rapid.IntRange(0, 3000).Draw(t, "ms")) * time.Millisecond)
			case 5:
				now = now.Add(12 * time.Hour)
			}
			look(at)
		}
		load()
		for at, m := range nodes {
			if err := m.Announcements.Refresh(context.Background()); err != nil {
				t.Fatal(err)
			}
			if n := look(at); n.Sequence() != look(0).Sequence() || !slices.Equal(ids(n), ids(look(0))) {
				t.Fatalf("both know all, and show %v at %d and %v at %d", ids(n), n.Sequence(), ids(look(0)), look(0).Sequence())
			}
		}
	})
}

func (e *engines) SetDots(names []string) { e.dots = names }
