package resolvers

import (
	"fmt"
	"reflect"
	"strings"
	"testing"

	"tidings/services"
)

// hostScopes are those of the host application's token.
var hostScopes = []services.Scope{services.ScopeIngest}

const usersQuery = `query($keys: [String!]!) { users(keys: $keys) {
	user { id key name }
	badges { id version quiet total { value precision inTotal } homeFeed { value precision } notifications { newest total { value } } dots { name lit } }
	unread { source count { value display inTotal precision } }
} }`

func TestUsersWithTheirBadges(t *testing.T) {
	a := newAPI(t)
	odd := "auth0|ünï 123"
	a.MakeNamedUsers(odd)
	a.must("bob", `mutation { follow(input: {userId: "user:alice"}) { user { id } } }`, nil)
	a.publishPost("alice")
	a.RunAllJobs(a.Fanout)
	for _, key := range []string{"alice", "bob", odd} {
		a.must(key, `{ viewer { badges { version } } }`, nil) // a user who has never been here has no document
	}
	got := a.ask("", hostScopes, usersQuery, map[string]any{"keys": []string{odd, "bob", "nobody", "alice", "bob"}})
	if len(got.Errors) > 0 || got.valueAt("users", 2) != nil {
		t.Fatalf("got %+v", got)
	}
	for i, key := range []string{odd, "bob", "", "alice", "bob"} {
		if key == "" {
			continue
		}
		if got.valueAt("users", i, "user", "key") != key || got.valueAt("users", i, "badges", "id") != services.GlobalID(services.BadgesType, key) {
			t.Errorf("in the place of %s: %v", key, got.valueAt("users", i))
		}
		own := a.must(key, `{ viewer { badges { id version quiet total { value precision inTotal } homeFeed { value precision } notifications { newest total { value } } dots { name lit } } } }`, nil)
		if want := own.valueAt("viewer", "badges"); !reflect.DeepEqual(got.valueAt("users", i, "badges"), want) {
			t.Errorf("the badges of %s are %v, to themselves %v", key, got.valueAt("users", i, "badges"), want)
		}
	}
	unread, _ := got.valueAt("users", 1, "unread").([]any)
	for i, source := range services.Sources {
		if got.valueAt("users", 1, "unread", i, "source") != string(source) {
			t.Errorf("source %d is %v, want %s", i, got.valueAt("users", 1, "unread", i), source)
		}
	}
	want := map[string]any{"source": "HOME_FEED", "count": map[string]any{"value": 1.0, "display": "1", "inTotal": true, "precision": "EXACT"}}
	if len(unread) != len(services.Sources) || !reflect.DeepEqual(unread[0], want) {
		t.Errorf("unread is %v", unread)
	}
}

func TestUsersAreForTheHostAlone(t *testing.T) {
	a := newAPI(t)
	for what, one := range map[string]struct {
		scopes []services.Scope
		keys   any
		code   services.Code
	}{
		"no token":       {nil, []string{"alice"}, services.Unauthenticated},
		"a user":         {[]services.Scope{services.ScopeViewer}, []string{"alice"}, services.Forbidden},
		"an operator":    {[]services.Scope{services.ScopeViewer, services.ScopeAdmin}, []string{"alice"}, services.Forbidden},
		"no keys":        {hostScopes, []string{}, services.Invalid},
		"too many":       {hostScopes, strings.Split(strings.Repeat("alice ", 100)+"alice", " "), services.Invalid},
		"an empty key":   {hostScopes, []string{"alice", ""}, services.Invalid},
		"a broken key":   {hostScopes, []string{"a\nb"}, services.Invalid},
		"a key too long": {hostScopes, []string{strings.Repeat("k", services.MaxKeyCharacters+1)}, services.Invalid},
	} {
		if got := a.ask("alice", one.scopes, usersQuery, map[string]any{"keys": one.keys}); got.code() != one.code || got.valueAt("users") != nil {
			t.Errorf("%s: %+v, want %s", what, got, one.code)
		}
	}
	got := a.ask("", hostScopes, usersQuery, map[string]any{"keys": strings.Fields(strings.Repeat("alice ", 100))})
	if len(got.Errors) > 0 || got.valueAt("users", 99, "user", "key") != "alice" {
		t.Errorf("100 keys: %+v", got)
	}
}

// Users that the host application requests by their keys are read together.
func usersOfTheHostAreReadInBatches(t *testing.T, c *filledWorld) {
	c.loadsReaderOnRestart = true
	var keys []string
	for _, id := range c.idsInReaderLists("User") {
		keys = append(keys, strings.TrimPrefix(id, "user:"))
	}
	keys = append(keys, "reader")
	for _, key := range keys {
		c.must(key, "{ viewer { badges { version } } }", nil)
	}
	got := c.askColdAndWarm(t, usersQuery, map[string]any{"keys": keys})
	for i, key := range keys {
		if got.valueAt("users", i, "user", "key") != key {
			t.Errorf("in the place of %s: %v", key, got.valueAt("users", i))
		}
	}
	var fields []string
	for i, key := range keys[:5] {
		fields = append(fields, fmt.Sprintf("a%d: users(keys: [%q, %q, %q]) { user { key } badges { total { value } } }", i, key, keys[i+1], "nobody"))
	}
	fields = append(fields, `wrong: users(keys: []) { user { key } }`)
	got = c.ask("reader", hostScopes, "{ "+strings.Join(fields, " ")+" }", nil)
	if len(got.Errors) != 1 || got.valueAt("wrong") != nil {
		t.Errorf("one field is refused, not its neighbours: %+v", got.Errors)
	}
	got = c.askColdAndWarm(t, "{ "+strings.Join(fields[:5], " ")+" }", nil)
	for i, key := range keys[:5] {
		if name := fmt.Sprint("a", i); got.valueAt(name, 0, "user", "key") != key || got.valueAt(name, 1, "user", "key") != keys[i+1] || got.valueAt(name, 2) != nil {
			t.Errorf("%s is %v", name, got.valueAt(name))
		}
	}
}
