package jobs

import (
	"context"
	"time"
)

// Short work goes ahead of long work. A mutation leaves a few jobs, and a user waits for their effect; an ingest of 500 events
// leaves hundreds. In one queue, in the order of arrival, the push after a post would wait behind all jobs of a burst. So a job of
// a small commit is due priorityHeadStart earlier than a job of a large one, and is claimed before every such job that has waited
// for less than priorityHeadStart. Jobs of both kinds can be claimed as soon as they are committed, and none waits for ever: after
// priorityHeadStart a job of bulk work goes first. A separate worker claims the jobs that go ahead, because the worker of all short
// jobs runs up to claimLimit of them before it claims again.

// The limits of jobs that go ahead of bulk work.
const (
	// priorityHeadStart is how much earlier a job that goes ahead is due. It is longer than the backlog of any burst that is not an
	// overload.
	priorityHeadStart = 5 * time.Minute
	// priorityClaimLimit bounds a claim of jobs that go ahead: further jobs wait until the claimed jobs are done.
	priorityClaimLimit = 250
)

// priorityKey is the context key of withPriority.
type priorityKey struct{}

// withPriority returns a context with which jobs are enqueued as those of a small commit: they go ahead of the jobs of bulk work.
func withPriority(ctx context.Context) context.Context {
	return context.WithValue(ctx, priorityKey{}, true)
}

// isPrioritized reports whether a context comes from withPriority: jobs that are enqueued with it go ahead of the jobs of bulk work.
func isPrioritized(ctx context.Context) bool { return ctx.Value(priorityKey{}) != nil }

// inheritPriority returns withPriority(ctx) if all of the given jobs went ahead of bulk work, so that the jobs that they enqueue do too.
// Otherwise it returns ctx.
func inheritPriority(ctx context.Context, jobs ...Job) context.Context {
	for _, job := range jobs {
		if !job.Prioritized {
			return ctx
		}
	}
	return withPriority(ctx)
}
