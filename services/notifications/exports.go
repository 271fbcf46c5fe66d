package notifications

import "tidings/services/export"

// Exports are the kinds of lines of an export of a user. Each cause is a line, with the ID of its row in the list: a line has one
// actor and one action, and a row of the list may group several. Hidden causes are lines too, as they are data of the recipient.
// A cause of the category FOLLOW has neither a subject nor an object.
var Exports = []export.LineKind{
	// The ID is the position of the group's first cause, else of its newest, else of the cause itself: an earlier release inserted
	// groups without a first, and a group whose causes were all undone has no newest. NULL stands for a field that the category does
	// not have. The marks are LEFT JOINs: a recipient may never have opened the panel.
	export.NewLineKind("notification", "id notification, category text, post post, show show, user user, answer post, at time, standing bool, seen bool, read bool", "c.place BIGINT",
		`SELECT COALESCE(NULLIF(g.first, 0), NULLIF(g.newest, 0), c.place), c.category, CASE WHEN c.category IN ('LIKE', 'COMMENT', 'MENTION') THEN c.subject END, CASE WHEN c.category = 'REMINDER' THEN c.subject END, u.key, CASE WHEN c.category = 'COMMENT' THEN c.object END, c.at, c.standing,
			COALESCE(s.seen >= c.place, FALSE), COALESCE(g.read_to >= c.place, FALSE)
		FROM notification_causes c LEFT JOIN users u ON u.number = c.actor
		LEFT JOIN notification_state s ON s.recipient = c.recipient AND s.category = c.category
		LEFT JOIN notification_groups g ON g.recipient = c.recipient AND g.category = c.category AND g.subject = c.subject AND g.bucket = c.bucket
		WHERE c.recipient = $1`),
	// These are only causes of the host application, as in hostCauseCondition: the object of a comment is a post, not a host
	// notification.
	export.NewLineKind("hostNotification", "id notification, category text, title text, body text, groupKey text, url text, data json, user user, at time", "c.place BIGINT",
		`SELECT COALESCE(NULLIF(g.first, 0), NULLIF(g.newest, 0), c.place), c.category, h.title, h.body, h.group_key, COALESCE(r.url, ''), COALESCE(r.data, ''), u.key, c.at
		FROM notification_causes c JOIN host_notifications h ON h.id = c.object AND h.category = c.category LEFT JOIN users u ON u.number = c.actor
		LEFT JOIN refs r ON r.type = 'hostNotification' AND r.object = h.id
		LEFT JOIN notification_groups g ON g.recipient = c.recipient AND g.category = c.category AND g.subject = c.subject AND g.bucket = c.bucket
		WHERE c.recipient = $1 AND `+hostCauseConditionOf("c")),
	// The facts keep only one seen position for each category.
	export.NewLineKind("notificationMark", "category text, seenUpTo upTo", "category TEXT", `SELECT category, seen FROM notification_state WHERE recipient = $1`),
	export.NewLineKind("categoryPreferences", "preferences json", "", `SELECT preferences FROM category_preferences WHERE user_number = $1`),
}
