package positions

import "tidings/services/export"

// Exports are the kinds of lines of an export of a user: their positions in views.
var Exports = []export.Kind{
	export.NewKind("position", "view text, id text, position digits, accessedAt time", "view_code TEXT, view_id TEXT",
		`SELECT view_code, view_id, position, last_access_at FROM user_access_log WHERE user_number = $1`),
}
