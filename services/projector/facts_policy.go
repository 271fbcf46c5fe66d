package projector

import (
	"context"

	"tidings/services"
	"tidings/services/sql"
)

// policiesOf selects display policies. The name of the column out_of_total is older than its meaning: it has the sources that are
// in the total although by default they are not, or the other way round (services.DisplayPolicy.InTotalInverted).
const policiesOf = `SELECT user_number, ver, out_of_total, as_dot, quiet_from, quiet_to, offset_east FROM display_policies WHERE {user user_number}`

// A user without a row has the default policy. insertPolicy makes the row that a change locks.
var (
	insertPolicy = sql.NewStatement("make a display policy", `INSERT INTO display_policies
		(user_number, ver, out_of_total, as_dot, quiet_from, quiet_to, offset_east) VALUES ($1, 0, 0, 0, 0, 0, 0)
		ON CONFLICT (user_number) DO NOTHING`)

	lockPolicies = sql.NewUserStatement("lock a display policy", "lock display policies", policiesOf+` {for update}`)

	readPolicies = sql.NewUserStatement("a display policy", "display policies", policiesOf)

	// setPolicy keeps the bits of sources that only a newer node knows: $8 has these bits.
	setPolicy = sql.NewStatement("set a display policy", `UPDATE display_policies
		SET ver = $2, out_of_total = (out_of_total & $8) | $3, as_dot = (as_dot & $8) | $4, quiet_from = $5, quiet_to = $6, offset_east = $7 WHERE user_number = $1`)
)

// ChangePolicy changes a user's display policy of badges and returns the new one. Changes of one user run one after the other,
// and each raises the version by one. If change fails, nothing is changed.
func ChangePolicy(ctx context.Context, tx *sql.Tx, user services.UserID, change func(*services.DisplayPolicy) error) (services.DisplayPolicy, error) {
	if _, err := tx.Run(ctx, insertPolicy, user); err != nil {
		return services.DisplayPolicy{}, err
	}
	policies, err := queryPolicies(ctx, tx.Runner, lockPolicies, []services.UserID{user})
	policy := policies[user]
	if err != nil {
		return policy, err
	}
	if err := change(&policy); err != nil {
		return policy, err
	}
	policy.Version++
	_, err = tx.Run(ctx, setPolicy, user, int64(policy.Version), int64(services.PackSources(policy.InTotalInverted)),
		int64(services.PackSources(policy.AsDot)), policy.QuietFromMinute, policy.QuietToMinute, policy.UTCOffsetMinutes, int64(-1)<<len(services.Sources))
	return policy, err
}

// Policy returns a user's display policy of badges, or the default policy with version 0 when the user never set one.
func Policy(ctx context.Context, db *sql.DB, user services.UserID) (services.DisplayPolicy, error) {
	policies, err := Policies(ctx, db, []services.UserID{user})
	return policies[user], err
}

// Policies returns the display policies of users. A user who never set one is absent.
func Policies(ctx context.Context, db *sql.DB, users []services.UserID) (map[services.UserID]services.DisplayPolicy, error) {
	return queryPolicies(ctx, db.Runner, readPolicies, users)
}

// queryPolicies reads policies by one of two statements, each for one user or for many: readPolicies, or lockPolicies, which also
// locks the rows.
func queryPolicies(ctx context.Context, r sql.Runner, both sql.UserStatement, users []services.UserID) (map[services.UserID]services.DisplayPolicy, error) {
	st, of := both.ForUsers(users)
	return sql.ReadByKey(ctx, r, st, []any{of}, func(scan sql.Scan, user *services.UserID, policy *services.DisplayPolicy) error {
		var turned, dots int64
		err := scan(user, &policy.Version, &turned, &dots, &policy.QuietFromMinute, &policy.QuietToMinute, &policy.UTCOffsetMinutes)
		policy.InTotalInverted, policy.AsDot = services.UnpackSources(uint64(turned)), services.UnpackSources(uint64(dots))
		return err
	})
}
