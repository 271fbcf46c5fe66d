package stream

import "tidings/services/erase"

// EraseSteps are the steps that remove a user from the change stream.
var EraseSteps = []erase.Step{erase.CallOnce("stream", "", Forget)}
