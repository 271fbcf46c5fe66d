package devices

import "tidings/services/export"

// Exports are this package's kinds of lines in a user's export. The keys of a browser are left out: they are no data of the user, and
// with them anyone can read its messages.
var Exports = []export.LineKind{
	export.NewLineKind("pushDevice", "name text, endpoint text, silent bool, registeredAt time, lastRegisteredAt time, deliveredAt time", "registered_at BIGINT, hash TEXT",
		`SELECT name, endpoint, silent, registered_at, seen_at, CASE WHEN delivered_at > 0 THEN delivered_at END FROM devices WHERE user_number = $1`),
}
