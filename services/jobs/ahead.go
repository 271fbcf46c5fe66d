package jobs

import (
	"context"
	"time"
)

// Short work goes ahead of long work. A mutation leaves a few jobs, and a user waits for their effect; an ingest of 500 events
// leaves hundreds. In one queue, in the order of arrival, the push after a post would wait behind all jobs of a burst. So a job of
// a small commit is due headStart earlier than a job of a large one, and is claimed before every such job that has waited for less
// than headStart. Jobs of both kinds can be claimed as soon as they are committed, and none waits for ever: after headStart a job of bulk work goes
// first. A separate worker claims the jobs that go ahead, because the worker of all short jobs runs up to claimLimit of them before it claims
// again.

// The limits of work that goes ahead.
const (
	// headStart is longer than the backlog of any burst that is not an overload.
	headStart = 5 * time.Minute
	// aheadLimit bounds a claim of jobs that go ahead: further jobs wait until the claimed jobs are done.
	aheadLimit = 250
)

// aheadKey is the context key of withAhead.
type aheadKey struct{}

// withAhead makes the jobs that are enqueued with a context go ahead.
func withAhead(ctx context.Context) context.Context { return context.WithValue(ctx, aheadKey{}, true) }

// isAhead reports whether the jobs that are enqueued with a context go ahead.
func isAhead(ctx context.Context) bool { return ctx.Value(aheadKey{}) != nil }

// inheritAhead makes the jobs that are enqueued with the returned context go ahead if all of the given jobs do.
func inheritAhead(ctx context.Context, jobs ...Job) context.Context {
	for _, job := range jobs {
		if !job.Ahead {
			return ctx
		}
	}
	return withAhead(ctx)
}
