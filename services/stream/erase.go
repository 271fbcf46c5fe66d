package stream

import "tidings/services/erase"

// Erase are the steps that remove a user from the change stream.
var Erase = []erase.Step{erase.Of("stream", "", Forget)}
