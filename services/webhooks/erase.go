package webhooks

import "tidings/services/erase"

// EraseSteps are the steps that remove a user's letters of all endpoints, dead or not.
var EraseSteps = []erase.Step{erase.CallOnce("webhooks", "webhookEvents", forget)}
