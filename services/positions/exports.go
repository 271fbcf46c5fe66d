package positions

import "tidings/services/export"

// Exports are this package's kinds of lines in a user's export: their positions in views.
var Exports = []export.LineKind{
	export.NewLineKind("position", "view text, id text, position digits, accessedAt time", "view_code TEXT, view_id TEXT",
		`SELECT view_code, view_id, position, last_access_at FROM user_access_log WHERE user_number = $1`),
}
