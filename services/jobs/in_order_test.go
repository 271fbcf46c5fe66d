package jobs_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"tidings/services"
	"tidings/services/jobs"
	"tidings/services/sql"
)

// If a command of CommitInOrder fails with a transient error, the later ones are not applied, and no idempotency key remembers the
// failure. A refusal does not hinder the later commands.
func TestCommitInOrderStopsAtATransientError(t *testing.T) {
	eachDatabase(t, func(t *testing.T, n *node) {
		for _, code := range []services.Code{
			services.Conflict, services.NotFound, services.Forbidden, services.Invalid,
			services.Unavailable, services.RateLimited, services.Internal,
		} {
			failedForNow := slices.Contains([]services.Code{services.Unavailable, services.RateLimited, services.Internal}, code)
			name := fmt.Sprint("in order ", code)
			ill := true
			second := switchCommand(name, name+"2", true)
			apply := second.Apply
			second.Apply = func(ctx context.Context, tx *sql.Tx) ([]string, error) {
				ids, err := apply(ctx, tx)
				if ill {
					err = errors.Join(err, services.Errorf(code, "of the test"))
				}
				return ids, err
			}
			cmds := func() []*jobs.Command {
				first, third := newCommand(1, name+" first"), switchCommand(name, name+"3", false)
				first.IdempotencyKey = name + "1"
				return []*jobs.Command{&first.Command, second, third}
			}
			errs := n.CommitInOrder(t.Context(), cmds()...)
			if errs[0] != nil || services.CodeOf(errs[1]) != code || errors.Is(errs[2], jobs.ErrEarlierCommandFailed) != failedForNow || errs[2] == nil {
				t.Errorf("%s: %v", code, errs)
			}
			ill = false
			errs = n.CommitInOrder(t.Context(), cmds()...)
			if failedForNow && errors.Join(errs...) != nil {
				t.Errorf("%s, again: %v", code, errs)
			}
			if n := n.countLogEntries(name + " first"); n != 1 {
				t.Errorf("%s: the first command was applied %d times", code, n)
			}
		}
	})
}

// A panic of a command counts as a transient error: CommitInOrder applies no later command.
func TestNothingIsAppliedAfterAPanic(t *testing.T) {
	eachDatabase(t, func(t *testing.T, n *node) {
		panics, after := newCommand(1, "panics"), newCommand(1, "after")
		panics.Apply = func(context.Context, *sql.Tx) ([]string, error) { panic("of the test") }
		errs := n.CommitInOrder(t.Context(), &panics.Command, &after.Command)
		if services.CodeOf(errs[0]) != services.Internal || !errors.Is(errs[1], jobs.ErrEarlierCommandFailed) || n.countLogEntries("after") != 0 {
			t.Errorf("%v", errs)
		}
	})
}

// In a long batch, the commands before the one that fails with a transient error are applied, each once, and none after it.
func TestALongBatchInOrder(t *testing.T) {
	const commands, ill = 80, 50 // ill is the index of the command that fails
	eachDatabase(t, func(t *testing.T, n *node) {
		cmds := make([]*jobs.Command, commands)
		for i := range cmds {
			cmds[i] = switchCommand("switch", fmt.Sprint("k", i), i%2 == 0)
		}
		apply := cmds[ill].Apply
		cmds[ill].Apply = func(ctx context.Context, tx *sql.Tx) ([]string, error) {
			ids, err := apply(ctx, tx)
			return ids, errors.Join(err, errors.New("of the test"))
		}
		for i, err := range n.CommitInOrder(t.Context(), cmds...) {
			if i < ill && err != nil || i == ill && services.CodeOf(err) != services.Internal || i > ill && !errors.Is(err, jobs.ErrEarlierCommandFailed) {
				t.Errorf("command %d: %v", i, err)
			}
		}
		if n := n.countLogEntries("switch"); n != ill {
			t.Errorf("%d commands were applied, want %d", n, ill)
		}
	})
}
