package views

import "tidings/services/erase"

// EraseSteps are the steps that remove a reader of views.
var EraseSteps = []erase.Step{erase.DeleteRows("", "view_readers", "user_number", "user_number")}
