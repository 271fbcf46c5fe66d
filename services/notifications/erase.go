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
	// The table has no index of actors, so a part of it is walked; see erase.Bound.
	recipientsToErase = sql.NewStatement("recipients of an erased actor", `SELECT recipient FROM notification_causes
		WHERE recipient > $2 AND recipient <= $3 AND actor = $1 ORDER BY recipient LIMIT 1`)

	// Only what does not stand: a cause that the facts still support is left, and comes again with the next pass.
	eraseCauses = sql.NewStatement("erase causes of an actor", `DELETE FROM notification_causes WHERE (recipient, category, subject, actor, object) IN
		(SELECT recipient, category, subject, actor, object FROM notification_causes WHERE recipient = $1 AND actor = $2 AND NOT standing LIMIT $3)`)

	// A position that was shown stays a valid upTo, although its row goes: gone remembers the greatest. + keeps SQLite from
	// choosing the index of positions, through all of the recipient's.
	keepErased = sql.NewStatement("keep the last position of an erased actor", `UPDATE notification_heads SET gone = erased.place
		FROM (SELECT max(place) AS place FROM notification_causes WHERE recipient = $1 AND actor = $2 AND NOT standing
			AND +place <= (SELECT max(head) FROM notification_state WHERE recipient = $1)) AS erased
		WHERE notification_heads.recipient = $1 AND gone < erased.place`)

	boundOfCauses = erase.Bound("notification_causes", "recipient")
)

// Erase are the steps that remove a user's notifications, and undo those of others that the user caused, after the facts have
// gone. The order matters: what was told of the user goes first, so that its causes have no support any more.
var Erase = []erase.Step{
	{Name: "told", Run: eraseTold},
	{Name: "causes", Run: eraseActor},
	{Name: "toldAlone", Run: eraseToldAlone},
	// From here on the user's own rows. The last argument is the primary key, by which a batch is picked.
	erase.Rows("notifications", "notification_causes", "recipient", "recipient, category, subject, actor, object"),
	erase.Rows("", "notification_groups", "recipient", "recipient, category, subject, bucket"),
	erase.Rows("", "notification_state", "recipient", "recipient, category"),
	erase.Rows("", "notification_heads", "recipient", "recipient"),
	erase.Rows("preferences", "category_preferences", "user_number", "user_number"),
}

var (
	firstWaiting = sql.NewStatement("the first recipients who wait", `SELECT COALESCE(min(created_at), 0) FROM jobs WHERE kind = '`+jobHost+`'`)

	// recipients counts those whom it was told to, also those whose job has not run. Beyond one, only the rows show who is left.
	toldAlone = sql.NewStatement("what a user alone was told", `
SELECT DISTINCT c.object FROM notification_causes c JOIN host_notifications h ON h.id = c.object
WHERE c.recipient = $1 AND `+ofHost("c")+` AND (h.recipients = 1 OR h.id < $3 AND NOT EXISTS (
	SELECT 1 FROM notification_causes o WHERE o.object = c.object AND o.recipient <> $1 AND `+ofHost("o")+`)) ORDER BY c.object LIMIT $2`)
)

// eraseToldAlone deletes what the host application told a user and nobody else who is left: it may name them. Recipients of whom a job
// has yet to write that they were told are counted by the time of the job, with a minute for the clocks of other nodes.
func eraseToldAlone(ctx context.Context, tx *sql.Tx, at erase.At) (erase.Done, error) {
	var first int64
	if _, err := tx.One(ctx, firstWaiting, nil, &first); err != nil {
		return erase.Done{}, err
	}
	// Without such a job every notification has all the recipients that it will ever have.
	until := services.MaxPostID
	// What was told after that may still get recipients.
	if first > 0 {
		until = services.PostIDAt(sql.FromMicros(first).Add(-time.Minute))
	}
	ids, err := sql.Column[services.PostID](ctx, tx, toldAlone, at.User, hostChunkSize, until)
	return eraseAllTold(ctx, tx, ids, err)
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
	// From SQL, because a new category may have causes that this node's cache does not know.
	hosts, err := definitions(ctx, tx.Runner)
	if err != nil {
		return erase.Done{}, err
	}
	all := slices.Concat(services.Categories, hostNames(hosts.All()))
	// The facts are gone: this lowers what they supported, with the counts and groups.
	_, _, more, err := applyCausesOf(ctx, tx, all, recipient, at.User, Cause{}, erase.Batch)
	if err != nil {
		return erase.Done{}, err
	}
	if _, err := tx.Run(ctx, keepErased, recipient, at.User); err != nil {
		return erase.Done{}, err
	}
	// After keepErased, which reads the rows that go now.
	n, err := tx.Run(ctx, eraseCauses, recipient, at.User, erase.Batch)
	if err == nil {
		err = jobs.Enqueue(ctx, tx, CountsJob(recipient))
	}
	// The recipient's badges change, so their counts are projected again.
	done := erase.Done{Removed: erase.Count("notificationsOfOthers", n), After: int64(recipient), More: true}
	// With nothing deleted it would be the same page again: the next pass comes back to it.
	if n > 0 && (more || n == erase.Batch) {
		done.After = at.After // this recipient again
	}
	return done, err
}
