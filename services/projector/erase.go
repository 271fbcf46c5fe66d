package projector

import "tidings/services/erase"

// Erase is the step that removes a user's display policy. It is counted among the preferences, as the modes of categories are, which
// notifications.Erase removes.
var Erase = []erase.Step{erase.Rows("preferences", "display_policies", "user_number", "user_number")}
