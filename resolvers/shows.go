package resolvers

import (
	"context"

	"tidings/dataloader"
	"tidings/graph"
	"tidings/services"
	"tidings/services/live"
)

// graphShow is a show as it is now. Late depends on the clock and is not a stored state.
func (r *Resolver) graphShow(show live.Show, host services.User) graph.Show {
	return graph.Show{
		ID: show.GlobalID(), Number: show.ID, Host: graphUser(host), Title: show.Title, CoverURL: orNull(show.CoverURL), ReplayURL: orNull(show.ReplayURL),
		Status: show.Status, PlannedAt: show.PlannedAt, StartedAt: show.StartedAt, EndedAt: show.OverAt(), CancelledAt: show.CancelledAt,
		Late: show.Late(r.Clock.Now()),
	}
}

// runOnShow runs an operation on a show, and returns the show after it. The show is null if it could not be read after the
// commit, or is not selected.
func runOnShow[I any](ctx context.Context, r *Resolver, o *operation[I], input I) (*committedOperation, *graph.Show, error) {
	done, err := o.runMutation(ctx, r, input)
	if err != nil {
		return nil, nil, err
	}
	return done, readIfSelected(ctx, r, func() (graph.Show, error) { return r.showAfter(ctx, done) }, "show"), nil
}

// showAfter reads the show of an operation for its payload. The actor sees it by the same rules as everybody.
func (r *Resolver) showAfter(ctx context.Context, done *committedOperation) (graph.Show, error) {
	id, err := live.ParseShowID("showId", done.objectID)
	if err != nil {
		return graph.Show{}, err
	}
	// The node cache may be out of date if it could not be refreshed in time, so read SQL then.
	shows, err := r.Live.Shows(ctx, []services.ShowID{id}, done.cmd.ViewsStale())
	if err != nil {
		return graph.Show{}, err
	}
	// From here on readVisibleObjects finds this state of the show, and not an older state in the node cache.
	dataloader.From(ctx).KeepShows([]live.Show{shows[id]})
	seen, err := r.readVisibleObjects(ctx, done.call.actor, shownObjectIDs{shows: []services.ShowID{id}})
	show, ok := seen.shows[id]
	if err == nil && !ok {
		err = services.Errorf(services.NotFound, "showId: there is no %s", services.GlobalID(services.ShowType, id.String()))
	}
	return r.graphShow(show, seen.people[show.Host]), err
}
