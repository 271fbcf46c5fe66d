package notifications

import "tidings/services/export"

// Exports are the kinds of lines of an export of a user.
var Exports = []export.Kind{
	export.NewKind("notification", "id notification, category text, post post, show show, user user, answer post, at time, standing bool, seen bool, read bool",
		`SELECT COALESCE(NULLIF(g.first, 0), NULLIF(g.newest, 0), c.place), c.category, CASE WHEN c.category <> 'REMINDER' THEN c.subject END, CASE WHEN c.category = 'REMINDER' THEN c.subject END, u.key, c.object, c.at, c.standing,
			COALESCE(s.seen >= c.place, FALSE), COALESCE(g.read_to >= c.place, FALSE)
		FROM notification_causes c LEFT JOIN users u ON u.number = c.actor
		LEFT JOIN notification_state s ON s.recipient = c.recipient AND s.category = c.category
		LEFT JOIN notification_groups g ON g.recipient = c.recipient AND g.category = c.category AND g.subject = c.subject AND g.bucket = c.bucket
		WHERE c.recipient = $1 ORDER BY c.place`),
	export.NewKind("notificationMark", "category text, seenUpTo upTo", `SELECT category, seen FROM notification_state WHERE recipient = $1 ORDER BY category`),
}
