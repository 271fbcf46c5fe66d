package messages

import "tidings/services/export"

// Exports are the kinds of lines of an export of a user.
var Exports = []export.Kind{
	export.NewKind("siteMessage", "id siteMessage, kind text, title text, content text, sentAt time, updatedAt time, readAt time", "m.id BIGINT",
		`SELECT m.id, m.type, m.title, m.content, m.created_at, m.updated_at, r.read_at
		FROM site_message_recipients r JOIN site_messages m ON m.id = r.message WHERE r.user_number = $1`),
}
