package refs

import "tidings/services/erase"

// EraseSteps are the steps that remove the labels of a user's objects: the refs are free again.
var EraseSteps = []erase.Step{erase.DeleteRows("refs", "refs", "owner", "type, object")}
