package acts

import (
	"context"
	"math"
	"time"

	"tidings/services"
	"tidings/services/erase"
	"tidings/services/sql"
)

var (
	// eraseActor empties the actor of a user's acts, among the acts with IDs above $2, up to $3.
	eraseActor = sql.NewStatement("forget who acted", `UPDATE acts SET actor = '' WHERE id > $2 AND id <= $3 AND actor = $1`)

	// actsPartEnd finds the end of the next range of IDs, and whether that range is the last.
	actsPartEnd = erase.ScanPartEndFinder("acts", "id")
)

// EraseSteps are the steps that remove a user from the acts of operators: the acts stay, without the user as actor or target. While
// the erasure runs, an operator may ask about its progress. This question is an act too, and names the user: RemoveUserKey removes
// the name.
var EraseSteps = []erase.Step{
	{Name: "acts.actor", Run: func(ctx context.Context, tx *sql.Tx, at erase.StepPosition) (erase.StepResult, error) {
		// Acts have no index by actor: each step walks a range of IDs.
		end, last, err := actsPartEnd(ctx, tx, at.ResumeAfter)
		if err == nil {
			_, err = tx.Run(ctx, eraseActor, at.UserKey, at.ResumeAfter, end)
		}
		return erase.StepResult{ResumeAfter: end, More: !last}, err
	}},
	{Name: "acts.target", Run: func(ctx context.Context, tx *sql.Tx, at erase.StepPosition) (erase.StepResult, error) {
		_, err := emptyTarget(ctx, tx, services.GlobalID(services.UserType, at.UserKey))
		return erase.StepResult{}, err
	}},
}

// RemoveUserKey removes the key of a user from the acts once more, in the transaction that frees the key: as the actor of acts since a
// time, which the steps of the erasure may have missed, and as the target of all acts. See erase.KeyRemover.
func RemoveUserKey(ctx context.Context, tx *sql.Tx, key string, since time.Time) error {
	if _, err := tx.Run(ctx, eraseActor, key, services.SortableIDAt(since), math.MaxInt64); err != nil {
		return err
	}
	_, err := emptyTarget(ctx, tx, services.GlobalID(services.UserType, key))
	return err
}
