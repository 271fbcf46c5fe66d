package acts

import (
	"context"

	"tidings/services"
	"tidings/services/erase"
	"tidings/services/sql"
)

var (
	eraseTarget = sql.NewStatement("forget whom acts were on", `UPDATE acts SET target = '', details = '' WHERE target = $1`)

	eraseActor = sql.NewStatement("forget who acted", `UPDATE acts SET actor = '' WHERE id > $2 AND id <= $3 AND actor = $1`)

	boundOfActs = erase.Bound("acts", "id")
)

// Erase are the steps that remove a user from the acts of operators: what was done stays, without on whom or by whom.
var Erase = []erase.Step{
	{Name: "acts.target", Run: func(ctx context.Context, tx *sql.Tx, at erase.At) (erase.Done, error) {
		_, err := tx.Run(ctx, eraseTarget, services.GlobalID(services.UserType, at.Key))
		return erase.Done{}, err
	}},
	{Name: "acts.actor", Run: func(ctx context.Context, tx *sql.Tx, at erase.At) (erase.Done, error) {
		end, last, err := boundOfActs(ctx, tx, at.After)
		if err == nil {
			_, err = tx.Run(ctx, eraseActor, at.Key, at.After, end)
		}
		return erase.Done{After: end, More: !last}, err
	}},
}
