package people

import (
	"context"

	"tidings/services"
	"tidings/services/changelog"
	"tidings/services/erase"
	"tidings/services/sql"
)

// EraseSteps are the steps that remove a user's restrictions against others, others' restrictions against the user, and the ends and
// gaps of follows in both directions. The follows are removed before, so no feed depends on a restriction any more. Where the user is the
// first column of the key, an index finds the rows; the other direction has no index, so the table is walked.
var EraseSteps = []erase.Step{
	erase.DeleteRows("restrictions", "mutes", "muter", "muter, muted"),
	erase.DeleteRows("restrictions", "blocks", "blocker", "blocker, blocked"),
	erase.DeleteRows("restrictions", "hides", "author", "author, follower"),
	erase.DeleteRowsByScan("restrictions", "mutes", "muter", "muted"),
	erase.DeleteRowsByScan("restrictions", "blocks", "blocker", "blocked"),
	erase.DeleteRowsByScan("restrictions", "hides", "author", "follower"),
	erase.DeleteRows("", "past_follows", "follower", "follower, followee"),
	erase.DeleteRowsByScan("", "past_follows", "follower", "followee"),
	erase.DeleteRows("", "follow_gaps", "follower", "follower, until_at, followee"),
	erase.DeleteRowsByScan("", "follow_gaps", "follower", "followee"),
}

var (
	// followeesToErase finds the users that the user follows, and followersToErase the followers of the user: the erasure ends these follows.
	followeesToErase = sql.NewStatement("followees to erase", `SELECT followee FROM follows WHERE follower = $1 AND followee > $2 ORDER BY followee LIMIT $3`)

	followersToErase = sql.NewStatement("followers to erase", `SELECT follower FROM follows WHERE followee = $1 AND follower > $2 ORDER BY follower LIMIT $3`)

	// keysBeingErased finds the keys whose users are being erased. Erasures that are done have the key ''.
	keysBeingErased = sql.NewStatement("keys that are being erased", `SELECT key FROM erasures WHERE {in key $1 TEXT} AND key <> ''`)
)

// EraseChangelog is the step that takes a user out of the logs of profiles and of pulled posts, in each pass but the first: nodes have
// applied the entries by then.
func EraseChangelog(kinds ...string) erase.Step {
	return erase.Step{Name: "log", Run: func(ctx context.Context, tx *sql.Tx, at erase.StepPosition) (done erase.StepResult, err error) {
		for _, kind := range kinds {
			if at.LaterPass && err == nil {
				err = changelog.BlankEntries(ctx, tx, kind, []string{services.UserIDText(at.User)})
			}
		}
		return done, err
	}}
}

// EraseFollows is the step that ends the user's follows of others or, if followers is set, the follows of the user by others. It
// calls ended for each follow, in the transaction. A user with a million followers takes many runs, each of which continues after
// the last.
func EraseFollows(followers bool, ended func(ctx context.Context, tx *sql.Tx, follower, followee services.UserID) error) erase.Step {
	name, find := "follows", followeesToErase
	if followers {
		name, find = "followers", followersToErase
	}
	return erase.UndoFoundRows(name, find, nil, func(ctx context.Context, tx *sql.Tx, at erase.StepPosition, found []int64) (map[string]int, error) {
		removed := 0
		for _, other := range found {
			follower, followee := at.User, services.UserID(other)
			if followers {
				follower, followee = followee, follower
			}
			deleted, err := DeleteFollow(ctx, tx, follower, followee)
			if err == nil && deleted {
				removed++
				err = ended(ctx, tx, follower, followee)
			}
			if err != nil {
				return nil, err
			}
		}
		return erase.RemovedCounts(name, removed), nil
	})
}

// BeingErasedError is the error of naming a user who is being erased, by key: until the erasure is done, no user has the key.
func BeingErasedError(key string) error {
	return services.Errorf(services.Conflict, "the user %s is being erased: the key is free when that is done", services.Quote(key))
}
