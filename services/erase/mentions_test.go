package erase

import "testing"

// A job names a user by its key or in its payload, and by nothing that only looks like the user's ID.
func TestJobNamesUser(t *testing.T) {
	for _, c := range []struct {
		kind, key, payload string
		want               bool
	}{
		{"feed.seen", "17", "", true}, {"follow", "17/4", "", true}, {"follow", "4/17", "", true}, {"follow", "4/117", "", false}, {"follow", "170/4", "", false},
		{"chat.member", "17/4", "", false}, {"chat.member", "4/17", "", true}, {"chat.pass", "17", "", false},
		{"notify", "", `{"Recipient":17,"Actor":4}`, true}, {"notify", "", "{\"Recipient\":3,\"Actor\":4}\n{\"Recipient\":3,\"Actor\":17}", true},
		{"notify", "", `{"Recipient":170,"Actor":4,"Subject":17}`, false}, {"post.push", "", `{"author":17,"after":1}`, true},
		{"post.push", "", `{"author":4,"after":17,"to":17}`, false}, {"message.deliver", "", `{"message":17,"users":[3,17]}`, true},
		{"message.deliver", "", `{"message":17,"users":[3,4]}`, false}, {"show", "", `{"Show":{"Host":17}}`, true}, {"x", "", "not JSON 17", false},
	} {
		if got := JobNamesUser(17, c.kind, c.key, []byte(c.payload)); got != c.want {
			t.Errorf("%+v: %v", c, got)
		}
	}
}
