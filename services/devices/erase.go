package devices

import "tidings/services/erase"

// Erase are the steps that remove a user's devices. A request that is under way may still arrive.
var Erase = []erase.Step{erase.Of("devices", "devices", forget)}
