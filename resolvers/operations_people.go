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
	// The mutations below are idempotent: to follow twice changes nothing, and the payload says so. hideFrom keeps a follow, block
	// ends the follows between the two users. Posts count from the time of the follow on. Older posts come into the feed with a
	// follow, and are neither counted nor announced.
	follow = newUserOperation("follow", func(in *graph.FollowInput) string { return in.UserID }, (*social.Service).Follow)

	// With unfollow, all of the author's posts leave the feed and its count at once.
	unfollow = newUserOperation("unfollow", func(in *graph.UnfollowInput) string { return in.UserID }, (*social.Service).Unfollow)

	// After unmute, posts that the feed lists again count again, if they are still unseen.
	unmute = newUserOperation("unmute", func(in *graph.UnmuteInput) string { return in.UserID }, (*social.Service).Unmute)

	// block closes the direct conversation of the two users as well.
	block = newUserOperation("block", func(in *graph.BlockInput) string { return in.UserID }, (*social.Service).Block)

	// unblock restores no follow: both have to follow again.
	unblock = newUserOperation("unblock", func(in *graph.UnblockInput) string { return in.UserID }, (*social.Service).Unblock)

	// hideFrom does not notify the other user. For them the actor's list of posts looks as if the actor had never published any.
	hideFrom = newUserOperation("hideFrom", func(in *graph.HideFromInput) string { return in.UserID }, (*social.Service).HideFrom)

	// After unhideFrom, the posts come back into the feeds of the users who still follow.
	unhideFrom = newUserOperation("unhideFrom", func(in *graph.UnhideFromInput) string { return in.UserID }, (*social.Service).UnhideFrom)
)

// newUserOperation makes an operation of one user on another. userID takes the other user's ID from the input. command makes the
// command, and has no error: all that is wrong, such as to follow oneself, the commit refuses. It is a method expression, with the
// service as its first parameter.
func newUserOperation[I any](name string, userID func(*I) string, command func(s *social.Service, actor, user services.UserID) *jobs.Command) *operation[I] {
	return &operation[I]{operationSpec: operationSpec{name: name}, command: func(ctx context.Context, c *operationCall, in *I) (*jobs.Command, error) {
		user, err := c.userID(ctx, userID(in))
		return command(c.r.Social, c.actor, user), err
	}}
}

// mute keeps a user's posts out of the viewer's feed, for good or until a time. A time in the past is INVALID in the commit.
var mute = &operation[graph.MuteInput]{
	operationSpec: operationSpec{name: "mute"},
	command: func(ctx context.Context, c *operationCall, in *graph.MuteInput) (*jobs.Command, error) {
		user, err := c.userID(ctx, in.UserID)
		until := time.Time{}
		if in.Until != nil {
			until = *in.Until
		}
		return c.r.Social.Mute(c.actor, user, until), err
	},
}

// setFollowMode changes which items of a followee count for the viewer. Without a follow, the commit fails with CONFLICT.
var setFollowMode = &operation[graph.SetFollowModeInput]{
	operationSpec: operationSpec{name: "setFollowMode"},
	command: func(ctx context.Context, c *operationCall, in *graph.SetFollowModeInput) (*jobs.Command, error) {
		user, err := c.userID(ctx, in.UserID)
		return c.r.Social.SetFollowMode(c.actor, user, services.FollowMode(slices.Index(followModes, in.Mode))), err
	},
}

// followModes has the schema's name of each mode of a follow. The index is the mode's value in package services.
var followModes = []graph.FollowMode{
	services.FollowAll: graph.FollowModeAll, services.FollowLiveOnly: graph.FollowModeLiveOnly, services.FollowNone: graph.FollowModeNone,
}

// setProfile changes the actor's own profile; the host application acts for the user to change it. Null clears a field, and an
// absent field stays.
var setProfile = &operation[graph.SetProfileInput]{
	operationSpec: operationSpec{name: "setProfile"},
	command: func(_ context.Context, c *operationCall, in *graph.SetProfileInput) (*jobs.Command, error) {
		c.subjectID = c.actorID
		return c.r.Social.SetProfile(c.actor, clearableValue(in.Name), clearableValue(in.AvatarURL))
	},
}
