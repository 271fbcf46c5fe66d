package people

import (
	"context"
	"slices"
	"time"

	"tidings/services"
	"tidings/services/sql"
)

var (
	usersByKey = sql.NewStatement("users by key", `SELECT key, number FROM users WHERE {in key $1 TEXT}`)

	usersByID = sql.NewStatement("users by ID", `SELECT number, key, name, avatar_url, updated_at FROM users WHERE {in number $1 BIGINT}`)

	// insertUsers runs under the lock of the counter of user IDs, so no other transaction inserts the same keys. But two functions of
	// one batch (see package sql) may insert the same key, because each looked for it before the other's row was there. That pass of
	// the batch is rolled back, and in the next one the second function finds the row.
	insertUsers = sql.NewInsertion("insert users", "users", "number BIGINT, key TEXT", "ON CONFLICT DO NOTHING")

	// A change gets a later time than the one before, even if both come at one time or the clock was set back between them:
	// copies in Redis and in nodes keep the profile with the later time. NULL leaves a column as it is.
	setProfile = sql.NewStatement("set a profile", `UPDATE users
		SET name = COALESCE(CAST($2 AS TEXT), name), avatar_url = COALESCE(CAST($3 AS TEXT), avatar_url),
			updated_at = CASE WHEN updated_at < $4 THEN $4 ELSE updated_at + 1 END
		WHERE number = $1 RETURNING updated_at`)

	// These statements walk the users by ID. seen_at has no index: the walks read nearly all users, and every visit would change
	// the index.
	activeUsers = sql.NewStatement("active users", `SELECT number FROM users WHERE number > $1 AND seen_at >= $2 ORDER BY number LIMIT $3`)

	inactiveUsers = sql.NewStatement("inactive users", `SELECT number FROM users WHERE number > $1 AND seen_at < $2 ORDER BY number LIMIT $3`)

	// markActive records a visit. While a visit continues, the visit before stays as it is. The last condition makes late and repeated
	// records harmless.
	markActive = sql.NewStatement("mark users active", `UPDATE users SET seen_at = $2,
		visited_before = CASE WHEN seen_at > 0 AND seen_at < $3 THEN seen_at ELSE visited_before END
		WHERE {in number $1 BIGINT} AND seen_at < $2`)

	selectPreviousVisit = sql.NewStatement("the visit before", `SELECT visited_before FROM users WHERE number = $1`)

	lastVisits = sql.NewStatement("last visits", `SELECT number, seen_at FROM users WHERE {in number $1 BIGINT}`)
)

// Ensure returns the IDs of users. A key that is mentioned for the first time gets the next ID, from 1 on, in the order of the
// keys. It does not check the keys: see services.CheckUserKey. The error is CONFLICT if a key's user is being erased: the next
// user of that key gets another ID, once the erasure is done.
func Ensure(ctx context.Context, tx *sql.Tx, keys []string) (map[string]services.UserID, error) {
	ids, refused, err := EnsureExceptErased(ctx, tx, keys)
	if err == nil && len(refused) > 0 {
		err = BeingErasedError(refused[0])
	}
	return ids, err
}

// EnsureExceptErased is Ensure, but leaves out the keys that are being erased, and returns them as refused. Most calls name only known
// users, and take no lock.
func EnsureExceptErased(ctx context.Context, tx *sql.Tx, keys []string) (ids map[string]services.UserID, refused []string, err error) {
	ids, err = IDs(ctx, tx.Runner, keys)
	if err != nil || len(ids) == len(keys) {
		return ids, nil, err
	}
	if _, missing := keysWithoutID(keys, ids); !missing {
		return ids, nil, nil // a key was given twice
	}
	// New users are rare, so one lock serves them all. It keeps IDs dense: Redis and packed lists hold them in a few bytes.
	if err := tx.LockCounter(ctx, "users"); err != nil {
		return nil, nil, err
	}
	// The former holder of the lock may have added some of the users meanwhile.
	if ids, err = IDs(ctx, tx.Runner, keys); err != nil {
		return nil, nil, err
	}
	fresh, missing := keysWithoutID(keys, ids)
	if missing {
		// Erasures are looked up under the lock. One that has begun is seen here. One that is asked for now finds no user with a fresh
		// key, and does not begin.
		refused, err = sql.ReadColumn[string](ctx, tx, keysBeingErased, fresh)
		fresh = slices.DeleteFunc(fresh, func(key string) bool { return slices.Contains(refused, key) })
	}
	if err == nil && len(fresh) > 0 {
		err = insertNewUsers(ctx, tx, fresh, ids)
	}
	return ids, refused, err
}

// EnsureRecipients returns the IDs of the recipients with some keys, in ascending order, each once. It leaves out users who are being
// erased, so that the other recipients are reached. The error is CONFLICT if nobody is left.
func EnsureRecipients(ctx context.Context, tx *sql.Tx, keys []string) ([]services.UserID, error) {
	ids, refused, err := EnsureExceptErased(ctx, tx, keys)
	if err != nil {
		return nil, err
	}
	if len(ids) == 0 && len(refused) > 0 {
		return nil, services.WithArgument("to", BeingErasedError(refused[0]))
	}
	users := make([]services.UserID, 0, len(ids))
	for _, key := range keys {
		if user, free := ids[key]; free {
			users = append(users, user)
		}
	}
	slices.Sort(users)
	return slices.Compact(users), nil
}

// insertNewUsers gives new keys their IDs and puts them into ids. The caller has locked the counter of user IDs.
func insertNewUsers(ctx context.Context, tx *sql.Tx, fresh []string, ids map[string]services.UserID) error {
	last, err := tx.RaiseCounter(ctx, "users", len(fresh))
	if err != nil {
		return err
	}
	// RaiseCounter returned the last of the new IDs.
	last -= int64(len(fresh))
	newRows := make([][]any, len(fresh))
	for i, key := range fresh {
		last++
		newRows[i] = []any{last, key}
		ids[key] = services.UserID(last)
	}
	_, err = tx.Insert(ctx, insertUsers, newRows)
	return err
}

// keysWithoutID lists the keys that have no user ID yet, each once, in their order.
func keysWithoutID(keys []string, ids map[string]services.UserID) (missing []string, any bool) {
	listed := make(map[string]bool)
	for _, key := range keys {
		if _, known := ids[key]; !known && !listed[key] {
			listed[key] = true
			missing = append(missing, key)
		}
	}
	return missing, len(missing) > 0
}

// SetProfile sets a user's name and the address of their picture; nil leaves either as it is, "" removes it. It returns the time of
// the change, later than the time of any earlier change, which is the version of the profile's copies. The error is NOT_FOUND for
// an unknown user ID.
func SetProfile(ctx context.Context, tx *sql.Tx, user services.UserID, name, avatarURL *string) (time.Time, error) {
	var changedAt int64
	found, err := tx.One(ctx, setProfile, []any{user, sql.TextOrNull(name), sql.TextOrNull(avatarURL), tx.Now}, &changedAt)
	if err == nil && !found {
		err = services.Errorf(services.NotFound, "there is no user with the ID %d", user)
	}
	return sql.FromMicros(changedAt), err
}

// MarkActive records that the users were seen now; a later time stays. Nodes collect visits and call it for many at once.
func MarkActive(ctx context.Context, tx *sql.Tx, users []services.UserID) error {
	users = slices.Clone(users)
	slices.Sort(users) // lock in one order, so that two of these do not deadlock
	_, err := tx.Run(ctx, markActive, users, tx.Now, tx.Now.Add(-minGapBetweenVisits))
	return err
}

// minGapBetweenVisits separates two visits: a user who is seen again within it is still on the same visit.
const minGapBetweenVisits = 30 * time.Minute

// PreviousVisit is when a user was recorded as seen before their present visit; it is the zero time on their first visit. Users
// are recorded once a day, so the result is some time on the day of that earlier visit.
func PreviousVisit(ctx context.Context, db *sql.DB, user services.UserID) (time.Time, error) {
	var at int64
	if _, err := db.One(ctx, selectPreviousVisit, []any{user}, &at); err != nil || at == 0 {
		return time.Time{}, err
	}
	return sql.FromMicros(at), nil
}

// IDs returns the IDs of users by key. A key that was never mentioned is absent, and so is the key of a user who is being erased.
func IDs(ctx context.Context, r sql.Reader, keys []string) (map[string]services.UserID, error) {
	return sql.ReadMap[string, services.UserID](ctx, r, usersByKey, keys)
}

// ByID reads users by ID. An unknown ID is absent; so is the ID of a user who is being erased, whose content then has no author.
func ByID(ctx context.Context, r sql.Reader, ids []services.UserID) (map[services.UserID]services.User, error) {
	users := make(map[services.UserID]services.User, len(ids))
	err := r.Each(ctx, usersByID, []any{ids}, func(scan func(...any) error) error {
		var user services.User
		var updatedAt int64
		err := scan(&user.ID, &user.Key, &user.Name, &user.AvatarURL, &updatedAt)
		user.UpdatedAt = sql.FromMicros(updatedAt)
		users[user.ID] = user
		return err
	})
	return users, err
}

// ActiveUsers lists the users who were last seen at since or later, in order of ID: at most limit users with IDs above after.
func ActiveUsers(ctx context.Context, db *sql.DB, after services.UserID, limit int, since time.Time) ([]services.UserID, error) {
	return sql.ReadColumn[services.UserID](ctx, db, activeUsers, after, since, limit)
}

// InactiveUsers lists the users that ActiveUsers leaves out, in the same order.
func InactiveUsers(ctx context.Context, db *sql.DB, after services.UserID, limit int, since time.Time) ([]services.UserID, error) {
	return sql.ReadColumn[services.UserID](ctx, db, inactiveUsers, after, since, limit)
}

// LastVisits reads when users were last seen; the zero time for a user who never was. An unknown user ID is absent.
func LastVisits(ctx context.Context, db *sql.DB, users []services.UserID) (map[services.UserID]time.Time, error) {
	return sql.ReadByKey(ctx, db, lastVisits, []any{users}, func(scan sql.Scan, user *services.UserID, visit *time.Time) error {
		var at int64
		err := scan(user, &at)
		if at > 0 {
			*visit = sql.FromMicros(at)
		}
		return err
	})
}
