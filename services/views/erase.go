package views

import "tidings/services/erase"

// Erase are the steps that remove a reader of views.
var Erase = []erase.Step{erase.Rows("", "view_readers", "user_number", "user_number")}
