package announcements

import "tidings/services/erase"

// Erase are the steps that remove a user's marks and segments.
var Erase = []erase.Step{
	erase.Rows("marks", "user_notices", "user_number", "user_number"),
	erase.Rows("marks", "user_dots", "user_number", "user_number, dot"),
	erase.Rows("", "user_segments", "user_number", "user_number"),
}
