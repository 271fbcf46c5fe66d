package changelog

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
)

func TestAKindIsRegisteredOnce(t *testing.T) {
	f := newFollower(&fakeLog{})
	f.Register(Kind{Name: "a"})
	f.Register(Kind{Name: "b"})
	f.RegisterPollTask(PollTask{Name: "a"})
	refused := func(what string, register func()) {
		defer func() {
			if said, _ := recover().(string); !strings.Contains(said, `"a" is registered twice`) {
				t.Errorf("%s twice: %q", what, said)
			}
		}()
		register()
	}
	refused("a kind", func() { f.Register(Kind{Name: "a"}) })
	refused("a poll task", func() { f.RegisterPollTask(PollTask{Name: "a", Phase: AfterPollRead}) })
	if len(f.kinds) != 2 || len(f.pollTasks) != 1 {
		t.Errorf("%d kinds and %d poll tasks are registered", len(f.kinds), len(f.pollTasks))
	}
}

// If a kind cannot be read or a poll task fails, the other kinds are still read and the other tasks still run. The error names what
// failed.
func TestAFailingKindDoesNotStopTheOthers(t *testing.T) {
	s, l := &fakeLog{}, &logKeyCache{}
	f := newFollower(s)
	broken := errors.New("broken")
	f.Register(Kind{Name: "first", Load: func(context.Context) error { return broken }})
	f.Register(l.kind(s, "a"))
	ran := 0
	f.RegisterPollTask(PollTask{Name: "beside", Phase: BeforeLogRead, Run: func(context.Context) error { return broken }})
	f.RegisterPollTask(PollTask{Name: "after", Phase: AfterPollRead, Run: func(context.Context) error { ran++; return nil }})
	_, err := f.RunOnce(t.Context())
	if !errors.Is(err, broken) || !strings.Contains(err.Error(), "log first: broken") || !strings.Contains(err.Error(), "beside: broken") {
		t.Errorf("the errors are %v", err)
	}
	if l.loadCount != 1 || ran != 1 {
		t.Errorf("the other kind was loaded %d times, %d tasks ran", l.loadCount, ran)
	}
}

// A poll reads the log and runs all work, in order; a hint reads the log and runs only the work of AfterEachLogRead.
func TestPollTasksRunInTheirPhases(t *testing.T) {
	s := &fakeLog{}
	f := newFollower(s)
	var order []string
	note := func(name string) func(context.Context) error {
		return func(context.Context) error { order = append(order, name); return nil }
	}
	f.RegisterPollTask(PollTask{"3", AfterPollRead, note("after the log")})
	f.RegisterPollTask(PollTask{"2", AfterEachLogRead, note("after a read")})
	f.RegisterPollTask(PollTask{"1", BeforeLogRead, note("before the log")})
	f.Register(Kind{Name: "a", Load: note("log")})
	wantChangesFound(t, f, 0)
	if want := []string{"before the log", "log", "after a read", "after the log"}; !slices.Equal(order, want) {
		t.Errorf("a poll runs %v, want %v", order, want)
	}
	order = nil
	if _, err := f.Tail(t.Context()); err != nil || !slices.Equal(order, []string{"after a read"}) {
		t.Errorf("a hint runs %v, %v", order, err)
	}
}

// In each poll of the follower, listeners are notified once if some change concerns all users, and not otherwise.
func TestSharedChangesAreNotified(t *testing.T) {
	s := &fakeLog{}
	f := newFollower(s)
	notified, loads, applied := 0, 0, 0
	f.Register(Kind{
		Name: "shared", ConcernsAllUsers: true,
		Load:  func(context.Context) error { loads++; return nil },
		Apply: ApplyEach(func(Entry) { applied++ }),
	})
	f.Register((&logKeyCache{}).kind(s, "own"))
	f.OnSharedChange(func() { notified++ })
	step := func(wantNotified, wantLoads, wantApplied int) {
		t.Helper()
		if _, err := f.RunOnce(t.Context()); err != nil {
			t.Fatal(err)
		}
		if notified != wantNotified || loads != wantLoads || applied != wantApplied {
			t.Errorf("notified %d times, loaded %d, applied %d; want %d, %d, %d", notified, loads, applied, wantNotified, wantLoads, wantApplied)
		}
	}
	step(1, 1, 0)
	step(1, 1, 0)
	s.addEntries("shared", "1", "2")
	step(2, 1, 2)
	s.addEntries("own", "1")
	step(2, 1, 2)
	s.entries = []Entry{{Kind: "shared", Version: 9}} // the log was trimmed while this node was away
	step(3, 2, 2)
}
