package resolvers

import (
	"context"
	"slices"
	"time"

	"tidings/graph"
	"tidings/services"
	"tidings/services/jobs"
	"tidings/services/social"
)

var (
	// These are idempotent: to follow twice changes nothing, and the payload says so. hideFrom keeps a follow, block ends it
	// on both sides.
	follow = onUser("follow", func(in *graph.FollowInput) string { return in.UserID }, (*social.Service).Follow)

	unfollow = onUser("unfollow", func(in *graph.UnfollowInput) string { return in.UserID }, (*social.Service).Unfollow)

	unmute = onUser("unmute", func(in *graph.UnmuteInput) string { return in.UserID }, (*social.Service).Unmute)

	block = onUser("block", func(in *graph.BlockInput) string { return in.UserID }, (*social.Service).Block)

	unblock = onUser("unblock", func(in *graph.UnblockInput) string { return in.UserID }, (*social.Service).Unblock)

	hideFrom = onUser("hideFrom", func(in *graph.HideFromInput) string { return in.UserID }, (*social.Service).HideFrom)

	unhideFrom = onUser("unhideFrom", func(in *graph.UnhideFromInput) string { return in.UserID }, (*social.Service).UnhideFrom)
)

// onUser is an operation of one user on another whose input cannot be INVALID.
func onUser[I any](name string, userID func(*I) string, command func(s *social.Service, actor, user services.UserID) *jobs.Command) *operation[I] {
	return &operation[I]{name: name, command: func(ctx context.Context, c *call, in *I) (*jobs.Command, error) {
		user, err := c.userID(ctx, userID(in))
		return command(c.r.Social, c.actor, user), err
	}}
}

// mute keeps a user's posts out of the viewer's feed, for good or until a time.
var mute = &operation[graph.MuteInput]{
	name: "mute",
	command: func(ctx context.Context, c *call, in *graph.MuteInput) (*jobs.Command, error) {
		user, err := c.userID(ctx, in.UserID)
		until := time.Time{}
		if in.Until != nil {
			until = *in.Until
		}
		return c.r.Social.Mute(c.actor, user, until), err
	},
}

// setFollowMode changes what of a followee counts for the viewer.
var setFollowMode = &operation[graph.SetFollowModeInput]{
	name: "setFollowMode",
	command: func(ctx context.Context, c *call, in *graph.SetFollowModeInput) (*jobs.Command, error) {
		user, err := c.userID(ctx, in.UserID)
		return c.r.Social.SetFollowMode(c.actor, user, services.FollowMode(slices.Index(followModes, in.Mode))), err
	},
}

// followModes are the modes of follows by their names in the schema.
var followModes = []graph.FollowMode{
	services.FollowAll: graph.FollowModeAll, services.FollowLiveOnly: graph.FollowModeLiveOnly, services.FollowNone: graph.FollowModeNone,
}

// setProfile is the actor's own profile, which the host application sets by acting for them.
var setProfile = &operation[graph.SetProfileInput]{
	name: "setProfile",
	command: func(_ context.Context, c *call, in *graph.SetProfileInput) (*jobs.Command, error) {
		c.subject = c.as
		return c.r.Social.SetProfile(c.actor, orCleared(in.Name), orCleared(in.AvatarURL))
	},
}
