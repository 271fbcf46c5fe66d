package announcements

import (
	"context"
	"time"

	"tidings/services"
	"tidings/services/sql"
)

// userState is a user's state in announcements and dots.
type userState struct {
	services.AnnouncementState
	Segments           services.SegmentState // the segments that the user is in
	DismissedUpToByDot map[string]uint64     // name -> the stamp up to which the user has cleared it
	SeenAt             time.Time             // the user's last visit; zero: never
}

// isNew reports whether a user who comes now counts as new: they have no position, or have neither been seen nor marked anything
// since dormantBefore. Versions are times in microseconds, so the version tells when the user last marked something.
func (s userState) isNew(dormantBefore time.Time) bool {
	return s.Version == 0 || s.SeenAt.Before(dormantBefore) && s.Version < uint64(sql.Micros(dormantBefore))
}

// newerVersion is the SQL of the next version of a row n of user_notices: the time $2 in microseconds, or one more than the present
// version if that is not earlier.
const newerVersion = `CASE WHEN CAST($2 AS BIGINT) > n.ver THEN CAST($2 AS BIGINT) ELSE n.ver + 1 END`

var (
	// resetDormant moves a returning dormant user to the present end of the list, like a new user. The condition is in the same statement,
	// so that only one of two first requests of the user resets the row.
	resetDormant = sql.NewStatement("reset the announcements of a dormant user", `UPDATE user_notices AS n SET ver = `+newerVersion+`,
			position = CASE WHEN c.value > n.position THEN c.value ELSE n.position END,
			dots_from = CASE WHEN c.value > n.dots_from THEN c.value ELSE n.dots_from END
		FROM counters AS c
		WHERE c.name = 'notices' AND n.user_number = $1 AND n.ver < $3 AND EXISTS (SELECT 1 FROM users WHERE number = $1 AND seen_at < $3)`)

	// forgetDots deletes the record of which dots users have cleared. The column dots_from of user_notices replaces the deleted rows:
	// everything raised before the return counts as dismissed.
	forgetDots = sql.NewStatement("forget the dots of users", `DELETE FROM user_dots WHERE {in user_number $1 BIGINT}`)

	// The end of the list is the last stamp of the announcements' clock.
	currentListEnd = sql.NewStatement("the present end of the announcements", `SELECT value FROM counters WHERE name = 'notices'`)

	// insertPosition gives a user without a position the present end of the list. An upsert locks the row, whether it exists or not.
	insertPosition = sql.NewStatement("enter a user's announcement position", `INSERT INTO user_notices AS n (user_number, ver, position, dots_from)
		SELECT CAST($1 AS BIGINT), CAST($2 AS BIGINT), value, value FROM counters WHERE name = 'notices'
		ON CONFLICT (user_number) DO UPDATE SET ver = n.ver`)

	// If the new position is not ahead, the row keeps its version, so that a repeated mark does not change the badges.
	raisePosition = sql.NewStatement("raise the position in the announcements", `INSERT INTO user_notices AS n (user_number, ver, position, dots_from)
		SELECT CAST($1 AS BIGINT), CAST($2 AS BIGINT), value, value FROM counters WHERE name = 'notices'
		ON CONFLICT (user_number) DO UPDATE SET
			ver = CASE WHEN CAST($3 AS BIGINT) > n.position THEN `+newerVersion+` ELSE n.ver END,
			position = CASE WHEN CAST($3 AS BIGINT) > n.position THEN CAST($3 AS BIGINT) ELSE n.position END`)

	// raisePastPosition is raisePosition for a past time: a user without a position gets $4, the stamp of that time.
	raisePastPosition = sql.NewStatement("raise a past position in the announcements", `INSERT INTO user_notices AS n (user_number, ver, position, dots_from)
		VALUES ($1, $2, $4, $4)
		ON CONFLICT (user_number) DO UPDATE SET
			ver = CASE WHEN CAST($3 AS BIGINT) > n.position THEN `+newerVersion+` ELSE n.ver END,
			position = CASE WHEN CAST($3 AS BIGINT) > n.position THEN CAST($3 AS BIGINT) ELSE n.position END`)

	// This is one statement, so that position, segments and dots are of one snapshot. seen_at is 0 for users that the application
	// has named and that have never made a request.
	userStates = sql.NewUserStatement("a user's announcement state", "announcement states of users", `
SELECT user_number, 0 AS kind, '' AS dot, ver AS a, position AS b, dots_from AS c FROM user_notices WHERE {user user_number}
UNION ALL SELECT user_number, 1, '', ver, segments, 0 FROM user_segments WHERE {user user_number}
UNION ALL SELECT number, 2, '', seen_at, 0, 0 FROM users WHERE {user number} AND seen_at > 0
UNION ALL SELECT user_number, 3, dot, seen, 0, 0 FROM user_dots WHERE {user user_number}`)

	// positionsAfter lists the users with a position in announcements, in the order of their IDs after $1, and when they were last seen.
	positionsAfter = sql.NewStatement("users with announcement positions", `SELECT n.user_number, u.seen_at FROM user_notices n JOIN users u ON u.number = n.user_number
		WHERE n.user_number > $1 ORDER BY n.user_number LIMIT $2`)

	// A user who returns concurrently has a newer version, and keeps the row.
	dropPositions = sql.NewStatement("drop announcement positions of dormant users", `DELETE FROM user_notices WHERE {in user_number $1 BIGINT} AND ver < $2 RETURNING user_number`)
)

// ensurePosition gives a user without a position the present end of the list. A user who has neither been seen nor marked anything
// since dormantBefore counts as new: call it before the visit is recorded.
func ensurePosition(ctx context.Context, tx *sql.Tx, user services.UserID, dormantBefore time.Time) error {
	reset, err := tx.Run(ctx, resetDormant, user, tx.Now, dormantBefore)
	if err != nil {
		return err
	}
	if reset > 0 {
		if _, err := tx.Run(ctx, forgetDots, []services.UserID{user}); err != nil {
			return err
		}
	}
	_, err = tx.Run(ctx, insertPosition, user, tx.Now)
	return err
}

// raiseReadPosition moves a user's position in the list forward, never back. A user without a position gets the present end of
// the list.
func raiseReadPosition(ctx context.Context, tx *sql.Tx, user services.UserID, position uint64) error {
	_, err := tx.Run(ctx, raisePosition, user, tx.Now, int64(position))
	return err
}

// raisePastReadPosition is raiseReadPosition for a mark of a past time. entered is the position of a user who has none: the stamp
// of that time.
func raisePastReadPosition(ctx context.Context, tx *sql.Tx, user services.UserID, entered, position uint64) error {
	_, err := tx.Run(ctx, raisePastPosition, user, tx.Now, int64(position), int64(entered))
	return err
}

// readUser reads a user's state. The version is 0 for a user without a position.
func readUser(ctx context.Context, r sql.Runner, user services.UserID) (userState, error) {
	states, err := readUsers(ctx, r, []services.UserID{user})
	return *states[user], err
}

// readUsers reads the states of several users in announcements and dots, in one snapshot. All users are in the result, with the version 0
// if they have no position.
func readUsers(ctx context.Context, r sql.Runner, users []services.UserID) (map[services.UserID]*userState, error) {
	states := make(map[services.UserID]*userState, len(users))
	for _, user := range users {
		states[user] = &userState{DismissedUpToByDot: map[string]uint64{}}
	}
	st, of := userStates.ForUsers(users)
	err := r.Each(ctx, st, []any{of}, func(scan func(...any) error) error {
		var user services.UserID
		var kind, a, b, c int64
		var dot string
		if err := scan(&user, &kind, &dot, &a, &b, &c); err != nil {
			return err
		}
		state := states[user]
		switch kind {
		// The kinds are the parts of userStates; the columns a, b and c mean what the part says.
		case 0:
			state.Version, state.Position, state.DotsDismissedUpTo = uint64(a), uint64(b), uint64(c)
		case 1:
			state.Segments = services.SegmentState{Version: uint64(a), Bits: uint64(b)}
		case 2:
			state.SeenAt = sql.FromMicros(a)
		default:
			state.DismissedUpToByDot[dot] = uint64(a)
		}
		return nil
	})
	return states, err
}

// dropDormantPositions deletes the positions of users who were not seen since a time, among the first limit users with IDs greater
// than after. It returns the last user ID that it read, 0 when there is no further one, and how many it deleted. The users'
// segments, which the host application set, stay.
func dropDormantPositions(ctx context.Context, db *sql.DB, before time.Time, after services.UserID, limit int) (last services.UserID, dropped int, err error) {
	looked := 0
	var dormant []services.UserID
	err = db.Each(ctx, positionsAfter, []any{after, limit}, func(scan func(...any) error) error {
		var seen int64
		err := scan(&last, &seen)
		if looked++; seen < sql.Micros(before) {
			dormant = append(dormant, last)
		}
		return err
	})
	if err != nil {
		return 0, 0, err
	}
	// The end of the table is reached: the next call begins at its start.
	if looked < limit {
		last = 0
	}
	if len(dormant) == 0 {
		return last, 0, nil
	}
	// The check outside the transaction only finds candidates; the statement decides by the version under its lock.
	err = db.Write(ctx, func(tx *sql.Tx) error {
		gone, err := sql.ReadColumn[services.UserID](ctx, tx, dropPositions, dormant, before)
		if err != nil {
			return err
		}
		// dropped is set inside the function, which may run again.
		dropped = len(gone)
		_, err = tx.Run(ctx, forgetDots, gone)
		return err
	})
	return last, dropped, err
}
