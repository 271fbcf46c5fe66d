package projector

import "tidings/services/erase"

// EraseSteps has the step that removes a user's display policy. It is counted among the preferences, as the modes of categories
// are, which notifications.EraseSteps removes.
var EraseSteps = []erase.Step{erase.DeleteRows("preferences", "display_policies", "user_number", "user_number")}
