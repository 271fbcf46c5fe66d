package messages

import "tidings/services/erase"

// EraseSteps are the steps that remove a user from the recipients of site messages. The texts are the host application's.
var EraseSteps = []erase.Step{
	erase.DeleteRows("siteMessages", "site_message_recipients", "user_number", "user_number, message"),
	erase.DeleteRows("", "site_message_state", "user_number", "user_number, type"),
	erase.DeleteRows("", "site_message_gens", "user_number", "user_number"),
}
