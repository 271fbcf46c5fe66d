package announcements

import "tidings/services/erase"

// EraseSteps are the steps that remove a user's marks and segments.
var EraseSteps = []erase.Step{
	erase.DeleteRows("marks", "user_notices", "user_number", "user_number"),
	erase.DeleteRows("marks", "user_dots", "user_number", "user_number, dot"),
	erase.DeleteRows("", "user_segments", "user_number", "user_number"),
}
