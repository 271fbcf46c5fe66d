package people

import (
	"context"
	"maps"
	"slices"

	"tidings/services"
	"tidings/services/sql"
)

var (
	// lockAndCountUsers locks users' rows with the shared lock that a follow takes: an erasure waits for it, but visits and profiles do
	// not. It returns a count, which is one row, however many users there are. SQLite has one writer, so there the statement only counts.
	lockAndCountUsers = sql.NewStatement("hold and count users", `SELECT count(*) FROM (
		SELECT number FROM users WHERE {in number $1 BIGINT} ORDER BY number {for key share}) AS held`)

	existingUsers = sql.NewStatement("users who exist", `SELECT number FROM users WHERE {in number $1 BIGINT}`)
)

// EnsureLocked returns the IDs of users, and gives new keys their IDs, as Ensure does. It is for transactions that may take long, as a
// batch of an import does: none of the users can be erased until the transaction ends. With Ensure alone, an erasure could begin and end
// before the transaction commits, and would not see its rows. For requests Ensure is enough, because an erasure does not end before the
// requests that were under way when it began.
//
// known are users whose IDs the caller read in an earlier transaction, with their keys. The result has the IDs of keys, and new
// IDs of those known users who were erased since.
func EnsureLocked(ctx context.Context, tx *sql.Tx, keys []string, known map[services.UserID]string) (map[string]services.UserID, error) {
	ids, err := Ensure(ctx, tx, keys)
	if err != nil {
		return nil, err
	}
	users := make([]services.UserID, 0, len(known)+len(ids))
	for id := range known {
		users = append(users, id)
	}
	for fresh := ids; ; {
		// SQLite has one writer: the users that this transaction has read stay as they are.
		if tx.Dialect == sql.Postgres {
			for _, id := range fresh {
				users = append(users, id)
			}
		}
		gone, err := lockUserRowsShared(ctx, tx, users)
		if err != nil || len(gone) == 0 {
			return ids, err
		}
		// An erasure that begins between the two statements is found in the next round.
		if fresh, err = Ensure(ctx, tx, keysOfUsers(gone, known, ids)); err != nil {
			return nil, err
		}
		maps.Copy(ids, fresh)
		users = users[:0]
	}
}

// keysOfUsers lists the keys of a few users, which are in known or in ids, sorted.
func keysOfUsers(few []services.UserID, known map[services.UserID]string, ids map[string]services.UserID) (keys []string) {
	for _, id := range few {
		if key, found := known[id]; found {
			keys = append(keys, key)
		}
	}
	for key, id := range ids {
		if slices.Contains(few, id) {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	return keys
}

// lockUserRowsShared locks the rows of some users, each given once, until the transaction ends, and returns those who have no row.
// It sorts the list in place. One statement locks the rows in the order of their IDs, as all statements do that lock several users:
// so they do not deadlock.
func lockUserRowsShared(ctx context.Context, tx *sql.Tx, users []services.UserID) (gone []services.UserID, err error) {
	if len(users) == 0 {
		return nil, nil
	}
	slices.Sort(users) // both engines read sorted rows faster
	var held int
	if _, err := tx.One(ctx, lockAndCountUsers, []any{users}, &held); err != nil || held == len(users) {
		return nil, err
	}
	there, err := sql.ReadColumn[services.UserID](ctx, tx, existingUsers, users)
	if err != nil {
		return nil, err
	}
	slices.Sort(there)
	for _, user := range users {
		if _, found := slices.BinarySearch(there, user); !found {
			gone = append(gone, user)
		}
	}
	return gone, nil
}
