package resolvers

import (
	"context"

	"tidings/dataloader"
	"tidings/graph"
	"tidings/services"
)

func (r *Resolver) graphShow(show services.Show, host services.User) graph.Show {
	return graph.Show{
		ID: show.GlobalID(), Key: show.ID, Host: graphUser(host), Title: show.Title, CoverURL: orNull(show.CoverURL), ReplayURL: orNull(show.ReplayURL),
		Status: show.Status, PlannedAt: show.PlannedAt, StartedAt: show.StartedAt, EndedAt: show.EndedAt, CancelledAt: show.CancelledAt,
		Late: show.Late(r.Clock.Now()),
	}
}

// withShow does an operation on a show, and answers the show as it is then, with the viewer's badges.
func withShow[I any](ctx context.Context, r *Resolver, o *operation[I], input I) (graph.Show, services.Badges, error) {
	done, err := o.do(ctx, r, input)
	if err != nil {
		return graph.Show{}, services.Badges{}, err
	}
	id, err := services.ParseShowID("showId", done.id)
	if err != nil {
		return graph.Show{}, services.Badges{}, err
	}
	// Memory may be behind when it could not be brought up to date in time.
	shows, err := r.Live.Shows(ctx, []services.PostID{id}, done.cmd.ViewsStale())
	if err != nil {
		return graph.Show{}, services.Badges{}, err
	}
	dataloader.From(ctx).KeepShows([]services.Show{shows[id]})
	seen, err := r.visible(ctx, done.call.actor, visibleKeys{shows: []services.PostID{id}})
	show, ok := seen.shows[id]
	if err == nil && !ok {
		err = services.Errorf(services.NotFound, "showId: there is no %s", services.GlobalID(services.ShowType, id.String()))
	}
	return r.graphShow(show, seen.people[show.Host]), done.badges, err
}
