package node

import (
	"slices"

	"tidings/services/announcements"
	"tidings/services/chat"
	"tidings/services/live"
	"tidings/services/messages"
	"tidings/services/notifications"
	"tidings/services/posts"
	"tidings/services/store"
)

// Exports are all kinds of lines of an export of a user, in their order.
var Exports = slices.Concat(
	store.UserExports, posts.Exports, live.Exports, notifications.Exports, store.PositionExports, messages.Exports, announcements.Exports,
	store.PolicyExports, chat.Exports,
)
