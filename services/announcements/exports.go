package announcements

import "tidings/services/export"

// Exports are the kinds of lines of an export of a user.
var Exports = []export.LineKind{
	export.NewLineKind("announcementMark", "readUpTo time, dotsFrom time", "", `SELECT position, dots_from FROM user_notices WHERE user_number = $1`),
	export.NewLineKind("dot", "name text, clearedAt time", "dot TEXT", `SELECT dot, seen FROM user_dots WHERE user_number = $1`),
	export.NewLineKind("segment", "name text", "s.bit BIGINT", `SELECT s.name FROM user_segments u JOIN segments s ON ((u.segments >> CAST(s.bit AS INTEGER)) & 1) = 1
		WHERE u.user_number = $1`),
}
