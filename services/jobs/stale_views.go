package jobs

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"tidings/services"
)

// maxOwedViewUpdates bounds how many updates are remembered. Beyond it, a command is visible only after its job has run.
const maxOwedViewUpdates = 100_000

// readerUpdateTimeoutDivisor is the divisor by which a reader has less time for an owed update than a command: the reader can read
// from SQL instead, and if Redis hangs the time is lost.
const readerUpdateTimeoutDivisor = 6

// staleViews are the updates of actors' own views that this node owes: their facts are committed and acknowledged, and the
// update after the commit failed. Until it succeeds, the actor's views in Redis are older than the answers to their
// commands, so their reads come from SQL. An update that panics when it is tried again is left to its job.
type staleViews struct {
	userCount          atomic.Int64 // number of users with an owed update: readers check this first
	unkeyedUpdateCount atomic.Int64 // number of failed updates with neither a CoalesceKey nor an input: no other update replaces them

	mu          sync.Mutex
	byUser      map[services.UserID]*owedViewUpdates
	updateCount int // of all updates
}

// owedViewUpdates are the updates that one actor's views lack.
type owedViewUpdates struct {
	updates map[string]*owedViewUpdate // by kind, see recordOwedUpdate
	trying  bool                       // a try is under way
}

// owedViewUpdate brings a view up to date from the facts. It may run again at any time.
type owedViewUpdate struct {
	run            func(context.Context) error
	commandApplied bool // it is of a command that was applied, and runs its AfterApply
}

// recordOwedUpdate records a failed update. A later update of its kind replaces it, because each update reads the facts anew or
// projects a newer state of them. The update of a repetition runs no AfterApply, so it does not replace the update of a command
// that was applied.
func (s *staleViews) recordOwedUpdate(cmd *Command) {
	kind := cmd.CoalesceKey
	if kind == "" {
		hash, err := inputHash(cmd.Name, cmd.Input)
		if err != nil { // without an input no other update equals it
			hash = fmt.Append(nil, s.unkeyedUpdateCount.Add(1))
		}
		kind = cmd.Name + "\x00" + string(hash)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byUser == nil {
		s.byUser = map[services.UserID]*owedViewUpdates{}
	}
	actor := s.byUser[cmd.Actor]
	if actor == nil {
		actor = &owedViewUpdates{updates: map[string]*owedViewUpdate{}}
	}
	had := actor.updates[kind]
	if had != nil && had.commandApplied && !cmd.applied {
		return
	}
	if had == nil {
		// The update is not recorded: until its job has run, the actor may read a view without the change.
		if s.updateCount == maxOwedViewUpdates {
			return
		}
		s.updateCount++
	}
	actor.updates[kind] = &owedViewUpdate{cmd.viewUpdate(), cmd.applied}
	s.byUser[cmd.Actor] = actor
	s.userCount.Store(int64(len(s.byUser)))
}

// beginTry begins a try for an actor. stale reports whether an update is owed; updates is empty if another try is under way.
func (s *staleViews) beginTry(actor services.UserID) (updates map[string]*owedViewUpdate, stale bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	its := s.byUser[actor]
	if its == nil || its.trying {
		return nil, its != nil
	}
	its.trying = true
	updates = make(map[string]*owedViewUpdate, len(its.updates))
	for kind, one := range its.updates {
		updates[kind] = one
	}
	return updates, true
}

// endTry ends a try. The updates in done are owed no longer, unless an update of the same kind failed meanwhile for a newer command.
// It reports whether any update is still owed.
func (s *staleViews) endTry(actor services.UserID, done map[string]*owedViewUpdate) (stale bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	its := s.byUser[actor]
	// If a newer failure has replaced an update meanwhile, the newer update is still owed.
	its.trying = false
	for kind, one := range done {
		if its.updates[kind] == one {
			delete(its.updates, kind)
			s.updateCount--
		}
	}
	if len(its.updates) == 0 {
		delete(s.byUser, actor)
	}
	s.userCount.Store(int64(len(s.byUser)))
	return len(its.updates) > 0
}

// actors lists the users with owed updates.
func (s *staleViews) actors() []services.UserID {
	s.mu.Lock()
	defer s.mu.Unlock()
	actors := make([]services.UserID, 0, len(s.byUser))
	for actor := range s.byUser {
		actors = append(actors, actor)
	}
	return actors
}

// ViewsStale reports whether a user's views in Redis lack a change that this node has acknowledged. It first tries, for a
// short time, to bring them up to date. After true, the caller reads the facts. It costs nothing while no user's views are
// stale.
func (e *Engine) ViewsStale(ctx context.Context, user services.UserID) bool {
	if e.staleViews.userCount.Load() == 0 {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, e.cfg.AfterCommitTimeout/readerUpdateTimeoutDivisor)
	defer cancel()
	return e.tryUpdates(ctx, user)
}

// OwesUpdate is ViewsStale without a try.
func (e *Engine) OwesUpdate(user services.UserID) bool {
	if e.staleViews.userCount.Load() == 0 {
		return false
	}
	e.staleViews.mu.Lock()
	defer e.staleViews.mu.Unlock()
	return e.staleViews.byUser[user] != nil
}

// StaleAmong is ViewsStale for several users, whose tries share its time; nil when no user's views are stale.
func (e *Engine) StaleAmong(ctx context.Context, users []services.UserID) map[services.UserID]bool {
	if e.staleViews.userCount.Load() == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, e.cfg.AfterCommitTimeout/readerUpdateTimeoutDivisor)
	defer cancel()
	stale := map[services.UserID]bool{}
	for _, user := range users {
		if e.tryUpdates(ctx, user) {
			stale[user] = true
		}
	}
	return stale
}

// UpdateStaleViews tries the owed updates of all users, each for as long as a command would. It stops once it has failed
// for a few users, and returns how many users still have owed updates.
func (e *Engine) UpdateStaleViews(ctx context.Context) (left int) {
	const enough = 8
	failed := 0
	for _, actor := range e.staleViews.actors() {
		if e.tryUpdatesWithTimeout(ctx, actor) {
			if failed++; failed == enough {
				break
			}
		}
	}
	return int(e.staleViews.userCount.Load())
}

// tryUpdatesWithTimeout tries one user's updates for as long as a command would.
func (e *Engine) tryUpdatesWithTimeout(ctx context.Context, actor services.UserID) (stale bool) {
	ctx, cancel := context.WithTimeout(ctx, e.cfg.AfterCommitTimeout)
	defer cancel()
	return e.tryUpdates(ctx, actor)
}

// tryUpdates tries the updates that a user's views lack, and reports whether some are still owed. It stops at the first failure:
// the engine that did not answer one will not answer the others. An update that panics is owed no longer: it would panic at every
// read, and its job does the same work.
func (e *Engine) tryUpdates(ctx context.Context, user services.UserID) (stale bool) {
	updates, stale := e.staleViews.beginTry(user)
	if updates == nil {
		return stale
	}
	done := make(map[string]*owedViewUpdate, len(updates))
	for kind, one := range updates {
		if err := e.updateViews(ctx, one.run); err != nil && !services.IsPanic(err) {
			e.log.Debug("the actor's own view is still not updated", "error", err)
			break
		}
		done[kind] = one
	}
	return e.staleViews.endTry(user, done)
}
