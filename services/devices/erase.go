package devices

import "tidings/services/erase"

// EraseSteps are the steps that remove a user's devices. A request that is under way may still arrive.
var EraseSteps = []erase.Step{erase.CallOnce("devices", "devices", forget)}
