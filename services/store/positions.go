package store

import (
	"context"

	"tidings/services"
	"tidings/services/sql"
)

// HomePage is the view code of the home feed; its view id is "".
const HomePage = "home_page"

// LiveBoard is the view code of the live board, where positions are versions of the log of shows; its view id is "".
const LiveBoard = "live_board"

var (
	raisePosition = sql.NewStatement("raise a position", `INSERT INTO user_access_log AS l (user_number, view_code, view_id, position, last_access_at)
		VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (user_number, view_code, view_id) DO UPDATE SET last_access_at = excluded.last_access_at,
			position = CASE WHEN excluded.position > l.position THEN excluded.position ELSE l.position END
		RETURNING position`)

	onePosition = sql.NewStatement("a position", `SELECT position FROM user_access_log WHERE user_number = $1 AND view_code = $2 AND view_id = $3`)

	positionsOf = sql.NewStatement("positions of a user", `SELECT view_code, position FROM user_access_log
		WHERE user_number = $1 AND {in view_code $2 TEXT} AND view_id = ''`)
)

// RaisePosition moves a user's position in a view forward, never back, notes the visit now, and returns the current position.
// What a position is, is the view's affair: a post, a version, microseconds.
func RaisePosition(ctx context.Context, tx *sql.Tx, user services.UserID, viewCode, viewID string, position int64) (current int64, err error) {
	_, err = tx.One(ctx, raisePosition, []any{user, viewCode, viewID, position, tx.Now}, &current)
	return current, err
}

// RaisePosition is RaisePosition for a view whose positions are posts.
func (tx *Tx) RaisePosition(ctx context.Context, user services.UserID, viewCode, viewID string, position services.PostID) (services.PostID, error) {
	current, err := RaisePosition(ctx, tx.Tx, user, viewCode, viewID, int64(position))
	return services.PostID(current), err
}

// Position is a user's position in a view; 0 when they never looked.
func (s *Store) Position(ctx context.Context, user services.UserID, viewCode, viewID string) (services.PostID, error) {
	var position services.PostID
	_, err := s.One(ctx, onePosition, []any{user, viewCode, viewID}, &position)
	return position, err
}

// Positions are a user's positions in some views whose id is ""; views that the user never looked at are absent.
func (s *Store) Positions(ctx context.Context, user services.UserID, viewCodes ...string) (map[string]services.PostID, error) {
	positions := make(map[string]services.PostID, len(viewCodes))
	err := s.Each(ctx, positionsOf, []any{user, viewCodes}, func(scan func(...any) error) error {
		var code string
		var position services.PostID
		err := scan(&code, &position)
		positions[code] = position
		return err
	})
	return positions, err
}
