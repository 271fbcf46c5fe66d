package jobs_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"tidings/services/jobs"
)

// withRecordedUpdates makes a command record its calls of AfterApply and AfterCommit in notes, as "apply NAME" and "commit NAME".
func withRecordedUpdates(o *command, name string, notes *[]string) *jobs.Command {
	note := func(what string) func(context.Context) error {
		return func(context.Context) error {
			*notes = append(*notes, what+" "+name)
			return nil
		}
	}
	o.AfterApply, o.AfterCommit = note("apply"), note("commit")
	return &o.Command
}

// A command that is repeated under its key runs AfterCommit, which brings the projections up to date, but not AfterApply. That is
// so on PostgreSQL too, where Apply may have run before it was known that the key has an answer.
func TestARepetitionRunsNoAfterApply(t *testing.T) {
	eachDatabase(t, func(t *testing.T, n *node) {
		var notes []string
		for _, name := range []string{"first", "again"} {
			o := newCommand(1, "make")
			o.IdempotencyKey = "k"
			n.must(n.Commit(t.Context(), withRecordedUpdates(o, name, &notes))[0])
		}
		if want := []string{"apply first", "commit first", "commit again"}; !slices.Equal(notes, want) {
			t.Errorf("the updates are %v, want %v", notes, want)
		}
	})
}

// Of commands with one CoalesceKey, the last one that was applied updates the projection, also if repetitions come after it.
func TestTheLastAppliedOfCoalescedCommandsUpdatesTheProjection(t *testing.T) {
	eachDatabase(t, func(t *testing.T, n *node) {
		var notes []string
		made := func(name, key string) *jobs.Command {
			o := newCommand(1, "make")
			o.IdempotencyKey, o.CoalesceKey = key, "projection"
			return withRecordedUpdates(o, name, &notes)
		}
		n.must(n.Commit(t.Context(), made("old", "k1"))[0])
		notes = nil
		for _, err := range n.Commit(t.Context(), made("first", "k2"), made("second", "k3"), made("again", "k1")) {
			n.must(err)
		}
		if want := []string{"apply second", "commit second"}; !slices.Equal(notes, want) {
			t.Errorf("the updates are %v, want %v", notes, want)
		}
	})
}

// If AfterApply fails, the actor's projections are stale, and the engine owes them the update. When it tries the update again, it runs
// AfterApply again.
func TestAFailedAfterApplyIsTriedAgain(t *testing.T) {
	n := sqliteNode(t, nil)
	var notes []string
	o := newCommand(1, "make")
	cmd := withRecordedUpdates(o, "once more", &notes)
	apply := cmd.AfterApply
	cmd.AfterApply = func(context.Context) error { return errors.New("of the test") }
	n.must(n.Commit(t.Context(), cmd)[0])
	if !cmd.ProjectionsStale() || len(notes) > 0 {
		t.Errorf("stale %t, updates %v", cmd.ProjectionsStale(), notes)
	}
	cmd.AfterApply = apply
	if n.ProjectionsStale(t.Context(), 1) {
		t.Error("the projections are still stale")
	}
	if want := []string{"apply once more", "commit once more"}; !slices.Equal(notes, want) {
		t.Errorf("the updates are %v, want %v", notes, want)
	}
}

// A repetition of a command whose update is owed fails too. What is owed is still the update of the command that was applied, with its
// AfterApply.
func TestARepetitionDoesNotReplaceTheUpdateThatIsOwed(t *testing.T) {
	for _, coalesced := range []string{"", "projection"} {
		eachDatabase(t, func(t *testing.T, n *node) {
			var notes []string
			failure := errUpdateFailed
			for _, name := range []string{"first", "again"} {
				o := newCommand(1, "make")
				o.IdempotencyKey, o.CoalesceKey = "k", coalesced
				cmd := withRecordedUpdates(o, name, &notes)
				commit := cmd.AfterCommit
				cmd.AfterCommit = func(ctx context.Context) error {
					if failure != nil {
						return failure
					}
					return commit(ctx)
				}
				n.must(n.Commit(t.Context(), cmd)[0])
			}
			failure, notes = nil, nil
			if n.ProjectionsStale(t.Context(), 1) {
				t.Error("the projections are still stale")
			}
			if want := []string{"apply first", "commit first"}; !slices.Equal(notes, want) {
				t.Errorf("the updates are %v, want %v", notes, want)
			}
		})
	}
}
