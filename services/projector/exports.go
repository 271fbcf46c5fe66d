package projector

import "tidings/services/export"

// Exports has the kind of line that an export of one user's data has about their display policy.
var Exports = []export.LineKind{
	export.NewLineKind("displayPolicy", "inTotal inTotal, outOfTotal outOfTotal, asDot sources, quietFrom number, quietTo number, offsetEast number", "",
		`SELECT out_of_total, out_of_total, as_dot, quiet_from, quiet_to, offset_east FROM display_policies WHERE user_number = $1`),
}
