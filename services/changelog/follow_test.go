package changelog

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// fakeLog stands in for the log in SQL, and counts its queries.
type fakeLog struct {
	entries            []Entry
	readError          error        // the error of every query; nil: SQL answers
	logAfterCalls      int          // how often LogAfter was called
	lastSequencesCalls atomic.Int64 // how often LastSequences was called; read while a follower runs
}

// addEntries appends an entry for each key.
func (s *fakeLog) addEntries(kind string, keys ...string) {
	for _, key := range keys {
		newest, _, _ := s.LastSequence(context.Background(), kind)
		s.entries = append(s.entries, Entry{Kind: kind, Version: newest + 1, Key: key})
	}
}

func (s *fakeLog) LogAfter(_ context.Context, kind string, version uint64, limit int) (after []Entry, err error) {
	s.logAfterCalls++
	for _, entry := range s.entries {
		if entry.Kind == kind && entry.Version > version && len(after) < limit {
			after = append(after, entry)
		}
	}
	return after, s.readError
}

func (s *fakeLog) LastSequence(_ context.Context, kind string) (newest, oldest uint64, err error) {
	for _, entry := range s.entries {
		if entry.Kind == kind {
			newest = max(newest, entry.Version)
		}
	}
	return newest, 0, s.readError
}

func (s *fakeLog) LastSequences(context.Context) (map[string]uint64, error) {
	s.lastSequencesCalls.Add(1)
	sequences := map[string]uint64{}
	for _, entry := range s.entries {
		sequences[entry.Kind] = max(sequences[entry.Kind], entry.Version)
	}
	return sequences, s.readError
}

// logKeyCache remembers the keys in a log of one kind.
type logKeyCache struct {
	keys               []string // of the entries, in their order
	loadCount          int      // how often the keys were loaded
	afterLogReadErrors []error  // the errors that AfterLogRead was called with
}

// kind is a kind of entries whose memory is the list of keys. An entry with the key "?" does not say what changed.
func (l *logKeyCache) kind(s *fakeLog, name string) Kind {
	return Kind{
		Name: name,
		Load: func(context.Context) error {
			if s.readError != nil {
				return s.readError
			}
			l.loadCount++
			l.keys = nil
			for _, entry := range s.entries {
				if entry.Kind == name {
					l.keys = append(l.keys, entry.Key)
				}
			}
			return nil
		},
		Apply: func(entries []Entry) bool {
			for _, entry := range entries {
				if entry.Key == "?" {
					return false
				}
			}
			return ApplyEach(func(entry Entry) { l.keys = append(l.keys, entry.Key) })(entries)
		},
		AfterLogRead: func(err error) { l.afterLogReadErrors = append(l.afterLogReadErrors, err) },
	}
}

// newFollower makes a follower that reads the log only when a test calls it.
func newFollower(s *fakeLog) *Follower {
	return New(Config{Log: s, Logger: slog.New(slog.DiscardHandler), Settings: Settings{PollInterval: time.Hour}})
}

// wantChangesFound checks that a poll finds some number of entries.
func wantChangesFound(t *testing.T, f *Follower, changes int) {
	t.Helper()
	if got, err := f.RunOnce(t.Context()); got != changes || err != nil {
		t.Errorf("a poll found %d changes, %v; want %d", got, err, changes)
	}
}

func TestMemoryIsLoadedOnceAndThenFollowsTheLog(t *testing.T) {
	s, l := &fakeLog{}, &logKeyCache{}
	s.addEntries("a", "1", "2")
	f := newFollower(s)
	following := f.Register(l.kind(s, "a"))
	if following.Loaded() || following.Version() != 0 {
		t.Error("memory is loaded before anything was read")
	}
	wantChangesFound(t, f, 0)
	s.addEntries("a", "3")
	s.addEntries("b", "of another kind")
	wantChangesFound(t, f, 1)
	if !slices.Equal(l.keys, []string{"1", "2", "3"}) || l.loadCount != 1 || following.Version() != 3 || !following.Loaded() {
		t.Errorf("%v after %d loads at %d", l.keys, l.loadCount, following.Version())
	}
	s.addEntries("a", "4")
	if err := following.Refresh(t.Context()); err != nil || len(l.keys) != 4 {
		t.Errorf("one's own change is not seen at once: %v, %v", l.keys, err)
	}
	if len(l.afterLogReadErrors) != 3 || errors.Join(l.afterLogReadErrors...) != nil {
		t.Errorf("after three looks %v", l.afterLogReadErrors)
	}
}

// AfterLogRead runs after the version of the change is visible.
func TestAfterLogReadRunsAfterTheVersionIsVisible(t *testing.T) {
	s := &fakeLog{}
	s.addEntries("a", "1")
	f := newFollower(s)
	var following *KindFollower
	var at []uint64
	following = f.Register(Kind{
		Name:         "a",
		Load:         func(context.Context) error { at = append(at, following.Version()); return nil },
		Apply:        func([]Entry) bool { at = append(at, following.Version()); return true },
		AfterLogRead: func(error) { at = append(at, following.Version()) },
	})
	wantChangesFound(t, f, 0)
	s.addEntries("a", "2", "3")
	wantChangesFound(t, f, 2)
	if !slices.Equal(at, []uint64{0, 1, 1, 3}) {
		t.Errorf("a load, a read, a change and a read are at %v", at)
	}
}

// After a gap, or an entry that does not say what changed, memory is loaded anew and has every change.
func TestAnUnreadableEntryReloadsMemory(t *testing.T) {
	for name, change := range map[string]func(*fakeLog){
		"a gap":            func(s *fakeLog) { s.entries = []Entry{{Kind: "a", Version: 50, Key: "50"}} },
		"an unclear entry": func(s *fakeLog) { s.addEntries("a", "2", "?") },
	} {
		s, l := &fakeLog{}, &logKeyCache{}
		f := newFollower(s)
		following := f.Register(l.kind(s, "a"))
		s.addEntries("a", "1")
		wantChangesFound(t, f, 0)
		change(s)
		s.readError = errors.New("away")
		if _, err := f.RunOnce(t.Context()); err == nil {
			t.Errorf("%s: SQL is away, and nobody says so", name)
		}
		if len(l.keys) != 1 || following.Version() != 1 || !following.Loaded() {
			t.Errorf("%s: without SQL memory has %v at %d", name, l.keys, following.Version())
		}
		s.readError = nil
		wantChangesFound(t, f, 0)
		newest, _, _ := s.LastSequence(t.Context(), "a")
		if l.loadCount != 2 || following.Version() != newest || l.keys[len(l.keys)-1] != s.entries[len(s.entries)-1].Key {
			t.Errorf("%s: %v after %d loads at %d of %d", name, l.keys, l.loadCount, following.Version(), newest)
		}
	}
}

func TestALoadThatFailsIsTriedAgain(t *testing.T) {
	f := newFollower(&fakeLog{})
	loads := 0
	following := f.Register(Kind{Name: "a", Load: func(context.Context) error {
		if loads++; loads == 1 {
			return errors.New("away")
		}
		return nil
	}})
	if _, err := f.Tail(t.Context()); err == nil || following.Loaded() {
		t.Errorf("a load failed: %v, loaded %t", err, following.Loaded())
	}
	for range 2 {
		if _, err := f.Tail(t.Context()); err != nil || loads != 2 || !following.Loaded() {
			t.Errorf("after %d loads: %v, loaded %t", loads, err, following.Loaded())
		}
	}
}

func TestALongLogIsReadToItsEnd(t *testing.T) {
	s, l := &fakeLog{}, &logKeyCache{}
	f := newFollower(s)
	f.Register(l.kind(s, "a"))
	wantChangesFound(t, f, 0)
	for version := range uint64(2*entriesPerRead + 500) {
		s.entries = append(s.entries, Entry{Kind: "a", Version: version + 1})
	}
	wantChangesFound(t, f, 2*entriesPerRead+500)
}

// The log also has kinds that this version of the program does not know: an older or a newer one wrote them.
func TestAnUnregisteredKindIsIgnored(t *testing.T) {
	s, l := &fakeLog{}, &logKeyCache{}
	f := newFollower(s)
	f.Register(l.kind(s, "a"))
	s.addEntries("nobody's", "1", "2")
	wantChangesFound(t, f, 0)
	s.addEntries("nobody's", "3")
	asked := s.logAfterCalls
	if changes, err := f.Tail(t.Context()); changes != 0 || err != nil || s.logAfterCalls != asked {
		t.Errorf("a hint found %d changes, %v, and read %d logs", changes, err, s.logAfterCalls-asked)
	}
	s.addEntries("a", "1")
	wantChangesFound(t, f, 1)
}

// A hint that finds nothing new costs one SELECT, and one that finds something reads only the kinds that have grown.
func TestAHintReadsOnlyTheKindsThatHaveGrown(t *testing.T) {
	s, one, other := &fakeLog{}, &logKeyCache{}, &logKeyCache{}
	f := newFollower(s)
	f.Register(one.kind(s, "a"))
	f.Register(other.kind(s, "b"))
	f.Register(Kind{Name: "c", Load: func(context.Context) error { return nil }})
	wantChangesFound(t, f, 0)
	tail := func(what string, changes int, logs int) {
		t.Helper()
		s.lastSequencesCalls.Store(0)
		s.logAfterCalls = 0
		got, err := f.Tail(t.Context())
		if err != nil || got != changes || s.lastSequencesCalls.Load() != 1 || s.logAfterCalls != logs {
			t.Errorf("%s: %d changes, %d SELECTs of last sequences and %d of logs, %v", what, got, s.lastSequencesCalls.Load(), s.logAfterCalls, err)
		}
	}
	tail("nothing new", 0, 0)
	s.addEntries("b", "1")
	tail("a change", 1, 1)
	s.addEntries("c", "1")
	tail("a change of what is loaded each time", 0, 2)
	tail("nothing new again", 0, 0)
	if len(one.keys) != 0 || len(other.keys) != 1 {
		t.Errorf("memory has %v and %v", one.keys, other.keys)
	}
}

func TestRunFollowsTheLogWhenWoken(t *testing.T) {
	f := newFollower(&fakeLog{}) // its polls are an hour apart, so only Wake makes it read
	ctx, cancel := context.WithCancel(t.Context())
	beside := make(chan struct{})
	f.RegisterLoop(func(ctx context.Context) { <-ctx.Done(); close(beside) })
	done := make(chan error, 1)
	go func() { done <- f.Run(ctx) }()
	f.Wake()
	f.Wake() // never blocks
	cancel()
	if err := <-done; !errors.Is(err, context.Canceled) {
		t.Errorf("Run ended with %v", err)
	}
	select {
	case <-beside:
	default:
		t.Error("Run ended before what runs beside it")
	}
}

// Hints are followed at once, many concurrent ones by few reads of the log, and the last one is never left out.
func TestHintsAreFollowedTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &fakeLog{}
		f := newFollower(s)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- f.Run(ctx) }()
		synctest.Wait()
		for range 1000 {
			f.Wake()
			synctest.Wait()
		}
		if s.lastSequencesCalls.Load() != 1 {
			t.Errorf("%d looks for hints of one moment, want 1 at once", s.lastSequencesCalls.Load())
		}
		<-time.After(time.Minute) // by the fake clock of synctest
		synctest.Wait()
		if s.lastSequencesCalls.Load() != 2 {
			t.Errorf("%d looks in the end, want another for the last hint", s.lastSequencesCalls.Load())
		}
		cancel()
		<-ended
	})
}

// In any order of appends, trims, unclear entries and failures, memory agrees with the log after every read that succeeds.
func TestMemoryIsTheLogAfterEveryHistory(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		s, l := &fakeLog{}, &logKeyCache{}
		f := newFollower(s)
		all, kept := []string(nil), 0 // all is the full log, including trimmed entries
		kind := l.kind(s, "a")
		kind.Load = func(context.Context) error { l.keys = slices.Clone(all); return s.readError }
		following := f.Register(kind)
		for step := range rapid.IntRange(1, 40).Draw(r, "steps") {
			switch rapid.IntRange(0, 5).Draw(r, "what") {
			case 0, 1:
				key := fmt.Sprint(step)
				if rapid.IntRange(0, 5).Draw(r, "unclear") == 0 {
					key = "?"
				}
				all = append(all, key)
				s.entries = append(s.entries, Entry{Kind: "a", Version: uint64(len(all)), Key: key})
			case 2: // all but the newest entry may be trimmed
				kept = max(kept, rapid.IntRange(0, max(0, len(all)-1)).Draw(r, "trim"))
				s.entries = slices.DeleteFunc(s.entries, func(e Entry) bool { return e.Version <= uint64(kept) })
			case 3:
				s.readError = errors.New("away")
				_, _ = f.RunOnce(context.Background())
				s.readError = nil
			case 4:
				_, _ = f.Tail(context.Background())
			case 5:
				if _, err := f.RunOnce(context.Background()); err != nil {
					r.Fatal(err)
				}
				if !slices.Equal(l.keys, all) || following.Version() != uint64(len(all)) {
					r.Fatalf("memory has %v at %d, SQL %v", l.keys, following.Version(), all)
				}
			}
		}
	})
}

// A kind that panics is loaded anew, and neither it nor a poll task that panics keeps the others from going on.
func TestAPanickingKindDoesNotStopTheOthers(t *testing.T) {
	s, bad, good := &fakeLog{}, &logKeyCache{}, &logKeyCache{}
	f := newFollower(s)
	kind := bad.kind(s, "a")
	apply := kind.Apply
	kind.Apply = func(entries []Entry) bool {
		apply(entries[:1])
		panic("while it applies")
	}
	f.Register(kind)
	f.Register(good.kind(s, "b"))
	ran := 0
	f.RegisterPollTask(PollTask{Name: "explodes", Phase: AfterPollRead, Run: func(context.Context) error { panic("in a poll task") }})
	f.RegisterPollTask(PollTask{Name: "counts", Phase: AfterPollRead, Run: func(context.Context) error { ran++; return nil }})
	_, _ = f.RunOnce(t.Context())
	s.addEntries("a", "1", "2")
	s.addEntries("b", "3")
	_, err := f.RunOnce(t.Context())
	if text := fmt.Sprint(err); !strings.Contains(text, "while it applies") || !strings.Contains(text, "in a poll task") {
		t.Errorf("the error is %v", err)
	}
	if !slices.Equal(good.keys, []string{"3"}) || ran != 2 {
		t.Errorf("the other kind has %v, and the other task ran %d times", good.keys, ran)
	}
	_, _ = f.RunOnce(t.Context())
	if !slices.Equal(bad.keys, []string{"1", "2"}) || bad.loadCount != 2 {
		t.Errorf("after %d loads the kind has %v", bad.loadCount, bad.keys)
	}
}

// A loop beside the log that panics begins again.
func TestARegisteredLoopThatPanicsRestarts(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := newFollower(&fakeLog{})
		runs := 0
		f.RegisterLoop(func(ctx context.Context) {
			if runs++; runs == 1 {
				panic("while it runs")
			}
			<-ctx.Done()
		})
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- f.Run(ctx) }()
		<-time.After(time.Minute)
		cancel()
		if <-done; runs != 2 {
			t.Errorf("it ran %d times", runs)
		}
	})
}
