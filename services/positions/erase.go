package positions

import "tidings/services/erase"

// EraseSteps are the steps that remove a user's positions in views.
var EraseSteps = []erase.Step{
	erase.DeleteRows("views", "user_access_log", "user_number", "user_number, view_code, view_id"),
}
