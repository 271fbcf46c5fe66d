package resolvers

import (
	"context"
	"time"

	"tidings/graph"
	"tidings/services"
)

// authorModes are the modes, by the values that services has for them.
var authorModes = []graph.AuthorMode{
	services.AuthorSmall: graph.AuthorModeSmall, services.AuthorBig: graph.AuthorModeBig, services.AuthorHuge: graph.AuthorModeHuge,
}

// pinned is the mode that an operator names; nil for none.
func pinned(named *graph.AuthorMode) *services.AuthorMode {
	for mode, name := range authorModes {
		if named != nil && *named == name {
			pin := services.AuthorMode(mode)
			return &pin
		}
	}
	return nil
}

// audience returns an author's audience.
func (r *Resolver) audience(ctx context.Context, number services.UserID) (graph.AuthorAudience, error) {
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

// fanoutState returns the state of the fan-out.
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

// activityThresholds reads the thresholds that an operator sets. INVALID beyond their bounds.
func activityThresholds(input graph.SetActivityThresholdsInput) (services.ActivityThresholds, error) {
	const most = int(services.MaxActivityThreshold / time.Hour)
	for _, field := range []struct {
		name  string
		hours int
	}{{"idleAfterHours", input.IdleAfterHours}, {"dormantAfterHours", input.DormantAfterHours}} {
		if field.hours < 1 || field.hours > most {
			return services.ActivityThresholds{}, services.Errorf(services.Invalid, "%s: 1 to %d are allowed, got %d", field.name, most, field.hours)
		}
	}
	return services.ActivityThresholds{
		IdleAfter: time.Duration(input.IdleAfterHours) * time.Hour, DormantAfter: time.Duration(input.DormantAfterHours) * time.Hour,
	}, nil
}

// activityState returns the thresholds in whole hours.
func activityState(thresholds services.ActivityThresholds) graph.ActivityThresholds {
	return graph.ActivityThresholds{
		IdleAfterHours: int(thresholds.IdleAfter / time.Hour), DormantAfterHours: int(thresholds.DormantAfter / time.Hour),
	}
}
