package changelog

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"tidings/services"
)

const (
	minHintReadInterval = 10 * time.Millisecond // the least time between two reads for hints; the first hint is served at once
	entriesPerRead      = 1000                  // entries in one SELECT
)

// KindFollower follows one kind of entries for a node.
type KindFollower struct {
	kind Kind
	log  Log

	mu      sync.Mutex    // held during a read of the log
	inSync  atomic.Bool   // memory is at version; else it must be loaded
	loaded  atomic.Bool   // memory was loaded at least once
	version atomic.Uint64 // the version of the log that memory is at; see Version
}

// Version is the version of the log that memory is at, or was at before a load that failed.
func (k *KindFollower) Version() uint64 { return k.version.Load() }

// Loaded reports whether memory was ever loaded.
func (k *KindFollower) Loaded() bool { return k.loaded.Load() }

// Refresh brings memory to the present end of the log, so that a node sees its own change at once.
func (k *KindFollower) Refresh(ctx context.Context) error {
	_, _, err := k.follow(ctx)
	return err
}

// isBehind reports whether a read of the log may find entries. grown reports whether a kind has entries after a version.
func (k *KindFollower) isBehind(grown func(kind string, at uint64) bool) bool {
	return !k.inSync.Load() || grown(k.kind.Name, k.version.Load())
}

// follow applies the entries after the version that memory is at, and loads memory where that is not enough. A panic of the kind is an
// error.
func (k *KindFollower) follow(ctx context.Context) (changes int, loaded bool, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	defer services.Recover(&err)
	if k.kind.AfterLogRead != nil {
		defer func() { k.kind.AfterLogRead(err) }()
	}
	return k.catchUp(ctx)
}

// catchUp does the work of follow: it applies the new entries, and loads memory where that is not enough. The lock is held.
func (k *KindFollower) catchUp(ctx context.Context) (changes int, loaded bool, err error) {
	defer func() {
		if services.IsPanic(err) {
			k.inSync.Store(false) // a part of the entries may be applied
		}
	}()
	defer services.Recover(&err)
	// Each round of this loop reads at most one batch. After a load it goes on from the version that the load began at.
	for {
		if !k.inSync.Load() {
			if err := k.load(ctx); err != nil {
				return changes, loaded, err
			}
			loaded = true
		}
		at := k.version.Load()
		entries, err := k.log.LogAfter(ctx, k.kind.Name, at, entriesPerRead)
		if err != nil {
			return changes, loaded, err
		}
		// A gap means that entries were trimmed. Apply may refuse too: both are mended by a load.
		if len(entries) > 0 && (entries[0].Version != at+1 || k.kind.Apply == nil || !k.kind.Apply(entries)) {
			k.inSync.Store(false)
			continue
		}
		// The version is stored after the changes: a reader that sees the version also sees its changes.
		if len(entries) > 0 {
			k.version.Store(entries[len(entries)-1].Version)
		}
		changes += len(entries)
		if len(entries) < entriesPerRead {
			return changes, loaded, nil
		}
	}
}

// load brings memory to the state of SQL. The last sequence is read first, so that no change between the two reads is skipped.
func (k *KindFollower) load(ctx context.Context) error {
	newest, _, err := k.log.LastSequence(ctx, k.kind.Name)
	if err != nil {
		return err
	}
	if err := k.kind.Load(ctx); err != nil {
		return err
	}
	k.version.Store(newest)
	k.inSync.Store(true)
	k.loaded.Store(true)
	return nil
}

// Wake makes Run read the log now rather than at its next poll, because it has grown.
func (f *Follower) Wake() {
	services.Signal(f.wakeUp)
}

// Run follows the log until ctx ends: on each hint, and at its polls, which also run the poll tasks.
func (f *Follower) Run(ctx context.Context) error {
	var loops sync.WaitGroup
	defer loops.Wait()
	ctx, cancel := context.WithCancel(ctx) // a panic ends the loops too
	defer cancel()
	for _, run := range f.loops {
		loops.Go(func() {
			_ = services.KeepRunning(ctx, f.logger, func(ctx context.Context) error { // its error is that of ctx
				run(ctx)
				return nil
			})
		})
	}
	ticker := time.NewTicker(f.pollInterval)
	defer ticker.Stop()
	f.catchUpOrLog(ctx, f.RunOnce)
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
			f.catchUpOrLog(ctx, f.RunOnce)
		case <-f.wakeUp:
			f.catchUpOrLog(ctx, f.Tail)
			select {
			case <-ctx.Done():
			// In a burst of hints, the log is read once in each minHintReadInterval.
			case <-time.After(minHintReadInterval):
			}
		}
	}
}

// catchUpOrLog catches up with the log once. A failure is logged, and the next poll tries again.
func (f *Follower) catchUpOrLog(ctx context.Context, catchUp func(context.Context) (int, error)) {
	if _, err := catchUp(ctx); err != nil && ctx.Err() == nil {
		f.logger.Warn("the changelog could not be read; the node cache may be out of date", "error", err)
	}
}

// RunOnce catches up with the log and does the work beside it, and returns how many entries the log had. A kind that is new,
// or of which a part was trimmed meanwhile, is loaded.
func (f *Follower) RunOnce(ctx context.Context) (changes int, err error) {
	before := f.runPollTasks(ctx, BeforeLogRead)
	changes, err = f.followGrownKinds(ctx, func(string, uint64) bool { return true })
	return changes, errors.Join(before, err, f.runPollTasks(ctx, AfterPollRead))
}

// Tail catches up with the log, runs only the tasks of AfterEachLogRead, and returns how many entries it found. If the log has not
// grown, it is read by one SELECT.
func (f *Follower) Tail(ctx context.Context) (changes int, err error) {
	sequences, err := f.log.LastSequences(ctx)
	if err != nil {
		return 0, err
	}
	return f.followGrownKinds(ctx, func(kind string, at uint64) bool { return sequences[kind] > at })
}

// followGrownKinds follows the kinds that must be loaded, or have grown beyond the version that memory is at. Then it runs the
// tasks of AfterEachLogRead.
func (f *Follower) followGrownKinds(ctx context.Context, grown func(kind string, at uint64) bool) (changes int, err error) {
	var failures []error
	shared := false
	for _, one := range f.kinds {
		if !one.isBehind(grown) {
			continue
		}
		n, loaded, err := one.follow(ctx)
		// One kind that fails does not keep the others from going on.
		if err != nil {
			failures = append(failures, fmt.Errorf("log %s: %w", one.kind.Name, err))
		}
		changes += n
		shared = shared || one.kind.ConcernsAllUsers && (n > 0 || loaded)
	}
	failures = append(failures, f.runPollTasks(ctx, AfterEachLogRead))
	if shared {
		f.NotifySharedChange()
	}
	return changes, errors.Join(failures...)
}

// runPollTasks runs the tasks of a phase.
func (f *Follower) runPollTasks(ctx context.Context, when PollPhase) error {
	var failures []error
	for _, task := range f.pollTasks {
		if task.Phase != when {
			continue
		}
		if err := task.run(ctx); err != nil {
			failures = append(failures, fmt.Errorf("%s: %w", task.Name, err))
		}
	}
	return errors.Join(failures...)
}

// run runs a task. A panic is an error of the task: the others go on.
func (t PollTask) run(ctx context.Context) (err error) {
	defer services.Recover(&err)
	return t.Run(ctx)
}
