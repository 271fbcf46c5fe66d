package refs

import "tidings/services/erase"

// Erase are the steps that remove the labels of a user's objects: the refs are free again.
var Erase = []erase.Step{erase.Rows("refs", "refs", "owner", "type, object")}
