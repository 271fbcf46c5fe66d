package main

import (
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"

	"tidings/services/store/storetest"
	"tidings/web"
)

// there says whether there is a user with a key.
func (n *node) there(key string) bool {
	n.tb.Helper()
	numbers, err := n.store.UserNumbers(n.tb.Context(), []string{key})
	if err != nil {
		n.tb.Fatal(err)
	}
	return len(numbers) > 0
}

// Whatever argument a viewer names a user in: one whom nobody knows is not there, and is not made. The arguments are found
// by introspection.
func TestViewersMakeNoUsers(t *testing.T) {
	s := newSecrets(t, storetest.SQLite(t))
	s.owns("sam")
	named := 0
	for i, w := range s.others() {
		if w.path[0].Name == "ingest" {
			continue
		}
		ghost := fmt.Sprint("ghost", i)
		_, raw := s.walks(t, w, "sam", "user:"+ghost)
		if s.there(ghost) {
			t.Errorf("%s makes a user: %s", w.name(), raw)
		}
		if strings.Contains(raw, "NOT_FOUND") {
			if named++; !strings.Contains(raw, `there is no user \"`+ghost) {
				t.Errorf("%s: %s", w.name(), raw)
			}
		}
	}
	if named < 12 {
		t.Errorf("%d arguments name users", named)
	}
	if got := s.ask("boss:admin", `mutation{setSegments(input:{userId:"user:ghost",segments:["vip"]}){user{key}}}`, nil); got.code() != "NOT_FOUND" || s.there("ghost") {
		t.Errorf("an operator who is not the host: %+v", got)
	}
	if got := s.ask("boss:admin", `mutation{sendSiteMessage(input:{to:["user:sam","user:ghost"],title:"hello"}){message{id}}}`, nil); got.code() != "NOT_FOUND" || s.there("ghost") {
		t.Errorf("a message to nobody: %+v", got)
	}
}

// The host application makes users by naming them, a token makes its own, and in development mode those of the tour are
// there from the start.
func TestTheHostMakesUsers(t *testing.T) {
	n := startNode(t, nodeOptions{database: storetest.SQLite(t), redis: "embedded", manual: true})
	response, err := http.Get(n.url + "/graphiql")
	if err != nil {
		t.Fatal(err)
	}
	page, err := io.ReadAll(response.Body)
	if err = errors.Join(err, response.Body.Close()); err != nil {
		t.Fatal(err)
	}
	for _, key := range web.People {
		if !n.there(key) || !strings.Contains(string(page), `data-person="`+key+`"`) {
			t.Errorf("the tour's %s is there: %t", key, n.there(key))
		}
	}
	events := []any{
		map[string]any{"follow": map[string]any{"as": "user:one", "userId": "user:two"}},
		map[string]any{"publishPost": map[string]any{"as": "user:one", "body": "b", "mentions": []string{"user:three"}}},
		map[string]any{"createConversation": map[string]any{"as": "user:one", "kind": "GROUP", "memberIds": []string{"user:four"}}},
		map[string]any{"setSegments": map[string]any{"userId": "user:five", "segments": []string{"vip"}}},
		map[string]any{"sendSiteMessage": map[string]any{"to": []string{"user:six"}, "title": "hello"}},
	}
	var data struct {
		Ingest struct{ Results []struct{ Error any } }
	}
	n.must("host:ingest", `mutation($e:[IngestEvent!]!){ingest(events:$e){results{error{message}}}}`, map[string]any{"e": events}, &data)
	if slices.ContainsFunc(data.Ingest.Results, func(r struct{ Error any }) bool { return r.Error != nil }) {
		t.Fatalf("%+v", data)
	}
	n.must("host:ingest", `mutation{setSegments(input:{userId:"user:seven",segments:["vip"]}){user{key}}}`, nil, nil)
	n.must("eight", `{viewer{user{key}}}`, nil, nil)
	for _, key := range strings.Fields("one two three four five six seven eight") {
		if !n.there(key) {
			t.Errorf("there is no %s", key)
		}
	}
}
