package node

import (
	"tidings/services/feed"
	"tidings/services/importer"
	"tidings/services/live"
	"tidings/services/messages"
	"tidings/services/social"
)

// Imports are all kinds of import, in the order in which the help has them, with the settings that they take. A feature that takes
// files has its kind here, and the command line has the words, the help and the call of each. An import differs from the operations
// of mutations and ingest: importer.Kind has the reasons.
func Imports(c Config) []importer.Kind {
	active := c.Projector.DormantAfter
	return []importer.Kind{social.Import(active), messages.Import(c.Messages.Types), feed.Import(c.Feed, active), live.Import()}
}
