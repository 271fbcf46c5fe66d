package projector

import "tidings/services/erase"

// Erase are the steps that remove a user's preferences.
var Erase = []erase.Step{erase.Rows("preferences", "display_policies", "user_number", "user_number")}
