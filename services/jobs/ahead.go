package jobs

import (
	"context"
	"time"
)

// Short work goes ahead of long work. A mutation leaves a few jobs, and somebody waits for what they do; an ingest of 500 events
// leaves hundreds. In one queue, in the order of arrival, the push after a post would wait behind all jobs of a burst. So a job of
// a small commit is due headStart earlier than the job of a large one, and is claimed before each that has waited for less. Neither
// is claimed later than it could be otherwise, and none waits for ever: a job of bulk work goes first after headStart. A worker of
// its own claims these jobs, because the other one runs up to claimLimit jobs before it claims again.

// How far short work goes ahead, and how much of it at once.
const (
	// headStart is longer than the backlog of any burst that is not an overload.
	headStart = 5 * time.Minute
	// aheadLimit bounds a claim of jobs that go ahead: the next of them waits until these are done.
	aheadLimit = 250
)

// aheadKey is the key of the mark of withAhead.
type aheadKey struct{}

// withAhead makes the jobs that are enqueued with a context go ahead.
func withAhead(ctx context.Context) context.Context { return context.WithValue(ctx, aheadKey{}, true) }

// isAhead reports whether the jobs that are enqueued with a context go ahead.
func isAhead(ctx context.Context) bool { return ctx.Value(aheadKey{}) != nil }

// inherit makes the jobs that jobs enqueue go ahead if all of these do.
func inherit(ctx context.Context, jobs ...Job) context.Context {
	for _, job := range jobs {
		if !job.Ahead {
			return ctx
		}
	}
	return withAhead(ctx)
}
