package notifications

import (
	"context"

	"tidings/services"
	"tidings/services/erase"
	"tidings/services/jobs"
	"tidings/services/sql"
)

var (
	recipientsToErase = sql.NewStatement("recipients of an erased actor", `SELECT recipient FROM notification_causes
		WHERE recipient > $2 AND recipient <= $3 AND actor = $1 ORDER BY recipient LIMIT 1`)

	eraseCauses = sql.NewStatement("erase causes of an actor", `DELETE FROM notification_causes WHERE (recipient, category, subject, actor, object) IN
		(SELECT recipient, category, subject, actor, object FROM notification_causes WHERE recipient = $1 AND actor = $2 AND NOT standing LIMIT $3)`)

	boundOfCauses = erase.Bound("notification_causes", "recipient")
)

// Erase are the steps that remove a user's notifications, and undo those of others that the user caused, after the facts have gone.
var Erase = []erase.Step{
	{Name: "causes", Run: eraseActor},
	erase.Rows("notifications", "notification_causes", "recipient", "recipient, category, subject, actor, object"),
	erase.Rows("", "notification_groups", "recipient", "recipient, category, subject, bucket"),
	erase.Rows("", "notification_state", "recipient", "recipient, category"),
	erase.Rows("", "notification_heads", "recipient", "recipient"),
}

// eraseActor brings notifications of the next recipient in line with the facts, and deletes what the user caused. It is one recipient at
// a time, and of them a page, because their other transactions wait.
func eraseActor(ctx context.Context, tx *sql.Tx, at erase.At) (erase.Done, error) {
	end, last, err := boundOfCauses(ctx, tx, at.After)
	if err != nil {
		return erase.Done{}, err
	}
	var recipient services.UserID
	found, err := tx.One(ctx, recipientsToErase, []any{at.User, at.After, end}, &recipient)
	if err != nil || !found {
		return erase.Done{After: end, More: !last}, err
	}
	if recipient == at.User {
		return erase.Done{After: int64(recipient), More: true}, nil // the next step removes all of theirs
	}
	_, _, more, err := applyCausesOf(ctx, tx, recipient, at.User, Cause{}, erase.Batch)
	if err != nil {
		return erase.Done{}, err
	}
	n, err := tx.Run(ctx, eraseCauses, recipient, at.User, erase.Batch)
	if err == nil {
		err = jobs.Enqueue(ctx, tx, CountsJob(recipient))
	}
	done := erase.Done{Removed: erase.Count("notificationsOfOthers", n), After: int64(recipient), More: true}
	if n > 0 && (more || n == erase.Batch) {
		done.After = at.After // this recipient again
	}
	return done, err
}
