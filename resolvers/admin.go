package resolvers

import (
	"context"

	"tidings/graph"
	"tidings/services"
)

// authorModes are the modes by the numbers that the services have for them.
var authorModes = []graph.AuthorMode{
	services.AuthorSmall: graph.AuthorModeSmall, services.AuthorBig: graph.AuthorModeBig, services.AuthorHuge: graph.AuthorModeHuge,
}

// pinned is the mode that an admin names; nil for none.
func pinned(named *graph.AuthorMode) *services.AuthorMode {
	for mode, name := range authorModes {
		if named != nil && *named == name {
			pin := services.AuthorMode(mode)
			return &pin
		}
	}
	return nil
}

// audience shows an author's audience.
func (r *Resolver) audience(ctx context.Context, number services.UserNumber) (graph.AuthorAudience, error) {
	author, err := r.Fanout.Author(ctx, number)
	if err != nil {
		return graph.AuthorAudience{}, err
	}
	user, err := r.user(ctx, number)
	shown := graph.AuthorAudience{User: user, Followers: author.Followers, Mode: authorModes[author.Mode]}
	if author.Pinned != nil {
		shown.Pinned = &authorModes[*author.Pinned]
	}
	return shown, err
}

// fanoutState shows how posts are carried now.
func (r *Resolver) fanoutState(ctx context.Context) (graph.FanoutState, error) {
	thresholds, err := r.Fanout.Thresholds(ctx)
	if err != nil {
		return graph.FanoutState{}, err
	}
	lag, err := r.Fanout.Lag(ctx)
	return graph.FanoutState{
		BigFollowers: thresholds.Big, HugeFollowers: thresholds.Huge, Waiting: lag.Waiting, LagMs: int(lag.Oldest.Milliseconds()),
	}, err
}
