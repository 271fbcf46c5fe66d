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

// fakeSQL stands in for SQL and the changelog in it, and records the reads.
type fakeSQL struct {
	sharedFacts       Facts                                    // what facts returns
	fullAnnouncements map[services.AnnouncementID]Announcement // with their texts
	log               []changelog.Entry                        // the changelog, in ascending order of versions
	lastSetDotNames   []string                                 // the dots' names with which the memory last called setDots
	readError         error                                    // the error of every read; nil: SQL answers

	// How often the facts were read, and how many announcements were read with their texts.
	factReads, textReads int
}

func (e *fakeSQL) facts(context.Context) (Facts, error) {
	e.factReads++
	return e.sharedFacts, e.readError
}

func (e *fakeSQL) announcements(_ context.Context, ids []services.AnnouncementID) (map[services.AnnouncementID]Announcement, error) {
	e.textReads += len(ids)
	found := map[services.AnnouncementID]Announcement{}
	for _, id := range ids {
		if a, known := e.fullAnnouncements[id]; known {
			found[id] = a
		}
	}
	return found, e.readError
}

// LogAfter returns all entries after a version, whatever their kind.
func (e *fakeSQL) LogAfter(_ context.Context, _ string, version uint64, _ int) (after []changelog.Entry, err error) {
	for _, entry := range e.log {
		if entry.Version > version {
			after = append(after, entry)
		}
	}
	return after, e.readError
}

// LastSequence returns the version of the newest entry. No entry is ever deleted, so oldest is 0.
func (e *fakeSQL) LastSequence(context.Context, string) (last, oldest uint64, err error) {
	return uint64(len(e.log)), 0, e.readError
}

// LastSequences returns the version of the newest entry of each kind: here there is one kind.
func (e *fakeSQL) LastSequences(context.Context) (map[string]uint64, error) {
	return map[string]uint64{ChangelogKind: uint64(len(e.log))}, e.readError
}

// memoryWithLog is a node's memory with the log that it follows.
type memoryWithLog struct {
	*Memory
	Log *changelog.Follower
}

// newMemoryWithLog makes a memory that reads from a fake.
func newMemoryWithLog(e *fakeSQL) *memoryWithLog {
	log := changelog.New(changelog.Config{Log: e, Logger: slog.New(slog.DiscardHandler), Settings: changelog.Settings{PollInterval: time.Hour}})
	return &memoryWithLog{newMemory(log, e, func(names []string) { e.lastSetDotNames = names }), log}
}

// mustStateAt returns the state of a moment, which must be known.
func mustStateAt(t *testing.T, m *memoryWithLog, now time.Time) *SharedState {
	t.Helper()
	n, err := m.At(t.Context(), now)
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// announcementIDs are the announcements of a state.
func announcementIDs(n *SharedState) (list []services.AnnouncementID) {
	for _, a := range n.Announcements {
		list = append(list, a.ID)
	}
	return list
}

// listedAnnouncement is an announcement in the list that ends when the given time has passed since noon; 0 means never.
func listedAnnouncement(id services.AnnouncementID, ends time.Duration) Announcement {
	a := Announcement{ID: id, Position: uint64(id), UpdatedAt: noon}
	if ends > 0 {
		a.EndsAt = noon.Add(ends)
	}
	return a
}

func TestCachedAnnouncementsEndWithoutARead(t *testing.T) {
	e := &fakeSQL{}
	e.sharedFacts = Facts{ReadAt: noon, LogVersion: 7, EndedCount: 2, UnlistedEnds: []time.Time{noon.Add(2 * time.Hour)}, Announcements: []Announcement{listedAnnouncement(3, time.Minute), listedAnnouncement(2, 0), listedAnnouncement(1, time.Hour)}}
	m := newMemoryWithLog(e)
	first := mustStateAt(t, m, noon)
	if got := announcementIDs(first); !slices.Equal(got, []services.AnnouncementID{3, 2, 1}) || first.sequence() != 2*7+2 {
		t.Fatalf("at first %v at %d", got, first.sequence())
	}
	if again := mustStateAt(t, m, noon.Add(time.Minute-1)); again != first || e.factReads != 1 {
		t.Errorf("made again before anything changed; SQL was asked %d times", e.factReads)
	}
	over := mustStateAt(t, m, noon.Add(time.Minute))
	if got := announcementIDs(over); !slices.Equal(got, []services.AnnouncementID{2, 1}) || over.sequence() != first.sequence()+1 {
		t.Errorf("after the first end %v at %d", got, over.sequence())
	}
	if late := mustStateAt(t, m, noon.Add(time.Minute-1)); late != over {
		t.Errorf("a reader that was held up sees %v again: it flickers", announcementIDs(late))
	}
	midnight := noon.Add(12 * time.Hour)
	if night := mustStateAt(t, m, midnight.Add(time.Hour)); night.sequence() != first.sequence()+3 || len(night.Announcements) != 1 {
		t.Errorf("after all ends %v at %d", announcementIDs(night), night.sequence())
	}
	if e.factReads != 1 {
		t.Errorf("SQL was asked %d times", e.factReads)
	}
}

// An announcement ends, and then this node learns of a change that was made before the end: the change still raises the sequence.
// So does a change that moves the end of an announcement that has ended.
func TestALateChangeRaisesTheSequence(t *testing.T) {
	e := &fakeSQL{}
	e.sharedFacts = Facts{ReadAt: noon, LastChangeStamp: 5, LogVersion: 1, Announcements: []Announcement{listedAnnouncement(1, time.Minute)}}
	m := newMemoryWithLog(e)
	mustStateAt(t, m, noon)
	end := noon.Add(time.Minute)
	over := mustStateAt(t, m, end)
	change := func(facts Facts) *SharedState {
		t.Helper()
		e.sharedFacts = facts
		if err := m.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		return mustStateAt(t, m, facts.ReadAt)
	}
	raised := change(Facts{ReadAt: end.Add(1), LastChangeStamp: 6, LogVersion: 2, EndedCount: 1, Dots: []Dot{{Name: "shop"}}})
	if raised.sequence() <= over.sequence() || len(raised.Dots) != 1 || !slices.Equal(e.lastSetDotNames, []string{"shop"}) {
		t.Errorf("the raise has the version %d after %d", raised.sequence(), over.sequence())
	}
	longer := change(Facts{ReadAt: end.Add(2), LastChangeStamp: 7, LogVersion: 3, Announcements: []Announcement{listedAnnouncement(1, time.Hour)}})
	if longer.sequence() <= raised.sequence() || len(longer.Announcements) != 1 {
		t.Errorf("an end that was moved has the version %d after %d", longer.sequence(), raised.sequence())
	}
}

// The state depends on the time of the request. A node whose clock was set back gives the earlier state a new sequence, greater
// than all before, because clients drop states that are not newer.
func TestSequencesRiseWhenTheClockIsSetBack(t *testing.T) {
	e := &fakeSQL{}
	e.sharedFacts = Facts{ReadAt: noon, LastChangeStamp: 5, LogVersion: 3, EndedCount: 1}
	m := newMemoryWithLog(e)
	now := mustStateAt(t, m, noon).sequence()
	back := noon.Add(-time.Hour)
	e.sharedFacts = Facts{ReadAt: back, LastChangeStamp: 5, LogVersion: 3, Announcements: []Announcement{listedAnnouncement(1, time.Nanosecond)}}
	e.sharedFacts.Announcements[0].EndsAt = noon.Add(-time.Minute)
	before := mustStateAt(t, m, back)
	if len(before.Announcements) != 1 || before.sequence() <= now {
		t.Errorf("what has not ended yet: %v at %d, after %d", announcementIDs(before), before.sequence(), now)
	}
	if n := mustStateAt(t, m, noon); len(n.Announcements) != 0 || n.sequence() <= before.sequence() {
		t.Errorf("when the time comes again: %v at %d, after %d", announcementIDs(n), n.sequence(), before.sequence())
	}
	e.readError = errors.New("away")
	if n := mustStateAt(t, m, back.Add(-time.Hour)); n == nil {
		t.Error("memory was lost with SQL")
	}
}

func TestMemoryFollowsTheLog(t *testing.T) {
	e := &fakeSQL{}
	e.readError = services.Errorf(services.Unavailable, "no SQL")
	m := newMemoryWithLog(e)
	notified := 0
	m.Log.OnSharedChange(func() { notified++ })
	if _, err := m.At(t.Context(), noon); !services.IsUnavailable(err) {
		t.Fatalf("nothing was ever loaded: %v", err)
	}
	e.readError = nil
	turn := func(want int) {
		t.Helper()
		if _, err := m.Log.RunOnce(t.Context()); err != nil || notified != want {
			t.Fatalf("notified %d times, want %d; %v", notified, want, err)
		}
	}
	turn(1) // the first state is news
	turn(1)
	e.sharedFacts = Facts{ReadAt: noon, LastChangeStamp: 7, Dots: []Dot{{Name: "shop", Raises: []DotRaise{{Stamp: 7}}}}}
	e.log = append(e.log, changelog.Entry{Kind: ChangelogKind, Version: 1, Key: "shop"})
	e.readError = errors.New("away")
	if _, err := m.Log.RunOnce(t.Context()); err == nil || notified != 1 {
		t.Fatalf("the log was read without SQL: %v", err)
	}
	e.readError = nil
	turn(2)
	if n := mustStateAt(t, m, noon); len(n.Dots) != 1 {
		t.Errorf("the raise is not there: %+v", n)
	}
	// A slow read does not bring an older state back.
	newest := e.sharedFacts
	e.sharedFacts = Facts{ReadAt: noon, LastChangeStamp: 6}
	if err := m.Refresh(t.Context()); err != nil || len(mustStateAt(t, m, noon).Dots) != 1 || notified != 2 {
		t.Errorf("an older state replaced a newer one; notified %d times, %v", notified, err)
	}
	e.sharedFacts = newest
	e.sharedFacts.LastChangeStamp = 8
	if err := m.catchUp(t.Context(), 8); err != nil || notified != 3 {
		t.Errorf("its own change was notified %d times, %v", notified, err)
	}
	asked := e.factReads
	if err := m.catchUp(t.Context(), 8); err != nil || e.factReads != asked {
		t.Errorf("what is known was read again, %v", err)
	}
}

func TestTextsAreReadOnce(t *testing.T) {
	e := &fakeSQL{}
	text := func(title string, at time.Time) Announcement {
		return Announcement{ID: 1, Title: title, UpdatedAt: at}
	}
	e.fullAnnouncements = map[services.AnnouncementID]Announcement{1: text("old", noon)}
	e.sharedFacts = Facts{ReadAt: noon, LastChangeStamp: 5, Announcements: []Announcement{listedAnnouncement(1, 0)}}
	m := newMemoryWithLog(e)
	title := func() string {
		t.Helper()
		found, err := m.readWithTexts(t.Context(), []services.AnnouncementID{1, 2})
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
	if e.textReads != 3 { // the second is read each time, because it does not exist
		t.Errorf("SQL was asked for %d", e.textReads)
	}
	e.fullAnnouncements[1] = text("new", noon.Add(1000))
	e.sharedFacts.LastChangeStamp, e.sharedFacts.Announcements[0].UpdatedAt = 6, noon.Add(1000)
	if err := m.Refresh(t.Context()); err != nil || title() != "new" {
		t.Errorf("the title is %q, %v", title(), err)
	}
}

// Facts change at random, also the ends of past announcements, and reach two nodes late and repeatedly, while announcements end.
// On each node the sequence never falls and stands for one state. Once both nodes know all facts, the sequence is the same on
// both.
func TestEachSequenceStandsForOneState(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		e := &fakeSQL{}
		nodes := []*memoryWithLog{newMemoryWithLog(e), newMemoryWithLog(e)}
		now, version := noon, uint64(0)
		var all []Announcement
		load := func() {
			e.sharedFacts = Facts{ReadAt: now, LastChangeStamp: version, LogVersion: version}
			for _, a := range slices.Backward(all) {
				switch {
				case a.isOverAt(now):
					e.sharedFacts.EndedCount++
				case a.Withdrawn:
					e.sharedFacts.UnlistedEnds = append(e.sharedFacts.UnlistedEnds, a.EndsAt)
				default:
					e.sharedFacts.Announcements = append(e.sharedFacts.Announcements, a)
				}
			}
		}
		load()
		states := []map[uint64][]services.AnnouncementID{{}, {}}
		last := make([]uint64, len(nodes))
		look := func(at int) *SharedState {
			load()
			n, err := nodes[at].At(context.Background(), now)
			if err != nil {
				t.Fatal(err)
			}
			if n.sequence() < last[at] {
				t.Fatalf("the number falls from %d to %d", last[at], n.sequence())
			}
			last[at] = n.sequence()
			if had, known := states[at][n.sequence()]; known && !slices.Equal(had, announcementIDs(n)) {
				t.Fatalf("the number %d is of %v and of %v", n.sequence(), had, announcementIDs(n))
			}
			states[at][n.sequence()] = announcementIDs(n)
			return n
		}
		for _, step := range rapid.SliceOfN(rapid.IntRange(0, 5), 1, 60).Draw(t, "steps") {
			at := rapid.IntRange(0, 1).Draw(t, "node")
			ends := now.Add(time.Duration(rapid.IntRange(1, 5).Draw(t, "s")) * time.Second)
			switch step {
			case 0:
				version++
				a := listedAnnouncement(services.AnnouncementID(len(all)+1), 0)
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
			if n := look(at); n.sequence() != look(0).sequence() || !slices.Equal(announcementIDs(n), announcementIDs(look(0))) {
				t.Fatalf("both know all, and show %v at %d and %v at %d", announcementIDs(n), n.sequence(), announcementIDs(look(0)), look(0).sequence())
			}
		}
	})
}

// An announcement raises the sum of versions (VersionSums) of every watched user. Otherwise a change whose notification was lost would
// never be pushed.
func TestEveryUserLearnsOfAnAnnouncement(t *testing.T) {
	e := &fakeSQL{}
	m := newMemoryWithLog(e)
	mustStateAt(t, m, noon)
	users := []services.UserID{1, 2}
	before := m.Log.VersionSums(users)
	e.sharedFacts = Facts{ReadAt: noon, LastChangeStamp: 5, LogVersion: 1, Announcements: []Announcement{listedAnnouncement(1, 0)}}
	if err := m.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if after := m.Log.VersionSums(users); after[0] <= before[0] || after[1] <= before[1] {
		t.Errorf("what was learned went from %v to %v", before, after)
	}
}
