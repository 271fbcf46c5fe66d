package people

import (
	"context"
	"fmt"
	"time"

	"tidings/services"
	"tidings/services/sql"
)

// The lock for a follow, and for the restrictions between its two users, is the follower's row in users. A follow takes a shared
// lock, so that follows run concurrently; a mute, block or hide takes an exclusive one. So the column shown is right, whichever
// transaction commits first.
var (
	lockUsers = sql.NewStatement("lock users", `SELECT number FROM users WHERE {in number $1 BIGINT} ORDER BY number {for update}`)

	// The lock is FOR KEY SHARE: lockUsers waits for it, but visits and profiles update the row without waiting.
	lockUsersShared = sql.NewStatement("hold users", `SELECT number FROM users WHERE {in number $1 BIGINT} ORDER BY number {for key share}`)

	// The result has one row for every block, mute and hide that concerns a follow.
	restrictionsBetween = sql.NewStatement("restrictions between users", `
WITH c AS MATERIALIZED (SELECT * FROM {rows $1 follower BIGINT, followee BIGINT} AS named)
SELECT c.follower, c.followee, 1 FROM c CROSS JOIN blocks WHERE blocker = c.follower AND blocked = c.followee
UNION ALL SELECT c.follower, c.followee, 1 FROM c CROSS JOIN blocks WHERE blocker = c.followee AND blocked = c.follower
UNION ALL SELECT c.follower, c.followee, 0 FROM c CROSS JOIN mutes WHERE muter = c.follower AND muted = c.followee
UNION ALL SELECT c.follower, c.followee, 0 FROM c CROSS JOIN hides WHERE author = c.followee AND hides.follower = c.follower`)

	// A follow is not shown while there is a mute or a hide. Both are counted anew, because one may end while the other still
	// holds. A mute holds until its job removes it.
	showFollow = sql.NewStatement("show a follow", `
UPDATE follows SET shown = 0 = (SELECT count(*) FROM mutes WHERE muter = $1 AND muted = $2) + (SELECT count(*) FROM hides WHERE author = $2 AND follower = $1)
WHERE follower = $1 AND followee = $2`)

	// A mute that is set again keeps its position in the list of mutes.
	insertMute = sql.NewStatement("insert a mute", `INSERT INTO mutes (muter, muted, made, until) VALUES ($1, $2, $3, $4)
		ON CONFLICT (muter, muted) DO UPDATE SET until = excluded.until`)

	endedMutes = sql.NewStatement("mutes that are over", `SELECT muted FROM mutes WHERE muter = $1 AND until > 0 AND until <= $2 ORDER BY muted`)

	oneMute = sql.NewStatement("a mute", `SELECT until FROM mutes WHERE muter = $1 AND muted = $2`)
)

// restrictionTable has the statements of one kind. $1 is the owner, except in newest; in insert and delete $2 is the other user.
// Restrictions are listed by made, an ID that is unique among the restrictions of their owner.
type restrictionTable struct {
	insert, delete, count, list, newest sql.Statement // newest finds the greatest made of an owner in a millisecond
}

// newRestrictionTable makes the statements. until is the column with the end, or 0 for a kind without an end.
func newRestrictionTable(table, owner, other, until string) restrictionTable {
	return restrictionTable{
		insert: sql.NewStatement("insert into "+table, fmt.Sprintf(`INSERT INTO %[1]s (%[2]s, %[3]s, made) VALUES ($1, $2, $3)
			ON CONFLICT (%[2]s, %[3]s) DO NOTHING`, table, owner, other)),
		delete: sql.NewStatement("delete from "+table, fmt.Sprintf(`DELETE FROM %s WHERE %s = $1 AND %s = $2 RETURNING made`, table, owner, other)),
		count:  sql.NewStatement("count "+table, fmt.Sprintf(`SELECT count(*) FROM (SELECT 1 FROM %s WHERE %s = $1 LIMIT $2) AS counted`, table, owner)),
		list: sql.NewStatement("list "+table, fmt.Sprintf(`SELECT %[3]s, made, %[4]s FROM %[1]s
			WHERE %[2]s = $1 AND made < $2 ORDER BY made DESC LIMIT $3`, table, owner, other, until)),
		// The arguments of newest are in the order in which sql.Tx.NewIDInTable passes them.
		newest: sql.NewStatement("the newest of "+table+" of a user in a millisecond",
			fmt.Sprintf(`SELECT COALESCE(max(made), 0) FROM %s WHERE made >= $1 AND made < $2 AND %s = $3`, table, owner)),
	}
}

var restrictionTables = map[services.RestrictionKind]restrictionTable{
	services.Mute:  newRestrictionTable("mutes", "muter", "muted", "until"),
	services.Block: newRestrictionTable("blocks", "blocker", "blocked", "0"),
	services.Hide:  newRestrictionTable("hides", "author", "follower", "0"),
}

// followPair is a follow by its two ends.
type followPair struct{ follower, followee services.UserID }

// followRestrictions are the restrictions that apply to a follow.
type followRestrictions struct {
	blocked       bool // one of the two users blocks the other
	mutedOrHidden bool // the follower mutes, or the followee hides
}

// readRestrictions reads the restrictions that apply to follows. None of them changes until this transaction ends. Consecutive
// edges of one follower lock the follower's row once.
func readRestrictions(ctx context.Context, tx *sql.Tx, edges []services.FollowEdge) (map[followPair]followRestrictions, error) {
	followers := make([]services.UserID, 0, len(edges))
	list := make(sql.RowsParameter, len(edges))
	for i, edge := range edges {
		if len(followers) == 0 || followers[len(followers)-1] != edge.Follower {
			followers = append(followers, edge.Follower)
		}
		list[i] = []any{edge.Follower, edge.Followee}
	}
	if err := lockUserRows(ctx, tx, lockUsersShared, followers); err != nil {
		return nil, err
	}
	found := map[followPair]followRestrictions{}
	err := tx.Each(ctx, restrictionsBetween, []any{list}, func(scan func(...any) error) error {
		var of followPair
		var block bool
		err := scan(&of.follower, &of.followee, &block)
		is := found[of]
		is.blocked, is.mutedOrHidden = is.blocked || block, is.mutedOrHidden || !block
		found[of] = is
		return err
	})
	return found, err
}

// lockUserRows locks users' rows, in the order of their IDs. SQLite has one writer, and so needs no locks.
func lockUserRows(ctx context.Context, tx *sql.Tx, st sql.Statement, users []services.UserID) error {
	if tx.Dialect == sql.SQLite {
		return nil
	}
	_, err := tx.Run(ctx, st, users) // the rows are only locked, and their values are not needed
	return err
}

// LockRestrictions locks the restrictions and follows between two users until this transaction ends. Reads after it see
// everything that was committed before. The rows of both users are locked, in the order of their IDs, so that two users who block each
// other at once do not deadlock.
func LockRestrictions(ctx context.Context, tx *sql.Tx, a, b services.UserID) error {
	return lockUserRows(ctx, tx, lockUsers, []services.UserID{a, b})
}

// LockRestrictionsShared takes a shared lock on the restrictions between one user and all others: they cannot change, and other
// transactions can hold the same lock.
func LockRestrictionsShared(ctx context.Context, tx *sql.Tx, user services.UserID) error {
	return lockUserRows(ctx, tx, lockUsersShared, []services.UserID{user})
}

// RestrictResult is the result of Restrict.
type RestrictResult struct {
	Created      bool                  // there was no such restriction before
	Changed      bool                  // the restriction is a mute that existed and now ends at another time
	EndedFollows []services.FollowEdge // the follows that a block ended
}

// Restrict adds a restriction of one user against another, under LockRestrictions. An existing mute takes the new end; the zero
// time means no end. A block ends the follows between the two; a mute or hide only clears the column shown of the follow.
func Restrict(ctx context.Context, tx *sql.Tx, r services.Restriction) (put RestrictResult, err error) {
	if r.Kind == services.Mute {
		var had, until int64
		stood, err := tx.One(ctx, oneMute, []any{r.Owner, r.Other}, &had)
		if err != nil {
			return put, err
		}
		if !r.Until.IsZero() {
			until = sql.Micros(r.Until)
		}
		_, err = tx.Run(ctx, insertMute, r.Owner, r.Other, r.MadeAt, until)
		return RestrictResult{Created: !stood, Changed: stood && had != until}, updateFollowShown(ctx, tx, r, err)
	}
	changed, err := tx.Run(ctx, restrictionTables[r.Kind].insert, r.Owner, r.Other, r.MadeAt)
	if r.Kind == services.Hide {
		return RestrictResult{Created: changed > 0}, updateFollowShown(ctx, tx, r, err)
	}
	for _, edge := range []services.FollowEdge{{Follower: r.Owner, Followee: r.Other}, {Follower: r.Other, Followee: r.Owner}} {
		if err != nil {
			return put, err
		}
		var stood bool
		if stood, err = DeleteFollow(ctx, tx, edge.Follower, edge.Followee); stood {
			put.EndedFollows = append(put.EndedFollows, edge)
		}
	}
	put.Created = changed > 0
	return put, err
}

// Unrestrict removes a restriction of one user against another, under LockRestrictions, and returns false when there was none of
// that kind. After the end of a mute or hide older posts count again, but do not alert, and boards that were frozen before stay
// without the host.
func Unrestrict(ctx context.Context, tx *sql.Tx, r services.Restriction) (ended bool, err error) {
	var made services.SortableID
	ended, err = tx.One(ctx, restrictionTables[r.Kind].delete, []any{r.Owner, r.Other}, &made)
	if r.Kind != services.Block {
		err = updateFollowShown(ctx, tx, r, err)
		edge := r.AffectedFollow()
		if ended && err == nil {
			_, err = tx.Run(ctx, noteShownAgain, edge.Follower, edge.Followee, made, tx.Now)
		}
		if ended && err == nil {
			err = alertFollowsFromNow(ctx, tx, edge.Follower)
		}
	}
	return ended && err == nil, err
}

// updateFollowShown sets the column shown of the follow that a restriction concerns. If err is not nil, it only returns err.
func updateFollowShown(ctx context.Context, tx *sql.Tx, r services.Restriction, err error) error {
	if err != nil {
		return err
	}
	edge := r.AffectedFollow()
	_, err = tx.Run(ctx, showFollow, edge.Follower, edge.Followee)
	return err
}

// MuteUntil returns the time when a mute ends, or the zero time for a mute without an end. found is false when there is no mute.
func MuteUntil(ctx context.Context, tx *sql.Tx, muter, muted services.UserID) (until time.Time, found bool, err error) {
	var us int64
	if found, err = tx.One(ctx, oneMute, []any{muter, muted}, &us); us != 0 {
		until = sql.FromMicros(us)
	}
	return until, found, err
}

// EndMutes ends a user's mutes that were over at a moment, for an event of that moment: the event is applied as if the jobs that end
// mutes had run before it. These jobs still update the user's feed.
func EndMutes(ctx context.Context, tx *sql.Tx, muter services.UserID, at time.Time) error {
	over, err := sql.ReadColumn[services.UserID](ctx, tx, endedMutes, muter, at)
	for _, muted := range over {
		if err := LockRestrictions(ctx, tx, muter, muted); err != nil {
			return err
		}
		until, found, err := MuteUntil(ctx, tx, muter, muted)
		if err == nil && found && !until.IsZero() && !until.After(at) { // the mute may have changed before the lock was taken
			_, err = Unrestrict(ctx, tx, services.Restriction{Kind: services.Mute, Owner: muter, Other: muted})
		}
		if err != nil {
			return err
		}
	}
	return err
}

// NewRestrictionID is the ID by which a new restriction is listed, under LockRestrictions. It differs from the IDs of the owner's other
// restrictions, even if several of one past millisecond are reported later.
func NewRestrictionID(ctx context.Context, tx *sql.Tx, ids *services.IDClock, kind services.RestrictionKind, owner services.UserID) (services.SortableID, error) {
	return tx.NewIDInTable(ctx, ids, restrictionTables[kind].newest, owner)
}

// CountRestrictions counts a user's restrictions of a kind, up to limit.
func CountRestrictions(ctx context.Context, tx *sql.Tx, kind services.RestrictionKind, owner services.UserID, limit int) (count int, err error) {
	_, err = tx.One(ctx, restrictionTables[kind].count, []any{owner, limit}, &count)
	return count, err
}

// Blocked reports whether one of two users blocks the other, and whether the first blocks the second: only then may the first
// user learn of the block.
func Blocked(ctx context.Context, r sql.Reader, first, second services.UserID) (blocked, byFirst bool, err error) {
	err = r.Each(ctx, blocksBetween, []any{first, second}, func(scan func(...any) error) error {
		var blocker services.UserID
		err := scan(&blocker)
		blocked, byFirst = true, byFirst || blocker == first
		return err
	})
	return blocked, byFirst, err
}

var blockersOf = sql.NewStatement("blockers of a user", `SELECT blocker FROM blocks WHERE {in blocker $2 BIGINT} AND blocked = $1`)

var blocksBetween = sql.NewStatement("blocks between two users", `SELECT blocker FROM blocks WHERE blocker = $1 AND blocked = $2
	UNION ALL SELECT blocker FROM blocks WHERE blocker = $2 AND blocked = $1`)

// BlockersOf lists the users, among some, who block a given user: for example among the users mentioned by that user.
func BlockersOf(ctx context.Context, tx *sql.Tx, blocked services.UserID, users []services.UserID) ([]services.UserID, error) {
	if len(users) == 0 {
		return nil, nil
	}
	return sql.ReadColumn[services.UserID](ctx, tx, blockersOf, blocked, users)
}

// Restrictions lists a user's restrictions of a kind, the newest first: at most limit, with a value of made below before.
func Restrictions(ctx context.Context, db *sql.DB, kind services.RestrictionKind, owner services.UserID, before services.SortableID, limit int) ([]services.Restriction, error) {
	return sql.ReadRows(ctx, db, restrictionTables[kind].list, []any{owner, before, limit}, func(scan sql.Scan, r *services.Restriction) error {
		*r = services.Restriction{Kind: kind, Owner: owner}
		var until sql.NullInt64
		err := scan(&r.Other, &r.MadeAt, &until)
		if until.Int64 != 0 {
			r.Until = sql.FromMicros(until.Int64)
		}
		return err
	})
}
