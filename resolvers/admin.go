package resolvers

import (
	"context"
	"fmt"
	"time"

	"tidings/graph"
	"tidings/services"
)

// authorModes has the mode in the API for each mode of the package services. One list serves the conversions in both directions.
var authorModes = []graph.AuthorMode{
	services.AuthorSmall: graph.AuthorModeSmall, services.AuthorBig: graph.AuthorModeBig, services.AuthorHuge: graph.AuthorModeHuge,
}

// authorMode returns the mode of the package services for the mode in the API that an operator names; nil for none. It searches
// authorModes, because a map for this direction would be a second list to maintain.
func authorMode(named *graph.AuthorMode) *services.AuthorMode {
	for mode, name := range authorModes {
		if named != nil && *named == name {
			pin := services.AuthorMode(mode)
			return &pin
		}
	}
	return nil
}

// authorAudience returns an author's mode and number of followers. Followers are counted only up to the threshold of the huge mode,
// because a greater number does not change the mode.
func (r *Resolver) authorAudience(ctx context.Context, id services.UserID) (graph.AuthorAudience, error) {
	author, err := r.Fanout.Author(ctx, id)
	if err != nil {
		return graph.AuthorAudience{}, err
	}
	user, err := r.readUser(ctx, id)
	shown := graph.AuthorAudience{User: user, Followers: author.Followers, Mode: authorModes[author.Mode]}
	if author.Pinned != nil {
		shown.Pinned = &authorModes[*author.Pinned]
	}
	return shown, err
}

// fanoutState returns the state of the fan-out: the thresholds of the whole installation, and the work that waits on all nodes.
// The lag is the age of the oldest waiting job of a fan-out, which is the longest wait of a follower.
func (r *Resolver) fanoutState(ctx context.Context) (graph.FanoutState, error) {
	thresholds, err := r.Fanout.Thresholds(ctx)
	if err != nil {
		return graph.FanoutState{}, err
	}
	lag, err := r.Fanout.Lag(ctx)
	return graph.FanoutState{
		BigFollowers: thresholds.Big, HugeFollowers: thresholds.Huge, Waiting: lag.WaitingJobs, LagMs: int(lag.OldestJobAge.Milliseconds()),
	}, err
}

// parseActivityThresholds reads the thresholds that an operator sets. A value out of bounds is INVALID. The upper bound also keeps the
// hours from overflowing a duration. Each field is checked on its own. The service checks that dormant comes after idle, because
// it also checks thresholds from the command line.
func parseActivityThresholds(input graph.SetActivityThresholdsInput) (services.ActivityThresholds, error) {
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

// graphActivityThresholds returns the thresholds in whole hours.
func graphActivityThresholds(thresholds services.ActivityThresholds) graph.ActivityThresholds {
	return graph.ActivityThresholds{
		IdleAfterHours: int(thresholds.IdleAfter / time.Hour), DormantAfterHours: int(thresholds.DormantAfter / time.Hour),
	}
}

// cleanNow makes the next pass of the cleaner due now, on any node. It does not wait for the pass, which takes minutes on a large
// Redis and may run on another node. So the payload mostly shows the state before the pass begins.
func (r *Resolver) cleanNow(ctx context.Context) (*graph.CleanNowPayload, error) {
	return runAsAdmin(ctx, r, "cleanNow", "", "", func(ctx context.Context) (*graph.CleanNowPayload, error) {
		if err := r.Cleaner.AskForRun(ctx); err != nil {
			return nil, err
		}
		payload := &graph.CleanNowPayload{}
		if cleaner := nilOnError[*graph.Cleaner](r)(r.cleaner(ctx)); cleaner != nil {
			payload.Cleaner = *cleaner
		}
		return payload, nil
	})
}

// recountBadges compares a user's badge document with the facts in SQL and corrects it. The payload says whether the two
// differed. It serves support cases; the audit does the same for all users, in laps.
func (r *Resolver) recountBadges(ctx context.Context, input graph.RecountBadgesInput) (*graph.RecountBadgesPayload, error) {
	return runAsAdmin(ctx, r, "recountBadges", userIDOrEmpty(input.UserID), "", func(ctx context.Context) (*graph.RecountBadgesPayload, error) {
		user, err := r.resolveUserID(ctx, "userId", input.UserID)
		if err != nil {
			return nil, err
		}
		differed, err := r.Projector.Recount(ctx, user)
		if err != nil {
			return nil, err
		}
		// The badges are read by the user ID, so the key is not in them.
		_, key, err := services.SplitGlobalID(input.UserID)
		if err != nil {
			return nil, err
		}
		payload := &graph.RecountBadgesPayload{Differed: differed}
		if badges := nilOnError[*services.Badges](r)(r.Badge.Read(ctx, user)); badges != nil {
			// The badges that were read may be shared, so the key is set in a copy.
			theirs := **badges
			theirs.Key = key
			payload.Badges = &theirs
		}
		return payload, nil
	})
}

// setFanoutThresholds changes the thresholds of all nodes. Posts keep the mode that they were published in. The thresholds are a
// row in SQL, so all nodes read the same and a restart keeps them.
func (r *Resolver) setFanoutThresholds(ctx context.Context, input graph.SetFanoutThresholdsInput) (*graph.SetFanoutThresholdsPayload, error) {
	details := fmt.Sprintf("big %d, huge %d", input.BigFollowers, input.HugeFollowers)
	return runAsAdmin(ctx, r, "setFanoutThresholds", "", details, func(ctx context.Context) (*graph.SetFanoutThresholdsPayload, error) {
		if err := r.Fanout.SetThresholds(ctx, services.FollowerThresholds{Big: input.BigFollowers, Huge: input.HugeFollowers}); err != nil {
			return nil, err
		}
		return &graph.SetFanoutThresholdsPayload{Fanout: nilOnError[graph.FanoutState](r)(r.fanoutState(ctx))}, nil
	})
}

// setActivityThresholds changes when users count as idle and dormant, on all nodes. The details of the act are in hours, as in the
// input.
func (r *Resolver) setActivityThresholds(ctx context.Context, input graph.SetActivityThresholdsInput) (*graph.SetActivityThresholdsPayload, error) {
	details := fmt.Sprintf("idle %d h, dormant %d h", input.IdleAfterHours, input.DormantAfterHours)
	return runAsAdmin(ctx, r, "setActivityThresholds", "", details, func(ctx context.Context) (*graph.SetActivityThresholdsPayload, error) {
		thresholds, err := parseActivityThresholds(input)
		if err == nil {
			err = r.Projector.SetActivityThresholds(ctx, thresholds)
		}
		if err != nil {
			return nil, err
		}
		return &graph.SetActivityThresholdsPayload{Activity: graphActivityThresholds(thresholds)}, nil
	})
}

// pinAuthorMode keeps an author in a mode, whatever their number of followers, or ends the pin, so that the mode follows that number
// again. A pin holds until it is ended, so that an author with bought followers does not go back and forth between modes.
func (r *Resolver) pinAuthorMode(ctx context.Context, input graph.PinAuthorModeInput) (*graph.PinAuthorModePayload, error) {
	// mode is for the record of the act. null in the input ends a pin.
	mode := "unpinned"
	if input.Mode != nil {
		mode = input.Mode.String()
	}
	return runAsAdmin(ctx, r, "pinAuthorMode", userIDOrEmpty(input.UserID), mode, func(ctx context.Context) (*graph.PinAuthorModePayload, error) {
		author, err := r.resolveUserID(ctx, "userId", input.UserID)
		if err != nil {
			return nil, err
		}
		if err := r.Fanout.PinMode(ctx, author, authorMode(input.Mode)); err != nil {
			return nil, err
		}
		return &graph.PinAuthorModePayload{Author: nilOnError[graph.AuthorAudience](r)(r.authorAudience(ctx, author))}, nil
	})
}
