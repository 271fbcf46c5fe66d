package erase

import (
	"bytes"
	"encoding/json"
	"strings"

	"tidings/services"
)

// userFields are the fields of jobs' payloads that hold a user, or a list of users, in lower case. A new kind of payload with a user in
// another field has to add the field here, or erasures would leave the payload.
var userFields = map[string]bool{
	"author": true, "recipient": true, "actor": true, "host": true, "user": true, "users": true, "hosts": true,
}

// JobNamesUser reports whether a job names the user: by its key, or by its payload, which has one JSON object in each line. It
// looks at the names of fields, so that one function finds the jobs of all features. In doubt it reports true: an erasure removes a
// job too many rather than one too few.
func JobNamesUser(user services.UserID, kind, key string, payload []byte) bool {
	id := services.UserIDText(user)
	before, after, pair := strings.Cut(key, "/")
	// The first part of the key of a chat job is a conversation and not a user.
	if !strings.HasPrefix(kind, "chat.") && before == id || pair && after == id {
		return true
	}
	decoder := json.NewDecoder(bytes.NewReader(payload))
	// A float would make two large IDs equal.
	decoder.UseNumber()
	for {
		var value any
		// The end of the payload, or a payload that is not JSON and so has no user.
		if err := decoder.Decode(&value); err != nil {
			return false
		}
		if jsonNamesUser(value, id, false) {
			return true
		}
	}
}

// jsonNamesUser reports whether a JSON value has the ID in a field of users. isUser says that the value itself is in such a
// field.
func jsonNamesUser(value any, id string, isUser bool) bool {
	switch value := value.(type) {
	case json.Number:
		return isUser && value.String() == id
	case []any:
		for _, one := range value {
			if jsonNamesUser(one, id, isUser) {
				return true
			}
		}
	case map[string]any:
		for name, one := range value {
			if jsonNamesUser(one, id, userFields[strings.ToLower(name)]) {
				return true
			}
		}
	}
	return false
}
