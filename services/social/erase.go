package social

import (
	"context"

	"tidings/services"
	"tidings/services/erase"
	"tidings/services/fanout"
	"tidings/services/jobs"
	"tidings/services/people"
	"tidings/services/sql"
)

// EraseSteps are the steps that undo a user's follows, in both directions. Notifications have a step of their own, which undoes
// everything that the user caused. The jobs are those of ordinary unfollows, so the projections of other users are updated in the
// same way.
var EraseSteps = []erase.Step{
	people.EraseFollows(true, func(ctx context.Context, tx *sql.Tx, follower, followee services.UserID) error {
		return jobs.Enqueue(ctx, tx, fanout.FollowJob(follower, followee)) // the author's items leave the follower's feed
	}),
	people.EraseFollows(false, func(ctx context.Context, tx *sql.Tx, _, followee services.UserID) error {
		return jobs.Enqueue(ctx, tx, fanout.UpdateModeJob(followee, tx.Now))
	}),
}
