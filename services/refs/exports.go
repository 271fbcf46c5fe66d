package refs

import (
	"fmt"

	"tidings/services"
	"tidings/services/export"
)

// Exports are this package's kinds of lines in a user's export: the labels of the objects that they created.
var Exports = []export.Kind{
	exportOf(services.PostType), exportOf(services.ShowType), exportOf(services.ConversationType), exportOf(services.MessageType),
}

// exportOf returns the kind of lines for objects of one type.
func exportOf(kind string) export.Kind {
	return export.NewKind(kind+"Label", fmt.Sprintf("%s %s, ref text, url text, data json", kind, kind), "object BIGINT", fmt.Sprintf(
		`SELECT object, ref, url, data FROM refs WHERE owner = $1 AND type = '%s'`, kind))
}
