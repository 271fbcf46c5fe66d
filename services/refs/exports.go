package refs

import (
	"fmt"

	"tidings/services"
	"tidings/services/export"
)

// Exports are this package's kinds of lines in a user's export: the labels of the objects that they created.
var Exports = []export.LineKind{
	labelExport(services.PostType), labelExport(services.ShowType), labelExport(services.ConversationType), labelExport(services.MessageType),
}

// labelExport returns the kind of lines with the labels of the objects of one type.
func labelExport(kind string) export.LineKind {
	return export.NewLineKind(kind+"Label", fmt.Sprintf("%s %s, ref text, url text, data json", kind, kind), "object BIGINT", fmt.Sprintf(
		`SELECT object, ref, url, data FROM refs WHERE owner = $1 AND type = '%s'`, kind))
}
