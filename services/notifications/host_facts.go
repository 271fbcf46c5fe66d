package notifications

import (
	"context"
	"strings"

	"tidings/services"
	"tidings/services/refs"
	"tidings/services/sql"
)

// HostNotificationContent is the content of a host notification; for a group, the content of the newest one. It is stored once, for
// all recipients.
type HostNotificationContent struct {
	ID       services.HostNotificationID // of the host notification
	Title    string
	Body     string // "" for none
	GroupKey string // "" for none
	// About is a post or a show, or the zero value. The object may have been deleted since: readers of it check.
	About services.Object
	// Label is the ref, the address and the data that the host attached.
	Label services.Label
}

// These are conditions of indexes. They stay as the migration has them: a new category of Tidings' own is not added.
const (
	// hostCategoryCondition is the condition of the index of the host application's states.
	hostCategoryCondition = `category NOT IN ('LIKE', 'COMMENT', 'MENTION', 'FOLLOW', 'REMINDER')`
	// hostCauseCondition is the condition of the index that finds the recipients of a notification of the host application.
	hostCauseCondition = `object > 0 AND ` + hostCategoryCondition
)

// hostCauseConditionOf is hostCauseCondition with an alias of the table.
func hostCauseConditionOf(alias string) string {
	return strings.NewReplacer("object", alias+".object", "category", alias+".category").Replace(hostCauseCondition)
}

var (
	// withdrawn_at is 0 while the notification stands. A withdrawal keeps the row, so that a repeated withdrawal is not an error,
	// as an unknown ID is.
	insertHostNotification = sql.NewStatement("insert a notification of the host", `
INSERT INTO host_notifications (id, category, subject, group_key, actor, about_type, about, title, body, at, recipients, withdrawn_at)
VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, 0)`)

	// newestOfMillisecond reads the greatest ID of a millisecond, for sql.Tx.NewIDInTable: past events of one millisecond get IDs in
	// the order in which they are reported.
	newestOfMillisecond = sql.NewestIDOfMillisecond("host_notifications")

	// A transaction that removes the category or withdraws the notification waits for the lock's holder, and then sees its rows.
	lockHostNotification = sql.NewStatement("lock what notifies", `
SELECT h.category, h.subject, h.actor FROM host_notifications h JOIN notification_categories c ON c.name = h.category AND c.removed_at = 0
WHERE h.id = $1 AND h.withdrawn_at = 0 {for share}`)

	// The lock is shared: notifications in one category do not wait for each other, and the category's removal waits for all.
	lockDefinition = sql.NewStatement("lock a category to notify in", `
SELECT grouped FROM notification_categories WHERE name = $1 AND removed_at = 0 {for share}`)

	// The statement changes no row if the notification is withdrawn already, or does not exist.
	withdrawHostNotification = sql.NewStatement("withdraw a notification of the host", `
UPDATE host_notifications SET withdrawn_at = $2 WHERE id = $1 AND withdrawn_at = 0`)

	// blankUndelivered deletes the texts of a notification without causes. Only causes name the recipients, so the erasure of a
	// recipient would not find these texts.
	blankUndelivered = sql.NewStatement("blank a notification that nobody has", `
UPDATE host_notifications SET title = '', body = '', group_key = '' WHERE id = $1
AND NOT EXISTS (SELECT 1 FROM notification_causes WHERE object = $1 AND `+hostCauseCondition+`)`)

	// hostNotificationByID reads a notification for the host application, which may also read one that it withdrew.
	hostNotificationByID = sql.NewStatement("a notification of the host", `
SELECT category, recipients, withdrawn_at FROM host_notifications WHERE id = $1`)

	// A title may name the actor, so a notification whose actor is being erased is not shown.
	hostNotificationContents = sql.NewStatement("texts of host notifications", `
SELECT h.id, h.title, h.body, h.group_key, h.about_type, h.about FROM host_notifications h
WHERE {in h.id $1 BIGINT} AND (SELECT count(*) FROM erasures e WHERE e.user_number = h.actor AND e.user_number > 0) = 0`)

	// A notification that was withdrawn, or deleted with its category, supports nothing: applyCauses then lowers its causes.
	// Users are not notified of their own acts.
	supportedHostCauses = sql.NewStatement("notifications of the host that stand", `
SELECT c.recipient, c.category, c.subject, c.actor, c.object, h.at, `+hiddenFromRecipientSQL("c.actor")+`
FROM {rows $1 recipient BIGINT, category TEXT, subject BIGINT, actor BIGINT, object BIGINT} AS c CROSS JOIN host_notifications h
WHERE h.id = c.object AND h.category = c.category AND h.subject = c.subject AND h.actor = c.actor AND h.withdrawn_at = 0 AND c.actor <> c.recipient`)

	// The last condition is the condition of the index by object. Without it the statement would walk all causes.
	hostNotificationRecipients = sql.NewStatement("recipients of a notification of the host", `
SELECT recipient, category, subject, actor FROM notification_causes WHERE object = $1 AND recipient > $2 AND `+hostCauseCondition+` ORDER BY recipient LIMIT $3`)
)

// readSupportedHostCauses adds to supported the causes in host categories that the facts support. Their fact is the row of the host
// notification, and not a like or a post.
func readSupportedHostCauses(ctx context.Context, tx *sql.Tx, causes sql.RowsParameter, supported map[Cause]supportedCause) error {
	if len(causes) == 0 {
		return nil
	}
	return tx.Each(ctx, supportedHostCauses, []any{causes}, func(scan func(...any) error) error {
		var c Cause
		var is supportedCause
		err := scan(&c.Recipient, &c.Category, &c.Subject, &c.Actor, &c.Object, &is.atMicros, &is.hidden)
		supported[c] = is
		return err
	})
}

// addHostContents sets the contents of the host notifications in list: newest[i] is the object of the newest cause of list[i]. A
// content that was deleted meanwhile, or whose actor is being erased, is left out: the caller then omits the notification.
func addHostContents(ctx context.Context, db *sql.DB, list []Notification, newest []services.SortableID) error {
	var ids []services.HostNotificationID
	var objects []services.Object
	for i, n := range list {
		if n.Category.HasHostCategoryForm() && newest[i] != 0 {
			id := services.HostNotificationID(newest[i])
			ids, objects = append(ids, id), append(objects, hostNotificationObject(id))
		}
	}
	if len(ids) == 0 {
		return nil
	}
	found, err := sql.ReadByKey(ctx, db, hostNotificationContents, []any{sql.Numbers(ids)}, func(scan sql.Scan, id *services.HostNotificationID, content *HostNotificationContent) error {
		err := scan(id, &content.Title, &content.Body, &content.GroupKey, &content.About.Type, &content.About.Number)
		content.ID = *id
		return err
	})
	if err != nil {
		return err
	}
	// labels are the refs, addresses and data that the host attached, also for the contents that are left out.
	labels, err := refs.Labels(ctx, db, objects)
	for i := range list {
		if content, ok := found[services.HostNotificationID(newest[i])]; ok && list[i].Category.HasHostCategoryForm() {
			content.Label = labels[hostNotificationObject(content.ID)]
			list[i].Host = &content
		}
	}
	return err
}

// hostNotificationObject is a host notification as an object that can have a ref and a label.
func hostNotificationObject(id services.HostNotificationID) services.Object {
	return services.Object{Type: services.HostNotificationType, Number: uint64(id)}
}
