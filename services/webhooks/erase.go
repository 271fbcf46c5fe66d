package webhooks

import "tidings/services/erase"

// Erase are the steps that remove what is kept of a user for endpoints: what is yet to be delivered, and dead letters.
var Erase = []erase.Step{erase.Of("webhooks", "webhookEvents", forget)}
