package jobs

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"

	"tidings/services"
)

// maxOwedUpdates bounds how many failed updates of projections are remembered. Beyond it, the actor's projections show a command
// only after its job has run.
const maxOwedUpdates = 100_000

// readerUpdateTimeoutDivisor divides the time that a command has for the update of its projections: a reader has only that part of it
// for an owed update. The reader can read from SQL instead, and if Redis hangs the time is lost.
const readerUpdateTimeoutDivisor = 6

// owedUpdates are the updates of actors' own projections that this node owes: their facts are committed and acknowledged, and the
// update after the commit failed. Until it succeeds, the actor's projections in Redis are older than the answers to their
// commands, so their reads come from SQL. An update that panics when it is tried again is left to its job.
type owedUpdates struct {
	userCount          atomic.Int64 // number of users with an owed update: readers check this first
	unkeyedUpdateCount atomic.Int64 // number of failed updates with neither a CoalesceKey nor an input: no other update replaces them

	mu          sync.Mutex // guards byUser and updateCount
	byUser      map[services.UserID]*owedUpdatesOfActor
	updateCount int // the owed updates of all users together
}

// owedUpdatesOfActor are the updates that one actor's projections lack.
type owedUpdatesOfActor struct {
	updates map[string]*owedUpdate // by kind, see recordOwedUpdate
	trying  bool                   // a reader or the engine tries the updates now
}

// owedUpdate brings a projection up to date from the facts. It may run again at any time.
type owedUpdate struct {
	run            func(context.Context) error // updates the projection
	commandApplied bool                        // it is of a command that was applied, and runs its AfterApply
}

// recordOwedUpdate records a failed update. A later update of its kind replaces it, because each update reads the facts anew or
// projects a newer state of them. The update of a repetition runs no AfterApply, so it does not replace the update of a command
// that was applied.
func (s *owedUpdates) recordOwedUpdate(cmd *Command) {
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
		s.byUser = map[services.UserID]*owedUpdatesOfActor{}
	}
	actor := s.byUser[cmd.Actor]
	if actor == nil {
		actor = &owedUpdatesOfActor{updates: map[string]*owedUpdate{}}
	}
	had := actor.updates[kind]
	if had != nil && had.commandApplied && !cmd.applied {
		return
	}
	if had == nil {
		// The update is not recorded: until its job has run, the actor may read a projection without the change.
		if s.updateCount == maxOwedUpdates {
			return
		}
		s.updateCount++
	}
	actor.updates[kind] = &owedUpdate{cmd.projectionUpdate(), cmd.applied}
	s.byUser[cmd.Actor] = actor
	s.userCount.Store(int64(len(s.byUser)))
}

// beginTry begins a try of an actor's owed updates. stale reports whether an update is owed; updates is empty if another try is under
// way.
func (s *owedUpdates) beginTry(actor services.UserID) (updates map[string]*owedUpdate, stale bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	its := s.byUser[actor]
	if its == nil || its.trying {
		return nil, its != nil
	}
	its.trying = true
	updates = make(map[string]*owedUpdate, len(its.updates))
	for kind, one := range its.updates {
		updates[kind] = one
	}
	return updates, true
}

// endTry ends a try of owed updates. The updates in done are owed no longer, unless an update of the same kind failed meanwhile for a
// newer command. It reports whether any update is still owed.
func (s *owedUpdates) endTry(actor services.UserID, done map[string]*owedUpdate) (stale bool) {
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
func (s *owedUpdates) actors() []services.UserID {
	s.mu.Lock()
	defer s.mu.Unlock()
	actors := make([]services.UserID, 0, len(s.byUser))
	for actor := range s.byUser {
		actors = append(actors, actor)
	}
	return actors
}

// ProjectionsStale reports whether a user's projections in Redis lack a change that this node has acknowledged. It first tries, for a
// short time, to bring them up to date. After true, the caller reads the facts. It costs nothing while no user's projections are
// stale.
func (e *Engine) ProjectionsStale(ctx context.Context, user services.UserID) bool {
	if e.owedUpdates.userCount.Load() == 0 {
		return false
	}
	ctx, cancel := context.WithTimeout(ctx, e.cfg.AfterCommitTimeout/readerUpdateTimeoutDivisor)
	defer cancel()
	return e.tryUpdates(ctx, user)
}

// OwesUpdate reports whether a user's projections in Redis lack a change that this node has acknowledged. Unlike ProjectionsStale it does not
// try to bring them up to date.
func (e *Engine) OwesUpdate(user services.UserID) bool {
	if e.owedUpdates.userCount.Load() == 0 {
		return false
	}
	e.owedUpdates.mu.Lock()
	defer e.owedUpdates.mu.Unlock()
	return e.owedUpdates.byUser[user] != nil
}

// StaleAmong reports which of several users have projections in Redis that lack a change that this node has acknowledged. It first
// tries to bring the projections up to date, and one short time limit holds for all of them. It returns nil when no projections of any
// user are stale.
func (e *Engine) StaleAmong(ctx context.Context, users []services.UserID) map[services.UserID]bool {
	if e.owedUpdates.userCount.Load() == 0 {
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

// UpdateStaleProjections tries the owed updates of all users, each for as long as a command would. It stops once it has failed
// for a few users, and returns how many users still have owed updates.
func (e *Engine) UpdateStaleProjections(ctx context.Context) (left int) {
	const enough = 8 // users whose updates failed
	failed := 0
	for _, actor := range e.owedUpdates.actors() {
		if e.tryUpdatesWithTimeout(ctx, actor) {
			if failed++; failed == enough {
				break
			}
		}
	}
	return int(e.owedUpdates.userCount.Load())
}

// tryUpdatesWithTimeout tries one user's owed updates for as long as a command waits for its own.
func (e *Engine) tryUpdatesWithTimeout(ctx context.Context, actor services.UserID) (stale bool) {
	ctx, cancel := context.WithTimeout(ctx, e.cfg.AfterCommitTimeout)
	defer cancel()
	return e.tryUpdates(ctx, actor)
}

// tryUpdates tries the updates that a user's projections lack, and reports whether some are still owed. It stops at the first failure:
// the engine that did not answer one will not answer the others. An update that panics is owed no longer: it would panic at every
// read, and its job does the same work.
func (e *Engine) tryUpdates(ctx context.Context, user services.UserID) (stale bool) {
	updates, stale := e.owedUpdates.beginTry(user)
	if updates == nil {
		return stale
	}
	done := make(map[string]*owedUpdate, len(updates))
	for kind, one := range updates {
		if err := e.updateProjections(ctx, one.run); err != nil && !services.IsPanic(err) {
			e.log.Debug("the actor's own projection is still not updated", "error", err)
			break
		}
		done[kind] = one
	}
	return e.owedUpdates.endTry(user, done)
}
