package node

import (
	"slices"

	"tidings/services/announcements"
	"tidings/services/chat"
	"tidings/services/devices"
	"tidings/services/live"
	"tidings/services/messages"
	"tidings/services/notifications"
	"tidings/services/people"
	"tidings/services/positions"
	"tidings/services/posts"
	"tidings/services/projector"
	"tidings/services/refs"
)

// AllExportKinds are all kinds of lines of an export of a user, in their order. A feature that keeps something of a user has its
// kinds here; a test compares the tables with them. The command line and the field export both use AllExportKinds.
var AllExportKinds = slices.Concat(
	people.Exports, posts.Exports, live.Exports, notifications.Exports, positions.Exports, messages.Exports, announcements.Exports,
	projector.Exports, chat.Exports, refs.Exports, devices.Exports,
)
