package jobs

import (
	"context"
	"errors"

	"golang.org/x/sync/errgroup"

	"tidings/services"
	"tidings/services/sql"
)

// Commit is the only way to run mutations. It commits the facts and jobs of all commands in one transaction; then it updates the
// actors' own projections, for at most 300 ms; then it answers. A command that fails does not affect the others; errs[i] is the error
// of cmds[i].
func (e *Engine) Commit(ctx context.Context, cmds ...*Command) (errs []error) {
	return e.commit(ctx, e.db.WriteAll, cmds)
}

// CommitInOrder commits commands as Commit does, and each may need the effects of those before it. After a command that fails for a
// reason that may pass (services.IsTransient), the later ones are not applied. Their error is ErrEarlierCommandFailed, and no
// key remembers it: the failed command and the later ones can be committed again, in their order.
func (e *Engine) CommitInOrder(ctx context.Context, cmds ...*Command) (errs []error) {
	inOrder := func(ctx context.Context, writes []func(*sql.Tx) error) []error {
		return e.db.WriteAll(sql.WithOrderedWrites(ctx), writes)
	}
	return e.commit(ctx, inOrder, cmds)
}

// ErrEarlierCommandFailed is the error of a command of CommitInOrder that was not applied.
var ErrEarlierCommandFailed = sql.ErrEarlierWriteFailed

// commit does the work of Commit and CommitInOrder. writeAll runs the commands in one transaction.
func (e *Engine) commit(ctx context.Context, writeAll func(context.Context, []func(*sql.Tx) error) []error, cmds []*Command) (errs []error) {
	few := len(cmds) <= maxPriorityCommitSize
	if few {
		ctx = withPriority(ctx)
	}
	writes := make([]func(*sql.Tx) error, len(cmds))
	for i, cmd := range cmds {
		writes[i] = func(tx *sql.Tx) error { return cmd.run(ctx, tx) }
	}
	errs = writeAll(ctx, writes)
	for i, cmd := range cmds {
		switch {
		// The writes of an unchanged command were rolled back, but it counts as successful.
		case errors.Is(errs[i], ErrUnchanged):
			errs[i], cmd.unchanged = nil, true
		case errs[i] == nil && cmd.refusal != nil:
			errs[i] = cmd.refusal
		}
	}
	if few {
		e.wakeAllButShort()
	} else {
		e.Wake()
	}
	e.afterCommit(ctx, cmds, errs)
	return errs
}

// Up to maxPriorityCommitSize commands that are committed together are short work, and their jobs go ahead of the jobs of bulk work,
// such as an ingest of 500 events. If more are committed together, the actors' own projections are updated at once only as long as that
// takes at most maxSQLReadsAfterBulkCommit reads of SQL, and by the jobs otherwise: each single read would cost several round trips to
// PostgreSQL.
const (
	maxPriorityCommitSize      = 20 // up to so many commands that are committed together are short work
	maxSQLReadsAfterBulkCommit = 3  // reads of SQL by which the projections may be updated at once after a larger commit
)

// afterCommit updates the actors' own projections: one actor's in order, several actors' in parallel.
func (e *Engine) afterCommit(ctx context.Context, cmds []*Command, errs []error) {
	byActor := map[services.UserID][]*Command{}
	for i, cmd := range cmds {
		if errs[i] == nil && cmd.Changed() && cmd.projectionUpdate() != nil {
			byActor[cmd.Actor] = append(byActor[cmd.Actor], cmd)
		}
	}
	// The fact is committed: a client that disconnects must not leave its own projection stale.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), e.cfg.AfterCommitTimeout)
	defer cancel()
	if len(cmds) > maxPriorityCommitSize {
		ctx = sql.LimitReads(ctx, maxSQLReadsAfterBulkCommit)
	}
	var group errgroup.Group
	// Only an ingest has several actors. Eight at a time leave database connections for other requests.
	group.SetLimit(8)
	for _, list := range byActor {
		group.Go(func() error {
			last := map[string]*Command{}
			for _, cmd := range list {
				if cmd.applied || last[cmd.CoalesceKey] == nil || !last[cmd.CoalesceKey].applied {
					last[cmd.CoalesceKey] = cmd
				}
			}
			for _, cmd := range list {
				if cmd.CoalesceKey != "" && last[cmd.CoalesceKey] != cmd {
					continue
				}
				if err := e.updateProjections(ctx, cmd.projectionUpdate()); err != nil {
					cmd.projectionsStale = true
					e.owedUpdates.recordOwedUpdate(cmd)
					e.log.Debug("the actor's own projection was not updated in time; the job updates it", "mutation", cmd.Name, "error", err)
				}
			}
			return nil
		})
	}
	_ = group.Wait() // failures are logged above, and the jobs make up for them
}

// updateProjections runs an update of an actor's projections. A panic is an error of the update alone: its command is committed, and the job
// does the same work.
func (e *Engine) updateProjections(ctx context.Context, update func(context.Context) error) (err error) {
	defer func() {
		if cause := recover(); cause != nil {
			err = services.NewPanicError(cause)
			e.log.Error("an update of the actor's own projection panicked", "error", err)
		}
	}()
	return update(ctx)
}
