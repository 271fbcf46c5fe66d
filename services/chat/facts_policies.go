package chat

import (
	"context"

	"tidings/services"
	"tidings/services/people"
	"tidings/services/sql"
)

var (
	oneGroupPolicy = sql.NewStatement("a group policy", `SELECT policy FROM group_policies WHERE user_number = $1`)

	setGroupPolicy = sql.NewStatement("set a group policy", `INSERT INTO group_policies (user_number, policy) VALUES ($1, $2)
		ON CONFLICT (user_number) DO UPDATE SET policy = excluded.policy`)
)

// readGroupPolicy is a user's policy of the users who may add them to groups and rooms.
func readGroupPolicy(ctx context.Context, db *sql.DB, user services.UserID) (GroupPolicy, error) {
	// Without a row the policy is the default.
	policy := addedByEveryone
	_, err := db.One(ctx, oneGroupPolicy, []any{user}, &policy)
	return policy, err
}

// putGroupPolicy sets a user's policy of the users who may add them to groups and rooms.
func putGroupPolicy(ctx context.Context, tx *sql.Tx, user services.UserID, policy GroupPolicy) error {
	_, err := tx.Run(ctx, setGroupPolicy, user, policy)
	return err
}

// Users who are members of conversation $3 already are not added, so their policies do not matter.
var unaddableUsers = sql.NewStatement("users that another cannot add", people.BlockedEitherWaySQL+`
UNION ALL SELECT p.user_number FROM group_policies p WHERE {in p.user_number $2 BIGINT} AND p.user_number <> $1
	AND (p.policy = 'NOBODY' OR p.policy = 'WHO_I_FOLLOW' AND NOT EXISTS (SELECT 1 FROM follows f WHERE f.follower = p.user_number AND f.followee = $1))
	AND NOT EXISTS (SELECT 1 FROM conversation_members m WHERE m.conversation = $3 AND m.user_number = p.user_number AND m.left_at = 0)`)

// findUnaddable lists the users, among the given ones, that adder cannot add to a GROUP or ROOM: there is a block between the two,
// or the user's group policy refuses adder. id is 0 for a conversation that is to be created. The policies of users who are members
// already do not count.
func findUnaddable(ctx context.Context, tx *sql.Tx, adder services.UserID, id services.ConversationID, users []services.UserID) ([]services.UserID, error) {
	return sql.ReadColumn[services.UserID](ctx, tx, unaddableUsers, adder, users, id)
}
