// Package positions records how far each user has looked in the home feed and in the live board. The views of the application are in
// the same table, and services/views writes them: they have an ID beside the code, and the number of their last touch.
//
// A position never moves backward: reports of it may be late, repeated and in any order. So Redis just keeps the greatest value
// that is written, and needs no time of the write. The items of a view after its position are new, and are counted.
package positions

import (
	"context"

	"tidings/services"
	"tidings/services/sql"
)

// HomeFeedView is the view code of the home feed.
const HomeFeedView = "home_page"

// LiveBoardView is the view code of the live board, where positions are versions of the log of shows.
const LiveBoardView = "live_board"

// KeepGreater is the part of an upsert of a row l of user_access_log that leaves each column its greater value, independently of the
// other: a late report of an early position may still be the latest visit.
const KeepGreater = `last_access_at = CASE WHEN excluded.last_access_at > l.last_access_at THEN excluded.last_access_at ELSE l.last_access_at END,
	position = CASE WHEN excluded.position > l.position THEN excluded.position ELSE l.position END`

var (
	advancePosition = sql.NewStatement("raise a position", `INSERT INTO user_access_log AS l (user_number, view_code, view_id, position, last_access_at)
		VALUES ($1, $2, '', $3, $4) ON CONFLICT (user_number, view_code, view_id) DO UPDATE SET `+KeepGreater+`
		RETURNING position`)

	onePosition = sql.NewStatement("a position", `SELECT position FROM user_access_log WHERE user_number = $1 AND view_code = $2 AND view_id = ''`)

	positionsIn = sql.NewUserStatement("a user's position in a view", "positions of users in a view", `SELECT user_number, position FROM user_access_log
		WHERE {user user_number} AND view_code = $2 AND view_id = ''`)

	positionsOf = sql.NewStatement("positions of a user", `SELECT view_code, position FROM user_access_log
		WHERE user_number = $1 AND {in view_code $2 TEXT} AND view_id = ''`)
)

// Advance moves a user's position in a view forward, never back, notes the visit, and returns the current position. The
// view defines what a position is: a post, a version, microseconds. If the returned position is greater than the given one,
// the call has changed nothing but the time of the visit.
func Advance[P ~int | ~int64 | ~uint64](ctx context.Context, tx *sql.Tx, user services.UserID, viewCode string, position P) (current P, err error) {
	var raised int64
	_, err = tx.One(ctx, advancePosition, []any{user, viewCode, int64(position), tx.EventTime()}, &raised)
	return P(raised), err
}

// Of returns a user's position in a view, 0 when the user never looked at it. The view defines its type, as in Advance.
func Of[P ~uint64](ctx context.Context, r sql.Reader, user services.UserID, viewCode string) (position P, err error) {
	_, err = r.One(ctx, onePosition, []any{user, viewCode}, &position)
	return position, err
}

// OfUsers returns the positions of users in a view. Users who never looked are absent.
func OfUsers[P ~uint64](ctx context.Context, r sql.Reader, users []services.UserID, viewCode string) (map[services.UserID]P, error) {
	st, of := positionsIn.ForUsers(users)
	return sql.ReadMap[services.UserID, P](ctx, r, st, of, viewCode)
}

// Views are the codes of the views whose positions OfUser reads.
var Views = []string{HomeFeedView, LiveBoardView}

// OfUser returns a user's positions in Views, by the code of the view. A view that the user never looked at
// is absent. What a position is depends on the view, as in Advance.
func OfUser(ctx context.Context, r sql.Reader, user services.UserID) (map[string]uint64, error) {
	return sql.ReadMap[string, uint64](ctx, r, positionsOf, user, Views)
}
