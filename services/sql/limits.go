package sql

import (
	"context"
	"hash/fnv"
	"slices"

	"tidings/services"
)

// OwnerLimit is how many rows of a kind an owner may have, such as how many users they follow. A function counts the owner's rows,
// refuses to insert beyond the limit, and calls EnforceLimit. On SQLite, which has one writer, the count is enough. On PostgreSQL
// two transactions may each count room for one more, and both insert. So a transaction locks the limits of its owners at its end,
// and counts once more: now it sees the rows of all transactions that had the lock before. If an owner is over the limit, the
// transaction is run again, and its functions count those rows too.
//
// The owners of a limit are locked in one order, and so are the limits, as end hooks are. These are not locks of rows: visits and
// profiles of the owners do not wait for them.
type OwnerLimit struct {
	lockKey        int64      // tells its locks from those of other limits
	checkStatement Statement  // returns a row if all owners are within the limit: see NewOwnerLimit
	endHook        *TxEndHook // runs check
}

// NewOwnerLimit declares a limit. within returns one row if no owner is over the limit, and none otherwise. Its $1 are rows of two
// numbers, an owner and how many rows the owner may have.
func NewOwnerLimit(name string, within Statement) *OwnerLimit {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(name)) // it accepts everything
	limit := &OwnerLimit{lockKey: int64(int32(hash.Sum32())), checkStatement: within}
	limit.endHook = NewTxEndHook(limit.check)
	return limit
}

// lockLimitOwners locks some owners of a limit until the transaction ends. It is not declared by NewStatement, because SQLite has no such
// lock. Limits with the same key by chance only wait for each other.
var lockLimitOwners = Statement{name: "lock limits", texts: [dialectCount]string{
	Postgres: `SELECT pg_advisory_xact_lock($1::INT, owner) FROM unnest($2::INT[]) AS owner`,
}}

// errOverLimit makes a transaction run again, because one of its owners is over a limit.
var errOverLimit = services.Errorf(services.Unavailable, "others fill the same limit at the same time")

// EnforceLimit checks at the end of the transaction that the owner has at most this many rows. Call it with each insertion. For a limit
// of the whole installation the owner is 0.
func (tx *Tx) EnforceLimit(limit *OwnerLimit, owner services.UserID, most int) {
	if tx.Dialect == Postgres {
		tx.KeepForEndHook(limit.endHook, []any{owner, most})
	}
}

// check is the end hook of the limit: it locks the owners and counts their rows. Both statements go out in the round trip of the
// insertions: nothing waits for their answers.
func (l *OwnerLimit) check(ctx context.Context, tx *Tx, values []any) error {
	var owned RowsParameter
	var owners []int64
	for _, value := range values {
		row := value.([]any)
		// The keys of the locks are 32 bits wide, as IDs of users are.
		if owner := int64(int32(row[0].(services.UserID))); !slices.Contains(owners, owner) {
			owners, owned = append(owners, owner), append(owned, row)
		}
	}
	slices.Sort(owners)
	// The count is a statement of its own, because a statement does not see what is committed after it began.
	if _, err := tx.Run(ctx, lockLimitOwners, l.lockKey, owners); err != nil {
		return err
	}
	if within, err := tx.Run(ctx, l.checkStatement, owned); err != nil || within > 0 {
		return err
	}
	return errOverLimit
}
