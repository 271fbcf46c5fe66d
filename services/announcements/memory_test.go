package announcements

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tidings/services"
	"tidings/services/changelog"
)

// noon is when these tests begin.
var noon = time.Date(2026, 1, 31, 12, 0, 0, 0, time.UTC)

// fakeSQL stands in for SQL and its log, and records the reads.
type fakeSQL struct {
	shared Facts                            // what facts returns
	whole  map[services.PostID]Announcement // with their texts
	log    []changelog.Entry
	dots   []string // the names of the last call of setDots
	down   error    // the error of every read; nil: SQL answers

	// How often the facts were read, and how many announcements were read with their texts.
	reads, texts int
}

func (e *fakeSQL) facts(context.Context) (Facts, error) {
	e.reads++
	return e.shared, e.down
}

func (e *fakeSQL) announcements(_ context.Context, ids []services.PostID) (map[services.PostID]Announcement, error) {
	e.texts += len(ids)
	found := map[services.PostID]Announcement{}
	for _, id := range ids {
		if a, known := e.whole[id]; known {
			found[id] = a
		}
	}
	return found, e.down
}

func (e *fakeSQL) LogAfter(_ context.Context, _ string, version uint64, _ int) (after []changelog.Entry, err error) {
	for _, entry := range e.log {
		if entry.Version > version {
			after = append(after, entry)
		}
	}
	return after, e.down
}

func (e *fakeSQL) LogHead(context.Context, string) (head, oldest uint64, err error) {
	return uint64(len(e.log)), 0, e.down
}

func (e *fakeSQL) LogHeads(context.Context) (map[string]uint64, error) {
	return map[string]uint64{LogKind: uint64(len(e.log))}, e.down
}

// cache is a node's memory with the log that it follows.
type cache struct {
	*Memory
	Log *changelog.Follower
}

// newCache makes a memory that reads from a fake.
func newCache(e *fakeSQL) *cache {
	log := changelog.New(changelog.Config{Log: e, Logger: slog.New(slog.DiscardHandler), Poll: time.Hour})
	return &cache{newMemory(log, e, func(names []string) { e.dots = names }), log}
}

// mustStateAt returns the state of a moment, which must be known.
func mustStateAt(t *testing.T, m *cache, now time.Time) *State {
	t.Helper()
	n, err := m.At(t.Context(), now)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// ids are the announcements of a state.
func ids(n *State) (list []services.PostID) {
	for _, a := range n.Announcements {
		list = append(list, a.ID)
	}
	return list
}

// listedAnnouncement is an announcement in the list that ends when the given time has passed since noon; 0 means never.
func listedAnnouncement(id services.PostID, ends time.Duration) Announcement {
	a := Announcement{ID: id, Position: uint64(id), UpdatedAt: noon}
	if ends > 0 {
		a.EndsAt = noon.Add(ends)
	}
	return a
}

func TestAnnouncementsEndInMemory(t *testing.T) {
	e := &fakeSQL{}
	e.shared = Facts{At: noon, Version: 7, EndedCount: 2, UnlistedEnds: []time.Time{noon.Add(2 * time.Hour)}, Announcements: []Announcement{listedAnnouncement(3, time.Minute), listedAnnouncement(2, 0), listedAnnouncement(1, time.Hour)}}
	m := newCache(e)
	first := mustStateAt(t, m, noon)
	if got := ids(first); !slices.Equal(got, []services.PostID{3, 2, 1}) || first.sequence() != 2*7+2 {
		t.Fatalf("at first %v at %d", got, first.sequence())
	}
	if again := mustStateAt(t, m, noon.Add(time.Minute-1)); again != first || e.reads != 1 {
		t.Errorf("made again before anything changed; SQL was asked %d times", e.reads)
	}
	over := mustStateAt(t, m, noon.Add(time.Minute))
	if got := ids(over); !slices.Equal(got, []services.PostID{2, 1}) || over.sequence() != first.sequence()+1 {
		t.Errorf("after the first end %v at %d", got, over.sequence())
	}
	if late := mustStateAt(t, m, noon.Add(time.Minute-1)); late != over {
		t.Errorf("a reader that was held up sees %v again: it flickers", ids(late))
	}
	midnight := noon.Add(12 * time.Hour)
	if night := mustStateAt(t, m, midnight.Add(time.Hour)); night.sequence() != first.sequence()+3 || len(night.Announcements) != 1 {
		t.Errorf("after all ends %v at %d", ids(night), night.sequence())
	}
	if e.reads != 1 {
		t.Errorf("SQL was asked %d times", e.reads)
	}
}

// An announcement ends, and then this node learns of a change that was made before the end: the change still raises the sequence.
// So does a change that moves the end of an announcement that has ended.
func TestALateChangeRaisesTheSequence(t *testing.T) {
	e := &fakeSQL{}
	e.shared = Facts{At: noon, Stamp: 5, Version: 1, Announcements: []Announcement{listedAnnouncement(1, time.Minute)}}
	m := newCache(e)
	mustStateAt(t, m, noon)
	end := noon.Add(time.Minute)
	over := mustStateAt(t, m, end)
	change := func(facts Facts) *State {
		t.Helper()
		e.shared = facts
		if err := m.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		return mustStateAt(t, m, facts.At)
	}
	raised := change(Facts{At: end.Add(1), Stamp: 6, Version: 2, EndedCount: 1, Dots: []Dot{{Name: "shop"}}})
	if raised.sequence() <= over.sequence() || len(raised.Dots) != 1 || !slices.Equal(e.dots, []string{"shop"}) {
		t.Errorf("the raise has the version %d after %d", raised.sequence(), over.sequence())
	}
	longer := change(Facts{At: end.Add(2), Stamp: 7, Version: 3, Announcements: []Announcement{listedAnnouncement(1, time.Hour)}})
	if longer.sequence() <= raised.sequence() || len(longer.Announcements) != 1 {
		t.Errorf("an end that was moved has the version %d after %d", longer.sequence(), raised.sequence())
	}
}

// The state depends on the time of the request. A node whose clock was set back gives the earlier state a new sequence, greater
// than all before, because clients drop states that are not newer.
func TestMemoryHoldsWhenTheClockIsSetBack(t *testing.T) {
	e := &fakeSQL{}
	e.shared = Facts{At: noon, Stamp: 5, Version: 3, EndedCount: 1}
	m := newCache(e)
	now := mustStateAt(t, m, noon).sequence()
	back := noon.Add(-time.Hour)
	e.shared = Facts{At: back, Stamp: 5, Version: 3, Announcements: []Announcement{listedAnnouncement(1, time.Nanosecond)}}
	e.shared.Announcements[0].EndsAt = noon.Add(-time.Minute)
	before := mustStateAt(t, m, back)
	if len(before.Announcements) != 1 || before.sequence() <= now {
		t.Errorf("what has not ended yet: %v at %d, after %d", ids(before), before.sequence(), now)
	}
	if n := mustStateAt(t, m, noon); len(n.Announcements) != 0 || n.sequence() <= before.sequence() {
		t.Errorf("when the time comes again: %v at %d, after %d", ids(n), n.sequence(), before.sequence())
	}
	e.down = errors.New("away")
	if n := mustStateAt(t, m, back.Add(-time.Hour)); n == nil {
		t.Error("memory was lost with SQL")
	}
}

func TestMemoryFollowsTheLog(t *testing.T) {
	e := &fakeSQL{}
	e.down = services.Errorf(services.Unavailable, "no SQL")
	m := newCache(e)
	notified := 0
	m.Log.OnShared(func() { notified++ })
	if _, err := m.At(t.Context(), noon); !services.IsUnavailable(err) {
		t.Fatalf("nothing was ever loaded: %v", err)
	}
	e.down = nil
	turn := func(want int) {
		t.Helper()
		if _, err := m.Log.RunOnce(t.Context()); err != nil || notified != want {
			t.Fatalf("notified %d times, want %d; %v", notified, want, err)
		}
	}
	turn(1) // the first state is news
	turn(1)
	e.shared = Facts{At: noon, Stamp: 7, Dots: []Dot{{Name: "shop", Raises: []Raise{{At: 7}}}}}
	e.log = append(e.log, changelog.Entry{Kind: LogKind, Version: 1, Key: "shop"})
	e.down = errors.New("away")
	if _, err := m.Log.RunOnce(t.Context()); err == nil || notified != 1 {
		t.Fatalf("the log was read without SQL: %v", err)
	}
	e.down = nil
	turn(2)
	if n := mustStateAt(t, m, noon); len(n.Dots) != 1 {
		t.Errorf("the raise is not there: %+v", n)
	}
	// A slow read does not bring an older state back.
	newest := e.shared
	e.shared = Facts{At: noon, Stamp: 6}
	if err := m.Refresh(t.Context()); err != nil || len(mustStateAt(t, m, noon).Dots) != 1 || notified != 2 {
		t.Errorf("an older state replaced a newer one; notified %d times, %v", notified, err)
	}
	e.shared = newest
	e.shared.Stamp = 8
	if err := m.catchUp(t.Context(), 8); err != nil || notified != 3 {
		t.Errorf("its own change was notified %d times, %v", notified, err)
	}
	asked := e.reads
	if err := m.catchUp(t.Context(), 8); err != nil || e.reads != asked {
		t.Errorf("what is known was read again, %v", err)
	}
}

func TestTextsAreReadOnce(t *testing.T) {
	e := &fakeSQL{}
	text := func(title string, at time.Time) Announcement {
		return Announcement{ID: 1, Title: title, UpdatedAt: at}
	}
	e.whole = map[services.PostID]Announcement{1: text("old", noon)}
	e.shared = Facts{At: noon, Stamp: 5, Announcements: []Announcement{listedAnnouncement(1, 0)}}
	m := newCache(e)
	title := func() string {
		t.Helper()
		found, err := m.readWhole(t.Context(), []services.PostID{1, 2})
		if err != nil || len(found) != 1 {
			t.Fatalf("%v, %v", found, err)
		}
		return found[1].Title
	}
	mustStateAt(t, m, noon)
	for range 2 {
		if got := title(); got != "old" {
			t.Errorf("the title is %q", got)
		}
	}
	if e.texts != 3 { // the second is read each time, because it does not exist
		t.Errorf("SQL was asked for %d", e.texts)
	}
	e.whole[1] = text("new", noon.Add(1000))
	e.shared.Stamp, e.shared.Announcements[0].UpdatedAt = 6, noon.Add(1000)
	if err := m.Refresh(t.Context()); err != nil || title() != "new" {
		t.Errorf("the title is %q, %v", title(), err)
	}
}

// Facts change at random, also the ends of past announcements, and reach two nodes late and repeatedly, while announcements end.
// On each node the sequence never falls and stands for one state. Once both nodes know all facts, the sequence is the same on
// both.
func TestOneVersionIsOneState(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := &fakeSQL{}
		nodes := []*cache{newCache(e), newCache(e)}
		now, version := noon, uint64(0)
		var all []Announcement
		load := func() {
			e.shared = Facts{At: now, Stamp: version, Version: version}
			for _, a := range slices.Backward(all) {
				switch {
				case a.overAt(now):
					e.shared.EndedCount++
				case a.Withdrawn:
					e.shared.UnlistedEnds = append(e.shared.UnlistedEnds, a.EndsAt)
				default:
					e.shared.Announcements = append(e.shared.Announcements, a)
				}
			}
		}
		load()
		states := []map[uint64][]services.PostID{{}, {}}
		last := make([]uint64, len(nodes))
		look := func(at int) *State {
			load()
			n, err := nodes[at].At(context.Background(), now)
			if err != nil {
				t.Fatal(err)
			}
			if n.sequence() < last[at] {
				t.Fatalf("the number falls from %d to %d", last[at], n.sequence())
			}
			last[at] = n.sequence()
			if had, known := states[at][n.sequence()]; known && !slices.Equal(had, ids(n)) {
				t.Fatalf("the number %d is of %v and of %v", n.sequence(), had, ids(n))
			}
			states[at][n.sequence()] = ids(n)
			return n
		}
		for _, step := range rapid.SliceOfN(rapid.IntRange(0, 5), 1, 60).Draw(t, "steps") {
			at := rapid.IntRange(0, 1).Draw(t, "node")
			ends := now.Add(time.Duration(rapid.IntRange(1, 5).Draw(t, "s")) * time.Second)
			switch step {
			case 0:
				version++
				a := listedAnnouncement(services.PostID(len(all)+1), 0)
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
				if err := nodes[at].Refresh(context.Background()); err != nil {
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
			if err := m.Refresh(context.Background()); err != nil {
				t.Fatal(err)
			}
			if n := look(at); n.sequence() != look(0).sequence() || !slices.Equal(ids(n), ids(look(0))) {
				t.Fatalf("both know all, and show %v at %d and %v at %d", ids(n), n.sequence(), ids(look(0)), look(0).sequence())
			}
		}
	})
}

// An announcement raises the sum that the log gives for every watched user. Otherwise a change whose notification was lost would
// never be pushed.
func TestEveryUserLearnsOfAnAnnouncement(t *testing.T) {
	e := &fakeSQL{}
	m := newCache(e)
	mustStateAt(t, m, noon)
	users := []services.UserID{1, 2}
	before := m.Log.LearnedSums(users)
	e.shared = Facts{At: noon, Stamp: 5, Version: 1, Announcements: []Announcement{listedAnnouncement(1, 0)}}
	if err := m.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if after := m.Log.LearnedSums(users); after[0] <= before[0] || after[1] <= before[1] {
		t.Errorf("what was learned went from %v to %v", before, after)
	}
}
