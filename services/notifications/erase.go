package notifications

import (
	"context"
	"slices"
	"time"

	"tidings/services"
	"tidings/services/erase"
	"tidings/services/jobs"
	"tidings/services/sql"
)

var (
	// recipientsOfErasedActor finds the next recipient alone. The table has no index of actors, so a part of it is walked; see
	// erase.ScanPartEndFinder.
	recipientsOfErasedActor = sql.NewStatement("recipients of an erased actor", `SELECT recipient FROM notification_causes
		WHERE recipient > $2 AND recipient <= $3 AND actor = $1 ORDER BY recipient LIMIT 1`)

	// Only causes that do not count (NOT standing) are deleted: a cause that the facts still support is left to the next pass.
	eraseCauses = sql.NewStatement("erase causes of an actor", `DELETE FROM notification_causes WHERE (recipient, category, subject, actor, object) IN
		(SELECT recipient, category, subject, actor, object FROM notification_causes WHERE recipient = $1 AND actor = $2 AND NOT standing LIMIT $3)`)

	// A client may mark notifications up to a position that it was shown, even after the position's row is deleted: the column gone
	// keeps the greatest such position. The + keeps SQLite from choosing the index of positions, which would walk all causes of the
	// recipient.
	keepLastErasedPosition = sql.NewStatement("keep the last position of an erased actor", `UPDATE notification_heads SET gone = erased.place
		FROM (SELECT max(place) AS place FROM notification_causes WHERE recipient = $1 AND actor = $2 AND NOT standing
			AND +place <= (SELECT max(head) FROM notification_state WHERE recipient = $1)) AS erased
		WHERE notification_heads.recipient = $1 AND gone < erased.place`)

	causesPartEnd = erase.ScanPartEndFinder("notification_causes", "recipient") // finds the next part of the table to walk
)

// EraseSteps are the steps that remove a user's notifications, and the notifications of others that the user caused, after the facts
// are deleted. The order matters: host notifications with the user as the actor go first, so that nothing supports their causes.
var EraseSteps = []erase.Step{
	{Name: "told", Run: eraseHostNotifications},
	{Name: "causes", Run: eraseActorCauses},
	{Name: "toldAlone", Run: eraseSoleRecipientNotifications},
	// From here on the steps delete the user's own rows. The last argument is the primary key, by which a batch is picked.
	erase.DeleteRows("notifications", "notification_causes", "recipient", "recipient, category, subject, actor, object"),
	erase.DeleteRows("", "notification_groups", "recipient", "recipient, category, subject, bucket"),
	erase.DeleteRows("", "notification_state", "recipient", "recipient, category"),
	erase.DeleteRows("", "notification_heads", "recipient", "recipient"),
	erase.DeleteRows("preferences", "category_preferences", "user_number", "user_number"),
}

var (
	// oldestHostJobTime reads when the oldest job of a host notification that still waits was made.
	oldestHostJobTime = sql.NewStatement("the first recipients who wait", `SELECT COALESCE(min(created_at), 0) FROM jobs WHERE kind = '`+jobNotifyChunk+`'`)

	// soleRecipientNotifications finds the host notifications of which a user is the only recipient left. h.recipients includes
	// recipients whose job has not run. If it is above 1, only causes show whether another recipient is left.
	soleRecipientNotifications = sql.NewStatement("host notifications of one recipient", `
SELECT DISTINCT c.object FROM notification_causes c JOIN host_notifications h ON h.id = c.object
WHERE c.recipient = $1 AND `+hostCauseConditionOf("c")+` AND (h.recipients = 1 OR h.id < $3 AND NOT EXISTS (
	SELECT 1 FROM notification_causes o WHERE o.object = c.object AND o.recipient <> $1 AND `+hostCauseConditionOf("o")+`)) ORDER BY c.object LIMIT $2`)
)

// eraseSoleRecipientNotifications deletes the host notifications of which the user is the only recipient left, because they may name
// the user. A recipient whose job has not run has no cause yet. So a notification with several recipients is kept if it is newer than
// the oldest waiting job, less a minute for the clocks of other nodes.
func eraseSoleRecipientNotifications(ctx context.Context, tx *sql.Tx, at erase.StepPosition) (erase.StepResult, error) {
	var first int64
	if _, err := tx.One(ctx, oldestHostJobTime, nil, &first); err != nil {
		return erase.StepResult{}, err
	}
	// Without a waiting job every notification has all the recipients that it will ever have.
	until := services.MaxSortableID
	// Notifications that were made after the oldest waiting job may still get recipients.
	if first > 0 {
		until = services.SortableIDAt(sql.FromMicros(first).Add(-time.Minute))
	}
	ids, err := sql.ReadColumn[services.HostNotificationID](ctx, tx, soleRecipientNotifications, at.User, recipientChunkSize, until)
	return eraseHostNotificationsByID(ctx, tx, ids, err)
}

// eraseActorCauses makes notifications of the next recipient agree with the facts, and deletes the causes with the user as the actor.
// It handles one page of one recipient at a time, because the recipient's other transactions wait.
func eraseActorCauses(ctx context.Context, tx *sql.Tx, at erase.StepPosition) (erase.StepResult, error) {
	end, last, err := causesPartEnd(ctx, tx, at.ResumeAfter)
	if err != nil {
		return erase.StepResult{}, err
	}
	var recipient services.UserID
	found, err := tx.One(ctx, recipientsOfErasedActor, []any{at.User, at.ResumeAfter, end}, &recipient)
	if err != nil || !found {
		return erase.StepResult{ResumeAfter: end, More: !last}, err
	}
	if recipient == at.User {
		return erase.StepResult{ResumeAfter: int64(recipient), More: true}, nil // later steps remove the user's own rows
	}
	// The categories are read from SQL, because a new category may have causes, and this node's cache may not know it.
	hosts, err := definitions(ctx, tx.Runner)
	if err != nil {
		return erase.StepResult{}, err
	}
	all := slices.Concat(services.Categories, hostCategoryNames(hosts.All()))
	// The facts are deleted: this call lowers the causes that they supported, with the counts and groups.
	_, _, more, err := applyStoredCausesPage(ctx, tx, all, recipient, at.User, Cause{}, erase.RowsPerRun)
	if err != nil {
		return erase.StepResult{}, err
	}
	if _, err := tx.Run(ctx, keepLastErasedPosition, recipient, at.User); err != nil {
		return erase.StepResult{}, err
	}
	// This comes after keepLastErasedPosition, which reads the rows that are deleted here.
	n, err := tx.Run(ctx, eraseCauses, recipient, at.User, erase.RowsPerRun)
	if err == nil { // the recipient's badges change, so their counts are projected again
		err = jobs.Enqueue(ctx, tx, ProjectCountsJob(recipient))
	}
	done := erase.StepResult{Removed: erase.RemovedCounts("notificationsOfOthers", n), ResumeAfter: int64(recipient), More: true}
	// If nothing was deleted, this recipient would give the same page again: the step goes on to the next recipient, and the next pass
	// comes to this one again.
	if n > 0 && (more || n == erase.RowsPerRun) {
		done.ResumeAfter = at.ResumeAfter // this recipient again
	}
	return done, err
}
