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

// showPayload has the fields of the payload of an operation on a show. The resolver of each mutation converts it into its type.
type showPayload struct {
	Changed bool
	Show    *graph.Show
	Badges  *services.Badges
	Viewer  *graph.Viewer
}

// runOnShow runs an operation on a show.
func runOnShow[I any](ctx context.Context, r *Resolver, o *operation[I], input I) (*showPayload, error) {
	done, err := o.runMutation(ctx, r, input)
	if err != nil {
		return nil, err
	}
	return &showPayload{done.changed, r.showAfter(ctx, done), done.badges, done.viewerAfter()}, nil
}

// showAfter is the show of an operation, for its payload; nil if the payload does not select it, or it could not be read.
func (r *Resolver) showAfter(ctx context.Context, done *committedOperation) *graph.Show {
	return readIfSelected(ctx, r, func() (graph.Show, error) { return r.readShow(ctx, done) }, "show")
}

// readShow reads the show of an operation for its payload. The actor sees it by the same rules as everybody.
func (r *Resolver) readShow(ctx context.Context, done *committedOperation) (graph.Show, error) {
	id, err := live.ParseShowID("showId", done.objectID)
	if err != nil {
		return graph.Show{}, err
	}
	// The node cache may be out of date if it could not be refreshed in time, so read SQL then.
	shows, err := r.Live.Shows(ctx, []services.ShowID{id}, done.cmd.ProjectionsStale())
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
