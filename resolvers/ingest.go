package resolvers

import (
	"context"
	"errors"
	"time"

	"github.com/vektah/gqlparser/v2/gqlerror"

	"tidings/dataloader"
	"tidings/graph"
	"tidings/services"
	"tidings/services/jobs"
	"tidings/services/refs"
)

// maxIngestEvents bounds the events of one request. They share a commit, which makes them fast. With more events, other commits would
// wait too long for this one.
const maxIngestEvents = 500

// deadlinePerEvent is the time that each event adds to the deadline of its batch: 500 events may take 5 s more than one mutation. A
// healthy engine needs far less for an event; the rest is for slow moments.
const deadlinePerEvent = 10 * time.Millisecond

// withBatchDeadline returns the context of a batch: its deadline is later the more events the batch has. It does not end when the
// client goes away: a part of the batch may have been committed, and the rest should be too. A context that has ended already is
// returned unchanged: the caller reports it.
func withBatchDeadline(ctx context.Context, events int) (context.Context, context.CancelFunc) {
	deadline, limited := ctx.Deadline()
	if !limited || ctx.Err() != nil {
		return ctx, func() {}
	}
	return context.WithDeadline(context.WithoutCancel(ctx), deadline.Add(time.Duration(events)*deadlinePerEvent))
}

// adviseFewerEvents adds advice to the error of a batch that ran out of time: the host application should send fewer events at
// once. A single event that took too long has the plain error, because there is nothing to halve.
func adviseFewerEvents(ctx context.Context, events int, err error) error {
	if events > 1 && services.IsUnavailable(err) && errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return services.Wrapf(services.Unavailable, err, "events: %d events took too long for one request: send fewer at once", events)
	}
	return err
}

// ingest applies all events, and returns a result for each, at its position in the request. The events are one commit, except that an
// event which names an object by a ref set by an earlier event of the request begins another commit. An event that is refused does not
// affect the others. An event can also fail for now, for example because an engine does not answer: then no later event is applied. A
// later event may need the failed one: it would be refused, and its idempotency key would remember that refusal for good, although a
// repetition of both would succeed. The caller has checked the scope. An error of the whole request may come after the first commit: a
// host application that uses idempotency keys can send all of it again.
func (r *Resolver) ingest(ctx context.Context, events []graph.IngestEvent) (*graph.IngestPayload, error) {
	if len(events) == 0 || len(events) > maxIngestEvents {
		return nil, services.Errorf(services.Invalid, "events: 1 to %d are allowed, got %d", maxIngestEvents, len(events))
	}
	ctx = withCreatingUsers(ctx)
	ctx, cancel := withBatchDeadline(ctx, len(events))
	defer cancel()
	// The users in the fields that newIngestAction lists, and the actors, are made or found at once, so that events need no
	// statements of their own for them.
	refused, err := r.Social.CreateMissingUsers(ctx, userKeysInEvents(events))
	if err != nil {
		return nil, adviseFewerEvents(ctx, len(events), err)
	}
	ctx = withUsersBeingErased(ctx, refused)
	defer dataloader.From(ctx).ForgetAll()
	results := make([]graph.IngestResult, len(events))
	for from := 0; from < len(events); {
		to, named := nextCommitBounds(events, from)
		found, err := r.Refs.Find(ctx, named)
		if err != nil {
			return nil, adviseFewerEvents(ctx, len(events), err)
		}
		if r.ingestInOneCommit(ctx, events[from:to], found, results[from:to], len(events)) {
			for i := to; i < len(results); i++ {
				results[i] = r.ingestFailure(ctx, jobs.ErrEarlierCommandFailed)
			}
			break
		}
		from = to
	}
	return &graph.IngestPayload{Results: results}, nil
}

// ingestInOneCommit applies events in one commit, and writes the result of each. found has the objects that the refs in the events
// name; all is the number of events in the whole request. Events keep their order within the commit. failed reports whether an
// event failed for now: no event after it is applied.
func (r *Resolver) ingestInOneCommit(ctx context.Context, events []graph.IngestEvent, found map[services.Ref]refs.RefHolder, results []graph.IngestResult, all int) (failed bool) {
	cmds, errs := make([]*jobs.Command, len(events)), make([]error, len(events))
	ready, indexes := make([]*jobs.Command, 0, len(events)), make([]int, 0, len(events))
	for i := range events {
		cmds[i], errs[i] = ingestCommand(ctx, &operationCall{r: r, refHolders: found}, &events[i])
		if services.IsTransient(errs[i]) {
			break
		}
		if errs[i] == nil {
			ready, indexes = append(ready, cmds[i]), append(indexes, i)
		}
	}
	// CommitInOrder returns an error or nil for each command, in their order. Events that could not become a command are not among
	// them.
	for k, err := range r.Jobs.CommitInOrder(ctx, ready...) {
		errs[indexes[k]] = adviseFewerEvents(ctx, all, err)
	}
	for i, err := range errs {
		// An earlier event has failed for now. This event was refused, perhaps because of that. So it gets ErrEarlierCommandFailed
		// and can be sent again.
		if failed && !services.IsTransient(err) {
			err = jobs.ErrEarlierCommandFailed
		}
		if err != nil {
			failed = failed || services.IsTransient(err)
			results[i] = r.ingestFailure(ctx, err)
			continue
		}
		results[i].Changed = cmds[i].Changed()
		if id := objectID(cmds[i]); id != "" {
			results[i].ID = &id
		}
	}
	return failed
}

// ingestFailure is the result of an event that failed, with the fields of the error of a mutation. The operation ingest has succeeded,
// so this error is data, and the ErrorPresenter does not see it.
func (r *Resolver) ingestFailure(ctx context.Context, err error) graph.IngestResult {
	shown := clientError(ctx, r.Log, err)
	failure := &graph.IngestError{
		Code: services.Code(shown.Extensions["code"].(string)), Message: shown.Message,
		Argument: extension[string](shown, "argument"), Reason: extension[string](shown, "reason"), Limit: extension[int](shown, "limit"),
	}
	if wait := extension[int64](shown, "retryAfterMs"); wait != nil {
		failure.RetryAfterMs = new(int(*wait))
	}
	return graph.IngestResult{Error: failure}
}

// extension returns the named extension of an error, or nil if there is none. T must be the type that services.Error gives to the
// extension of that name.
func extension[T any](of *gqlerror.Error, name string) *T {
	if value, has := of.Extensions[name].(T); has {
		return &value
	}
	return nil
}
