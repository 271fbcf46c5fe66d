package people

import (
	"context"

	"tidings/services"
	"tidings/services/sql"
)

// The column since of a follow is the ID after which posts count. A follow in another mode than FollowAll has a row in follow_modes, and
// in since an ID after every post. So feeds and fan-outs read since alone, and no mode.
const (
	// FollowColumns are the columns of a follow f that a services.FollowEdge is made of: since, and the argument held of
	// WithDecodedMode.
	FollowColumns = `f.since, CASE WHEN f.since < ` + afterAllPosts + ` THEN 0 ELSE COALESCE((SELECT CASE WHEN m.mode = 2 THEN -m.followed ELSE m.followed END
		FROM follow_modes m WHERE m.follower = f.follower AND m.followee = f.followee), 0) END`

	// FollowedAt is an ID of the time of a follow f.
	FollowedAt = `CASE WHEN f.since < ` + afterAllPosts + ` THEN f.since ELSE COALESCE((SELECT m.followed
		FROM follow_modes m WHERE m.follower = f.follower AND m.followee = f.followee), f.since) END`

	afterAllPosts = `9223372036854775807` // services.MaxPostID
)

// WithDecodedMode returns an edge, whose PostsCountAfter is set, with its mode and the time of the follow. held is the second of
// FollowColumns: 0 in mode FollowAll, -FollowedAt in mode FollowNone, FollowedAt in mode FollowLiveOnly. Two facts share one
// column, so that each of the many statements that read edges has two columns and no join.
func WithDecodedMode(edge services.FollowEdge, held int64) services.FollowEdge {
	switch {
	case held == 0:
		edge.FollowedAt = services.SortableID(edge.PostsCountAfter)
	case held < 0:
		edge.FollowedAt, edge.Mode = services.SortableID(-held), services.FollowNone
	default:
		edge.FollowedAt, edge.Mode = services.SortableID(held), services.FollowLiveOnly
	}
	return edge
}

var (
	lockFollow = sql.NewStatement("lock a follow", `SELECT since FROM follows WHERE follower = $1 AND followee = $2 {for update}`)

	setSince = sql.NewStatement("set since when posts count", `UPDATE follows SET since = $3 WHERE follower = $1 AND followee = $2`)

	modeOf = sql.NewStatement("mode of a follow", `SELECT followed, mode FROM follow_modes WHERE follower = $1 AND followee = $2`)

	putMode = sql.NewStatement("set the mode of a follow", `INSERT INTO follow_modes (follower, followee, followed, mode) VALUES ($1, $2, $3, $4)
		ON CONFLICT (follower, followee) DO UPDATE SET mode = excluded.mode`)

	deleteMode = sql.NewStatement("end the mode of a follow", `DELETE FROM follow_modes WHERE follower = $1 AND followee = $2`)

	modesOf = sql.NewStatement("modes of a user's follows", `SELECT followee, mode FROM follow_modes WHERE follower = $1`)

	// reducedFollows lists the follows in another mode than FollowAll. The index is the primary key, read backwards.
	reducedFollows = sql.NewStatement("follows in a mode", `SELECT followee FROM follow_modes
		WHERE follower = $1 AND followee < $2 ORDER BY followee DESC LIMIT $3`)
)

// SetFollowMode sets which items of a followee count for a follower, whether the follow is shown or not. follows is false if there is
// no such follow, and changed is false if it has the mode already. A follow begins in mode FollowAll. The lock of the follow keeps
// since and the mode's row consistent.
func SetFollowMode(ctx context.Context, tx *sql.Tx, follower, followee services.UserID, mode services.FollowMode) (follows, changed bool, err error) {
	var since, followed services.SortableID
	if follows, err = tx.One(ctx, lockFollow, []any{follower, followee}, &since); err != nil || !follows {
		return false, false, err
	}
	had := services.FollowAll
	if held, err := tx.One(ctx, modeOf, []any{follower, followee}, &followed, &had); err != nil {
		return false, false, err
	} else if !held {
		// In mode FollowAll, since is the time of the follow. In other modes the mode's row keeps that time.
		followed = since
	}
	if had == mode {
		return true, false, nil
	}
	since = services.MaxSortableID
	if mode == services.FollowAll {
		since = followed
		_, err = tx.Run(ctx, deleteMode, follower, followee)
	} else {
		_, err = tx.Run(ctx, putMode, follower, followee, followed, int64(mode))
	}
	if err == nil {
		_, err = tx.Run(ctx, setSince, follower, followee, since)
	}
	if err == nil && mode < had { // more counts than before
		err = alertFollowsFromNow(ctx, tx, follower)
	}
	return true, true, err
}

// FolloweesInReducedMode lists the users that a user follows in another mode than FollowAll, the greatest ID first: at most limit
// users with IDs below before.
func FolloweesInReducedMode(ctx context.Context, db *sql.DB, follower services.UserID, before uint64, limit int) ([]services.UserID, error) {
	return sql.ReadColumn[services.UserID](ctx, db, reducedFollows, follower, before, limit)
}

// FollowModesOf reads the modes of a user's follows that are not FollowAll. Audits compare these modes with the modes that users are
// shown, which all other statements read by FollowColumns.
func FollowModesOf(ctx context.Context, db *sql.DB, follower services.UserID) (map[services.UserID]services.FollowMode, error) {
	return sql.ReadMap[services.UserID, services.FollowMode](ctx, db, modesOf, follower)
}
