package refs

import "tidings/services/erase"

// Erase are the steps that remove the labels of what a user created: their refs are free again.
var Erase = []erase.Step{erase.Rows("refs", "refs", "owner", "type, object")}
