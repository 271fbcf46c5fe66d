package webhooks

import "tidings/services/erase"

// Erase are the steps that remove a user's letters of all endpoints, dead or not.
var Erase = []erase.Step{erase.Of("webhooks", "webhookEvents", forget)}
