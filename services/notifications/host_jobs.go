package notifications

import (
	"context"
	"slices"

	"tidings/services"
	"tidings/services/erase"
	"tidings/services/jobs"
	"tidings/services/refs"
	"tidings/services/sql"
)

// The kinds of jobs of host notifications. Their names are in the database.
const (
	jobNotifyChunk   = "notify.host"     // payload: recipientChunk. A notification to a chunk of its recipients
	jobWithdraw      = "notify.withdraw" // key: host notification. It was withdrawn: it is taken back from its recipients
	jobPurgeCategory = "notify.purge"    // key: category. It was removed: its notifications are deleted
)

// recipientChunkSize is how many recipients one transaction notifies: few enough that other transactions do not wait long for it.
const recipientChunkSize = 250

// recipientChunk is a chunk of the recipients of a notification, as the payload of its job. Until the job has run, nothing else
// names them.
//
// A chunk has no texts: they are stored once, in the notification's row. The job reads that row when it runs, so it sees a
// withdrawal.
type recipientChunk struct {
	NotificationID services.HostNotificationID `json:"told"`             // the host notification
	Users          []services.UserID           `json:"users"`            // its recipients in this chunk
	EventMoment    services.SortableID         `json:"moment,omitempty"` // see Cause.Moment
}

// namedUsers are the users that the job names.
func (c recipientChunk) namedUsers() []services.UserID { return c.Users }

// hostJobKinds are the kinds of jobs of host notifications.
func (s *Service) hostJobKinds() []jobs.Kind {
	return []jobs.Kind{
		{Name: jobNotifyChunk, Class: jobs.BulkClass, Each: jobs.PayloadWork(s.notifyChunk),
			ChangedCounts: jobs.CountsOf(usersOfChunk, services.SourceNotifications), NamesUser: jobs.UserInPayload(recipientChunk.namedUsers)},
		{Name: jobWithdraw, Class: jobs.BulkClass, Each: jobs.ObjectWork(s.withdrawFromRecipients),
			ChangedCounts: jobs.CountsOf(jobs.Everyone, services.SourceNotifications), NamesUser: jobs.NoUser},
		{Name: jobPurgeCategory, Class: jobs.BulkClass, Each: s.purgeCategory, ChangedCounts: jobs.NoCounts(), NamesUser: jobs.NoUser},
	}
}

// usersOfChunk are the users whose counts a chunk changes.
func usersOfChunk(_ context.Context, job jobs.Job) ([]services.UserID, bool, error) {
	var chunk recipientChunk
	err := jobs.ReadPayload(job, &chunk)
	return chunk.Users, false, err
}

// notifyChunkJobs are the jobs that write a host notification to its recipients. They have no key: each chunk is a job of its own.
func notifyChunkJobs(id services.HostNotificationID, users []services.UserID, moment services.SortableID) ([]jobs.NewJob, error) {
	var chunks []recipientChunk
	for chunk := range slices.Chunk(users, recipientChunkSize) {
		chunks = append(chunks, recipientChunk{id, chunk, moment})
	}
	return jobs.ChunkJobs(jobNotifyChunk, chunks)
}

// purgeCategoryJob is the job that deletes the notifications of a removed category.
func purgeCategoryJob(category services.Category) jobs.NewJob {
	return jobs.KeyedJob(jobPurgeCategory, string(category))
}

// notifyChunk writes the rows of a chunk and projects the counts of its users. A repetition writes nothing and projects the
// present counts. A notification that was withdrawn before the job ran is not written at all.
func (s *Service) notifyChunk(ctx context.Context, job jobs.Job, chunk recipientChunk) error {
	var states []categoryState
	err := s.db.Write(ctx, func(tx *sql.Tx) (err error) {
		// Write may run the function again: the first run's states must not be projected after a withdrawal.
		states = nil
		cause := Cause{Object: services.SortableID(chunk.NotificationID), Moment: chunk.EventMoment}
		// The shared lock lasts until the rows are written: a withdrawal or removal that comes now waits, and its job finds the rows.
		stands, err := tx.One(ctx, lockHostNotification, []any{chunk.NotificationID}, &cause.Category, &cause.Subject, &cause.Actor)
		if err != nil || !stands {
			return err
		}
		causes := make([]Cause, len(chunk.Users))
		for i, user := range chunk.Users {
			causes[i] = cause
			causes[i].Recipient = user
		}
		states, err = applyCauses(ctx, tx, causes)
		return err
	})
	if err != nil {
		return err
	}
	return s.project(ctx, states)
}

// withdrawFromRecipients takes a notification back from its recipients, a chunk at a time. Chunks that have not run are not written
// any more: lockHostNotification does not find a withdrawn notification. The command has changed the facts already;
// withdrawFromRecipients makes the rows agree with them: the causes no longer count.
func (s *Service) withdrawFromRecipients(ctx context.Context, _ jobs.Job, id services.HostNotificationID) error {
	for after, more := services.UserID(0), true; more; {
		causes, err := sql.ReadRows(ctx, s.db, hostNotificationRecipients, []any{id, after, recipientChunkSize}, func(scan sql.Scan, c *Cause) error {
			*c = Cause{Object: services.SortableID(id)}
			return scan(&c.Recipient, &c.Category, &c.Subject, &c.Actor)
		})
		if err != nil || len(causes) == 0 {
			return err
		}
		var states []categoryState
		err = s.db.Write(ctx, func(tx *sql.Tx) (err error) {
			states, err = applyCauses(ctx, tx, causes)
			return err
		})
		if err == nil {
			err = s.project(ctx, states)
		}
		if err != nil {
			return err
		}
		// After a crash the job begins again from the first recipient. The causes that it has lowered stay lowered.
		after, more = causes[len(causes)-1].Recipient, len(causes) == recipientChunkSize
	}
	return nil
}

var (
	// The second condition lets the statement use the index of the host application's states.
	usersWithCategory = sql.NewStatement("users with a category of the host", `
SELECT recipient FROM notification_state WHERE category = $1 AND `+hostCategoryCondition+` ORDER BY recipient LIMIT $2`)

	// A client may mark notifications up to a position that it was shown, even after the position's row is deleted: the column gone keeps
	// the greatest such position.
	keepLastPurgedPosition = sql.NewStatement("keep the last position of a category", `UPDATE notification_heads SET gone = s.head
FROM notification_state s WHERE {in s.recipient $1 BIGINT} AND s.category = $2 AND notification_heads.recipient = s.recipient AND gone < s.head`)

	// These statements delete the rows of some users at once. The order does not matter, because the row of each user (recipientRow) is locked.
	purgeCauses = sql.NewStatement("delete causes of a category", `DELETE FROM notification_causes WHERE {in recipient $1 BIGINT} AND category = $2`)
	purgeGroups = sql.NewStatement("delete groups of a category", `DELETE FROM notification_groups WHERE {in recipient $1 BIGINT} AND category = $2`)
	purgeStates = sql.NewStatement("delete states of a category", `DELETE FROM notification_state WHERE {in recipient $1 BIGINT} AND category = $2`)

	// The statement has two bounds and not category = $1: with that, PostgreSQL walks the primary key, through all host
	// notifications.
	hostNotificationsInCategory = sql.NewStatement("host notifications of a category", `SELECT id FROM host_notifications
WHERE (category, id) > ($1, 0) AND (category, id) <= ($1, 9223372036854775807) ORDER BY category, id LIMIT $2`)

	deleteHostNotifications = sql.NewStatement("delete host notifications", `DELETE FROM host_notifications WHERE {in id $1 BIGINT}`)

	// If there is no row, the purge has ended before, and the name may be defined anew.
	removedCategoryID = sql.NewStatement("the id of a removed category", `SELECT id FROM notification_categories WHERE name = $1 AND removed_at > 0`)

	deleteDefinition = sql.NewStatement("delete a removed category", `DELETE FROM notification_categories WHERE name = $1 AND removed_at > 0`)
)

// usersPerPurge is how many users one transaction takes a category from. Each of them may have many rows, and their other
// notifications wait.
const usersPerPurge = 50

// purgeCategory deletes the notifications of a removed category, and then frees its name. Since the removal, nobody reads the
// category's fields in documents. purgeCategory marks the users all the same, so that the change stream also reports users who are
// not active. A repeated job continues where the last one ended.
func (s *Service) purgeCategory(ctx context.Context, job jobs.Job) error {
	category := services.Category(job.Key)
	var id int
	// The ID names the fields in documents. Once the row is gone the fields could not be found.
	if removed, err := s.db.One(ctx, removedCategoryID, []any{string(category)}, &id); err != nil || !removed {
		return err
	}
	for more := true; more; {
		// The states name the holders: every counter with a notification or a mark has a state.
		users, err := sql.ReadColumn[services.UserID](ctx, s.db, usersWithCategory, string(category), usersPerPurge)
		if err == nil {
			err = s.purgeCategoryOfUsers(ctx, category, id, users)
		}
		if err != nil {
			return err
		}
		// The states of this page are deleted, so the same statement finds the next page.
		more = len(users) == usersPerPurge
	}
	for more := true; more; {
		err := s.db.Write(ctx, func(tx *sql.Tx) (err error) {
			more, err = purgeHostNotifications(ctx, tx, category)
			return err
		})
		if err != nil {
			return err
		}
	}
	return s.db.Write(ctx, func(tx *sql.Tx) error {
		_, err := tx.Run(ctx, deleteDefinition, string(category))
		return err
	})
}

// purgeCategoryOfUsers deletes a category's rows and fields of some users. It marks the users before the deletion, because a job
// that is repeated after a crash no longer finds them, and also after it, because the change stream's writer may have learned of
// the removal only then.
func (s *Service) purgeCategoryOfUsers(ctx context.Context, category services.Category, id int, users []services.UserID) error {
	if len(users) == 0 {
		return nil
	}
	if err := s.projector.Mark(ctx, users); err != nil {
		return err
	}
	err := s.db.Write(ctx, func(tx *sql.Tx) error { return purgeCategoryRows(ctx, tx, category, users) })
	// The fields go after the rows: a rebuild in between finds no rows and writes no fields.
	if err == nil && s.redis != nil {
		err = s.redis.DropCategory(ctx, users, id)
	}
	if err != nil {
		return err
	}
	return s.projector.Mark(ctx, users)
}

// purgeCategoryRows deletes a category's rows of some users, under their locks: a notification that is applied concurrently is written
// before the deletion, or finds no category.
func purgeCategoryRows(ctx context.Context, tx *sql.Tx, category services.Category, users []services.UserID) error {
	if _, err := lockCounters(ctx, tx, services.Map(users, func(user services.UserID) counter { return counter{user, category} })); err != nil {
		return err
	}
	// keepLastPurgedPosition reads the states, so it comes before they go.
	for _, st := range []sql.Statement{keepLastPurgedPosition, purgeCauses, purgeGroups, purgeStates} {
		if _, err := tx.Run(ctx, st, users, string(category)); err != nil {
			return err
		}
	}
	return nil
}

// purgeHostNotifications deletes some host notifications of a category, with their labels. It runs after the deletion of the causes
// that refer to them. more is true if others may be left.
func purgeHostNotifications(ctx context.Context, tx *sql.Tx, category services.Category) (more bool, err error) {
	ids, err := sql.ReadColumn[services.HostNotificationID](ctx, tx, hostNotificationsInCategory, string(category), recipientChunkSize)
	if err != nil || len(ids) == 0 {
		return false, err
	}
	return len(ids) == recipientChunkSize, deleteHostNotificationsByID(ctx, tx, ids)
}

// deleteHostNotificationsByID deletes host notifications and their labels: the refs are free again.
func deleteHostNotificationsByID(ctx context.Context, tx *sql.Tx, ids []services.HostNotificationID) error {
	if _, err := tx.Run(ctx, deleteHostNotifications, sql.Numbers(ids)); err != nil {
		return err
	}
	return refs.DeleteLabels(ctx, tx, services.HostNotificationType, ids)
}

// The condition actor > 0 is the condition of the index, which leaves out notifications without an actor.
var hostNotificationsOfActor = sql.NewStatement("host notifications of an actor", `SELECT id FROM host_notifications WHERE actor = $1 AND actor > 0 ORDER BY id LIMIT $2`)

// eraseHostNotifications deletes the host notifications with the user as the actor: a title may name them. The step after it
// deletes their causes.
func eraseHostNotifications(ctx context.Context, tx *sql.Tx, at erase.StepPosition) (erase.StepResult, error) {
	ids, err := sql.ReadColumn[services.HostNotificationID](ctx, tx, hostNotificationsOfActor, at.User, recipientChunkSize)
	return eraseHostNotificationsByID(ctx, tx, ids, err)
}

// eraseHostNotificationsByID deletes the host notifications that a statement has found for an erasure; err is the statement's error.
func eraseHostNotificationsByID(ctx context.Context, tx *sql.Tx, ids []services.HostNotificationID, err error) (erase.StepResult, error) {
	if err != nil || len(ids) == 0 {
		return erase.StepResult{}, err
	}
	if err := deleteHostNotificationsByID(ctx, tx, ids); err != nil {
		return erase.StepResult{}, err
	}
	return erase.StepResult{Removed: erase.RemovedCounts("hostNotifications", len(ids)), More: len(ids) == recipientChunkSize}, nil
}
