package messages

import "tidings/services/export"

// Exports are this package's kinds of lines in a user's export.
var Exports = []export.LineKind{
	export.NewLineKind("siteMessage", "id siteMessage, kind text, title text, content text, url text, data json, sentAt time, updatedAt time, readAt time", "m.id BIGINT",
		`SELECT m.id, m.type, m.title, m.content, COALESCE(l.url, ''), COALESCE(l.data, ''), m.created_at, m.updated_at, r.read_at
		FROM site_message_recipients r JOIN site_messages m ON m.id = r.message
		LEFT JOIN refs l ON l.type = 'siteMessage' AND l.object = m.id WHERE r.user_number = $1`),
}
