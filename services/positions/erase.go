package positions

import "tidings/services/erase"

// Erase are the steps that remove a user's positions in views.
var Erase = []erase.Step{
	erase.Rows("views", "user_access_log", "user_number", "user_number, view_code, view_id"),
}
