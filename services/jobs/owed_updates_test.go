package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"tidings/services"
)

// errUpdateFailed is the error of an update of projections that fails.
var errUpdateFailed = errors.New("missed")

// When the update after a command fails, the actor's projections are stale as soon as the command is answered, and until an update
// succeeds. Other users' projections are not stale.
func TestProjectionsAreStaleUntilTheUpdateSucceeds(t *testing.T) {
	n := sqliteNode(t, nil)
	ctx := t.Context()
	failure := errUpdateFailed
	o := newCommand(1, "mark")
	o.AfterCommit = func(context.Context) error {
		o.afterCommitCount++
		return failure
	}
	n.must(n.commit(o))
	for range 2 {
		if !n.ProjectionsStale(ctx, 1) || n.ProjectionsStale(ctx, 2) {
			t.Error("the actor alone is to be read from the facts")
		}
	}
	if among := n.StaleAmong(ctx, []services.UserID{1, 2}); !among[1] || among[2] {
		t.Errorf("stale are %v", among)
	}
	if left := n.UpdateStaleProjections(ctx); left != 1 || o.afterCommitCount != 5 {
		t.Errorf("%d left after %d tries", left, o.afterCommitCount)
	}
	failure = nil
	if n.ProjectionsStale(ctx, 1) || n.StaleAmong(ctx, []services.UserID{1}) != nil || o.afterCommitCount != 6 {
		t.Errorf("stale after an update that succeeded, %d tries", o.afterCommitCount)
	}
}

// While one reader runs an owed update, other readers do not wait and see the projections as stale. If a newer command's update fails
// meanwhile, the update of the newer command stays owed.
func TestAnUpdateThatFailsAgainStaysOwed(t *testing.T) {
	n := sqliteNode(t, nil)
	ctx := t.Context()
	mark := func(own func(context.Context) error) {
		o := newCommand(1, "mark")
		o.AfterCommit = own
		n.must(n.commit(o))
	}
	calls := 0
	mark(func(context.Context) error {
		if calls++; calls == 1 {
			return errUpdateFailed
		}
		if !n.ProjectionsStale(ctx, 1) {
			t.Error("a second reader takes projections for whole while they are being updated")
		}
		mark(func(context.Context) error { return errUpdateFailed })
		return nil
	})
	for range 2 {
		if !n.ProjectionsStale(ctx, 1) {
			t.Error("the update of the newer command is forgotten")
		}
	}
	if calls != 2 {
		t.Errorf("the older command's update ran %d times", calls)
	}
}

// An update that panics is not owed any longer: its job does the same work. The actor's other updates are made in the same try.
func TestAnUpdateThatPanicsIsDropped(t *testing.T) {
	settings, log := recordLog()
	n := sqliteNode(t, settings)
	faulty, away, made, calls := "3", true, 0, 0
	for i := range 6 {
		o := newCommand(1, fmt.Sprint(i))
		o.AfterCommit = func(context.Context) error {
			if away {
				return errUpdateFailed
			}
			if o.Name == faulty {
				calls++
				panic("while it updates")
			}
			made++
			return nil
		}
		n.must(n.commit(o))
	}
	away = false
	for range 2 {
		if n.ProjectionsStale(t.Context(), 1) || n.OwesUpdate(1) || n.UpdateStaleProjections(t.Context()) != 0 {
			t.Error("an update is owed although each has been made or has panicked")
		}
	}
	if made != 5 || calls != 1 || strings.Count(log.String(), "panic: while it updates") != 1 {
		t.Errorf("%d updates are made, the faulty one is tried %d times: %s", made, calls, log)
	}
}

// If one update panics and another fails in the same try, the one that failed is still owed.
func TestAPanicLeavesOtherUpdatesOwed(t *testing.T) {
	n := sqliteNode(t, nil)
	panics, failure, made := false, errUpdateFailed, 0
	for _, name := range []string{"faulty", "late"} {
		o := newCommand(1, name)
		o.AfterCommit = func(context.Context) error {
			if panics && name == "faulty" {
				panic("while it updates")
			}
			if failure == nil {
				made++
			}
			return failure
		}
		n.must(n.commit(o))
	}
	panics = true
	if !n.ProjectionsStale(t.Context(), 1) {
		t.Error("an update that failed is owed no longer")
	}
	failure = nil
	if n.ProjectionsStale(t.Context(), 1) || made != 1 {
		t.Errorf("%d updates are made", made)
	}
}

// If updates of one kind fail several times for one actor, one of them is owed and runs again: commands of one name and input have one
// kind.
func TestEachKindOfUpdateIsOwedOnce(t *testing.T) {
	n := sqliteNode(t, nil)
	failure := errUpdateFailed
	made := map[string]int{}
	for i := range 6 {
		name := fmt.Sprint(i % 3)
		o := newCommand(1, name)
		o.AfterCommit = func(context.Context) error {
			if failure == nil {
				made[name]++
			}
			return failure
		}
		n.must(n.commit(o))
	}
	failure = nil
	if n.ProjectionsStale(t.Context(), 1) || made["0"] != 1 || made["1"] != 1 || made["2"] != 1 {
		t.Errorf("updates made: %v", made)
	}
}

// A reader waits a shorter time for an owed update than the command did, because the reader can use the facts.
func TestReadersHaveLessTimeForUpdatesThanCommands(t *testing.T) {
	n := sqliteNode(t, nil)
	var has time.Duration // the time of the last try
	o := newCommand(1, "mark")
	o.AfterCommit = func(ctx context.Context) error {
		until, _ := ctx.Deadline()
		has = time.Until(until)
		return errUpdateFailed
	}
	n.must(n.commit(o))
	for name, read := range map[string]func(){
		"one user":      func() { n.ProjectionsStale(t.Context(), 1) },
		"several users": func() { n.StaleAmong(t.Context(), []services.UserID{2, 1}) },
	} {
		if read(); has <= 0 || has > time.Second {
			t.Errorf("%s: an update has %v of the 5 s of a command", name, has)
		}
	}
	if n.UpdateStaleProjections(t.Context()); has < time.Second {
		t.Errorf("an update that nobody waits for has %v of 5 s", has)
	}
}
