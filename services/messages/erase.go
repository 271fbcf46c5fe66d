package messages

import "tidings/services/erase"

// Erase are the steps that remove a user from the recipients of site messages. The texts are the host application's.
var Erase = []erase.Step{
	erase.Rows("siteMessages", "site_message_recipients", "user_number", "user_number, message"),
	erase.Rows("", "site_message_state", "user_number", "user_number, type"),
	erase.Rows("", "site_message_gens", "user_number", "user_number"),
}
