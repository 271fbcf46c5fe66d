package people

import (
	"context"
	"time"

	"tidings/services"
	"tidings/services/sql"
)

var (
	// The column shown says whether the follower sees the followee's posts. It is set once here, and kept right by showFollow.
	insertFollows = sql.NewInsertion("insert follows", "follows", "follower BIGINT, followee BIGINT, since BIGINT, shown BOOLEAN",
		"ON CONFLICT (follower, followee) DO NOTHING")

	deleteFollow = sql.NewStatement("delete a follow", `DELETE FROM follows WHERE follower = $1 AND followee = $2`)

	// The count stops at a limit, which bounds its cost for a user who follows thousands.
	countFollowees = sql.NewStatement("count followees", `SELECT (SELECT count(*) FROM (SELECT 1 FROM follows WHERE follower = $1 LIMIT $2) AS counted),
		EXISTS (SELECT 1 FROM follows WHERE follower = $1 AND followee = $3)`)

	// followeesWithinLimit returns a row unless a user follows too many.
	followeesWithinLimit = sql.NewStatement("whether users follow too many", `SELECT 1 WHERE NOT EXISTS (SELECT 1 FROM {rows $1 owner BIGINT, most BIGINT} AS c
		WHERE (SELECT count(*) FROM follows WHERE follower = c.owner) > c.most)`)

	// Every statement that feeds are made from has the condition f.shown: it returns no follow that is muted or hidden.
	oneEdge = sql.NewStatement("a follow", `SELECT `+FollowColumns+` FROM follows f WHERE f.follower = $1 AND f.followee = $2 AND f.shown`)

	// edgesTo reads the follows of one user by some followers, and edgesFrom those by one user of some followees.
	edgesTo = sql.NewStatement("follows of one user", `SELECT f.follower, `+FollowColumns+` FROM follows f WHERE f.followee = $2 AND {in f.follower $1 BIGINT} AND f.shown`)

	edgesFrom = sql.NewStatement("follows by one user", `SELECT f.followee, `+FollowColumns+` FROM follows f WHERE f.follower = $1 AND {in f.followee $2 BIGINT} AND f.shown`)

	// The index by followee has the order of the page. The join reads the last visits: fan-outs skip users who were not seen for
	// a long time.
	followersOf = sql.NewStatement("followers", `SELECT f.follower, `+FollowColumns+`
		FROM follows f JOIN users u ON u.number = f.follower
		WHERE f.followee = $1 AND f.follower > $2 AND f.shown AND u.seen_at >= $3
		ORDER BY f.follower LIMIT $4`)
)

// FolloweesLimit is the limit of how many users a user follows.
var FolloweesLimit = sql.NewOwnerLimit("followees", followeesWithinLimit)

// InsertFollow adds a follow. It changes nothing and returns false if the follow exists already, or if either user blocks the
// other.
func InsertFollow(ctx context.Context, tx *sql.Tx, edge services.FollowEdge) (created bool, err error) {
	inserted, err := ImportFollows(ctx, tx, []services.FollowEdge{edge})
	return inserted > 0, err
}

// noteUnfollow records when the follow of a host ended. If the followee has no shows, it inserts nothing.
var noteUnfollow = sql.NewStatement("note the end of a follow", `INSERT INTO past_follows (follower, followee, until_at)
		SELECT CAST($1 AS BIGINT), host, CAST($3 AS BIGINT) FROM hosts WHERE host = $2
		ON CONFLICT (follower, followee) DO UPDATE SET until_at = excluded.until_at`)

// lateFollowAge is how old the time of a new follow is at least for the follow to count as late. Sessions of boards know the follows of
// their last five minutes one by one, so only an older time can make a follow look as if a session had begun with it.
const lateFollowAge = time.Minute

// The statements on follow_gaps insert nothing if the followee has no shows. COALESCE makes each search a look-up by key.
var (
	// noteLateFollows records that boards lacked the hosts of some follows until now. It runs before the follows are inserted: one that
	// exists by then is not late. A follower who was never here has no session, so the first import of an application notes nothing.
	noteLateFollows = sql.NewStatement("note late follows", `INSERT INTO follow_gaps (follower, followee, since, until_at)
		SELECT c.follower, c.followee, c.since, CAST($2 AS BIGINT) FROM {rows $1 follower BIGINT, followee BIGINT, since BIGINT} AS c
		WHERE COALESCE((SELECT TRUE FROM hosts WHERE hosts.host = c.followee), FALSE)
			AND COALESCE((SELECT u.seen_at > 0 FROM users u WHERE u.number = c.follower), FALSE)
			AND 0 = (SELECT count(*) FROM follows f WHERE f.follower = c.follower AND f.followee = c.followee)
		ON CONFLICT DO NOTHING`)

	// noteShownAgain records that boards lacked the host of a follow since $3 and until now.
	noteShownAgain = sql.NewStatement("note a follow that is shown again", `INSERT INTO follow_gaps (follower, followee, since, until_at)
		SELECT f.follower, f.followee, CAST($3 AS BIGINT), CAST($4 AS BIGINT) FROM follows f WHERE f.follower = $1 AND f.followee = $2
			AND COALESCE((SELECT TRUE FROM hosts WHERE hosts.host = f.followee), FALSE)
		ON CONFLICT DO NOTHING`)
)

// DeleteFollow ends a follow and its mode, and returns false when there was no follow. It records when the follow of a host ended,
// because the follower's board may have just shown the host's shows. A new follow begins in mode FollowAll again.
func DeleteFollow(ctx context.Context, tx *sql.Tx, follower, followee services.UserID) (deleted bool, err error) {
	changed, err := tx.Run(ctx, deleteFollow, follower, followee)
	if err != nil || changed == 0 {
		return false, err
	}
	if _, err := tx.Run(ctx, deleteMode, follower, followee); err != nil {
		return false, err
	}
	_, err = tx.Run(ctx, noteUnfollow, follower, followee, tx.Now)
	return true, err
}

// CountFollowees counts the users that a user follows, up to limit. follows reports whether a given user is among the followees,
// also when there are more than limit. A caller that inserts a follow calls tx.EnforceLimit with FolloweesLimit.
func CountFollowees(ctx context.Context, tx *sql.Tx, follower, followee services.UserID, limit int) (count int, follows bool, err error) {
	_, err = tx.One(ctx, countFollowees, []any{follower, limit, followee}, &count, &follows)
	return count, follows, err
}

// ImportFollows adds many follows at once and returns how many are new. Existing follows stay as they are, and pairs with a block
// are omitted. It is fastest with thousands of edges in a transaction. Edges that are sorted by their followers lock each row once.
// It records which hosts are followed late, because boards that were frozen before stay without them.
func ImportFollows(ctx context.Context, tx *sql.Tx, edges []services.FollowEdge) (inserted int, err error) {
	standing, err := readRestrictions(ctx, tx, edges)
	if err != nil {
		return 0, err
	}
	all := make([][]any, 0, len(edges))
	var late sql.RowsParameter
	for _, edge := range edges {
		is := standing[followPair{edge.Follower, edge.Followee}]
		if is.blocked {
			continue
		}
		all = append(all, []any{edge.Follower, edge.Followee, edge.PostsCountAfter, !is.mutedOrHidden})
		if edge.PostsCountAfter.Time().Before(tx.Now.Add(-lateFollowAge)) {
			late = append(late, []any{edge.Follower, edge.Followee, edge.PostsCountAfter})
		}
	}
	if len(late) > 0 {
		if _, err := tx.Run(ctx, noteLateFollows, late, tx.Now); err != nil {
			return 0, err
		}
	}
	return tx.Insert(ctx, insertFollows, all)
}

// Edge returns the follow by which one user follows another and sees the other's posts, if there is one. Edges reads those of several
// followers.
func Edge(ctx context.Context, db *sql.DB, follower, followee services.UserID) (edge services.FollowEdge, follows bool, err error) {
	edge = services.FollowEdge{Follower: follower, Followee: followee}
	var held int64
	if follows, err = db.One(ctx, oneEdge, []any{follower, followee}, &edge.PostsCountAfter, &held); err != nil || !follows {
		return services.FollowEdge{}, false, err
	}
	return WithDecodedMode(edge, held), true, nil
}

// Edges returns the follows by which some users follow one user and see that user's posts. Users without such a follow are absent.
func Edges(ctx context.Context, db *sql.DB, followers []services.UserID, followee services.UserID) (map[services.UserID]services.FollowEdge, error) {
	return sql.ReadByKey(ctx, db, edgesTo, []any{followers, followee}, func(scan sql.Scan, follower *services.UserID, edge *services.FollowEdge) error {
		var held int64
		err := scan(follower, &edge.PostsCountAfter, &held)
		edge.Follower, edge.Followee = *follower, followee
		*edge = WithDecodedMode(*edge, held)
		return err
	})
}

// EdgesFrom returns the follows by which one user follows some users and sees their posts. Users without such a follow are absent.
func EdgesFrom(ctx context.Context, db *sql.DB, follower services.UserID, followees []services.UserID) (map[services.UserID]services.FollowEdge, error) {
	return sql.ReadByKey(ctx, db, edgesFrom, []any{follower, followees}, func(scan sql.Scan, followee *services.UserID, edge *services.FollowEdge) error {
		var held int64
		err := scan(followee, &edge.PostsCountAfter, &held)
		edge.Follower, edge.Followee = follower, *followee
		*edge = WithDecodedMode(*edge, held)
		return err
	})
}

// Followers lists the followers who see a user's posts and were last seen at activeSince or later, in order of user ID: at most
// limit followers with IDs greater than after. If activeSince is zero, the last visit does not matter.
func Followers(ctx context.Context, db *sql.DB, followee, after services.UserID, limit int, activeSince time.Time) ([]services.FollowEdge, error) {
	return readEdgesTo(ctx, db, followee, followersOf, followee, after, activeSince, limit)
}

// readEdgesTo reads follows of one user by a statement that selects the follower, the start and the mode of each.
func readEdgesTo(ctx context.Context, db *sql.DB, followee services.UserID, st sql.Statement, args ...any) ([]services.FollowEdge, error) {
	return sql.ReadRows(ctx, db, st, args, func(scan sql.Scan, edge *services.FollowEdge) error {
		edge.Followee = followee
		var held int64
		err := scan(&edge.Follower, &edge.PostsCountAfter, &held)
		*edge = WithDecodedMode(*edge, held)
		return err
	})
}
