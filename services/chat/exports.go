package chat

import "tidings/services/export"

// Exports are the kinds of lines of an export of a user: the user's memberships and messages, and not other users' messages.
var Exports = []export.LineKind{
	export.NewLineKind("groupPolicy", "policy text", "", `SELECT policy FROM group_policies WHERE user_number = $1`),
	export.NewLineKind("conversation", "id conversation, kind text, title text, joinedAt time, leftAt time, muted bool, readUpTo number, mentions number", "c.id BIGINT",
		`SELECT c.id, c.kind, c.title, m.joined_at, m.left_at, m.muted, m.base, m.mentions
		FROM conversation_members m JOIN conversations c ON c.id = m.conversation WHERE m.user_number = $1`),
	// The messages are found by the user's own memberships, which have an index: no index has messages by author over all
	// conversations.
	export.NewLineKind("message", "conversation conversation, number number, body text, sentAt time, recalledAt time", "s.conversation BIGINT, s.number BIGINT",
		`SELECT s.conversation, s.number, s.body, s.sent_at, s.recalled_at FROM conversation_members m
		JOIN conversation_messages s ON s.conversation = m.conversation AND s.author = m.user_number WHERE m.user_number = $1`),
	// These are the people that the user's own messages mention; a mention of the user is a messageMention.
	export.NewLineKind("mentionInMessage", "conversation conversation, number number, user user", "s.conversation BIGINT, s.number BIGINT, n.user_number BIGINT",
		`SELECT s.conversation, s.number, u.key FROM conversation_members m
		JOIN conversation_messages s ON s.conversation = m.conversation AND s.author = m.user_number
		JOIN conversation_mentions n ON n.conversation = s.conversation AND n.number = s.number
		JOIN users u ON u.number = n.user_number WHERE m.user_number = $1`),
	export.NewLineKind("messageMention", "conversation conversation, number number", "conversation BIGINT, number BIGINT",
		`SELECT conversation, number FROM conversation_mentions WHERE user_number = $1`),
	export.NewLineKind("device", "conversation conversation, device text, insideUntil time", "conversation BIGINT, device TEXT",
		`SELECT conversation, device, until_at FROM conversation_leases WHERE user_number = $1`),
}
