package jobs

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync/atomic"
	"time"

	"tidings/services"
	"tidings/services/store"
)

// BehindSince says of sources since when their counts may lack what was acknowledged.
type BehindSince map[services.Source]time.Time

func (l BehindSince) add(more BehindSince) {
	for source, since := range more {
		if had, known := l[source]; !known || since.Before(had) {
			l[source] = since
		}
	}
}

// Behind says which counts of a user's document lack something, or may, because a node died that held a job of theirs;
// nil as a rule. It costs one atomic read then.
func (e *Engine) Behind(user services.UserID) BehindSince {
	shown := e.inFlight.shown.Load()
	if shown == nil {
		return nil
	}
	lag := BehindSince{}
	lag.add(shown.everybody)
	lag.add(shown.users[user])
	if len(lag) == 0 {
		return nil
	}
	return lag
}

// SomeBehind says whether Behind names anything of anybody.
func (e *Engine) SomeBehind() bool { return e.inFlight.shown.Load() != nil }

// inFlight are the jobs that nodes held when they fell silent, until they are done. The heartbeat alone changes it.
type inFlight struct {
	jobs  map[int64]affected
	shown atomic.Pointer[behind]
}

// behind is what Behind reads.
type behind struct {
	everybody BehindSince
	users     map[services.UserID]BehindSince
}

// affected are the counts that one job changes.
type affected struct {
	everybody bool
	users     []services.UserID
	sources   []services.Source
	since     time.Time
}

// look takes in the jobs that silent nodes hold, or may hold, now, and forgets what has been done.
func (i *inFlight) look(ctx context.Context, e *Engine, held []store.Job) error {
	if len(held) == 0 && len(i.jobs) == 0 {
		return nil
	}
	next := make(map[int64]affected, len(held))
	if len(i.jobs) > 0 {
		remaining, err := e.store.Remaining(ctx, slices.Collect(maps.Keys(i.jobs)))
		if err != nil {
			return err
		}
		for _, id := range remaining {
			next[id] = i.jobs[id]
		}
	}
	for _, job := range held {
		if _, known := next[job.ID]; known {
			continue
		}
		change, err := e.affectedBy(ctx, job)
		if err != nil {
			return err
		}
		next[job.ID] = change
	}
	if len(held) >= heldAtOnce { // there may be more
		next[0] = affected{everybody: true, sources: services.Sources, since: held[0].CreatedAt}
	}
	i.jobs = next
	i.shown.Store(i.behind())
	return nil
}

// behind sums up; nil for nobody.
func (i *inFlight) behind() *behind {
	b := &behind{everybody: BehindSince{}, users: map[services.UserID]BehindSince{}}
	for _, change := range i.jobs {
		lag := BehindSince{}
		for _, source := range change.sources {
			lag[source] = change.since
		}
		if change.everybody {
			b.everybody.add(lag)
			continue
		}
		for _, user := range change.users {
			if b.users[user] == nil {
				b.users[user] = BehindSince{}
			}
			b.users[user].add(lag)
		}
	}
	maps.DeleteFunc(b.users, func(_ services.UserID, lag BehindSince) bool { return len(lag) == 0 })
	if len(b.everybody)+len(b.users) == 0 {
		return nil
	}
	return b
}

// affectedBy finds the counts that a job changes. A job that cannot be read may change any user's.
func (e *Engine) affectedBy(ctx context.Context, job store.Job) (affected, error) {
	kind, known := e.kinds[job.Kind]
	change := affected{sources: kind.Changes.sources, since: job.CreatedAt, everybody: !known}
	if !known {
		change.sources = services.Sources
	}
	if kind.Changes.users == nil {
		return change, nil
	}
	users, everyone, err := kind.Changes.users(ctx, job)
	if services.IsUnavailable(err) {
		return affected{}, fmt.Errorf("users whose counts a job changes: %w", err)
	}
	change.users, change.everybody = users, everyone || err != nil
	return change, nil
}
