package resolvers

import (
	"fmt"
	"testing"

	"tidings/services"
)

// An edit, as a mutation or as an event, returns the post as it is now, and keeps its position.
func TestEditPost(t *testing.T) {
	a := newAPI(t)
	published := a.must("bob", `mutation { publishPost(input: {body: "one"}) { post { id publishedAt } } }`, nil)
	post := published.valueAt("publishPost", "post", "id")
	edited := a.must("bob", `mutation($p: ID!) { editPost(input: {postId: $p, body: "two"}) { post { id body publishedAt } badges { total { value } } } }`, map[string]any{"p": post})
	if edited.valueAt("editPost", "post", "id") != post || edited.valueAt("editPost", "post", "body") != "two" ||
		edited.valueAt("editPost", "post", "publishedAt") != published.valueAt("publishPost", "post", "publishedAt") {
		t.Errorf("edited: %+v", edited)
	}
	got := a.ingest(event{"editPost": event{"as": "user:bob", "postId": post, "body": "three", "mentions": []string{"user:alice"}}})
	if len(got.Errors) > 0 || got.valueAt("ingest", "results", 0, "id") != post || got.valueAt("ingest", "results", 0, "error") != nil {
		t.Fatalf("an edit by an event: %+v", got)
	}
	a.RunAllJobs(a.Fanout)
	if got := a.must("bob", `{ viewer { homeFeed { edges { node { body } } } } }`, nil); got.valueAt("viewer", "homeFeed", "edges", 0, "node", "body") != "three" {
		t.Errorf("the feed after the edits: %+v", got)
	}
	if got := a.must("alice", `{ viewer { badges { notifications { total { value } } } } }`, nil); got.valueAt("viewer", "badges", "notifications", "total", "value") != float64(1) {
		t.Errorf("who is mentioned by an edit: %+v", got)
	}
}

// The mentions in the text of a post are those of its newest text. Beside them the post has a list of mentions. An edit without a list
// keeps the list that the post had, null removes it, and another list replaces it.
func TestAnEditLeavesTheMentionsBesideItsText(t *testing.T) {
	a := newAPI(t)
	for _, user := range []string{"alice", "carol", "dora"} {
		a.must(user, `{ viewer { id } }`, nil)
	}
	post := a.must("bob", `mutation { publishPost(input: {body: "@carol", mentions: ["user:alice"]}) { post { id } } }`, nil).valueAt("publishPost", "post", "id")
	for _, step := range []struct {
		input event
		want  map[string]int // user -> the count of mentions after the edit
	}{
		{event{"body": "nobody"}, map[string]int{"alice": 1, "carol": 0}},
		{event{"body": "@carol and @alice"}, map[string]int{"alice": 1, "carol": 1}},
		{event{"body": "@carol", "mentions": []string{"user:alice"}}, map[string]int{"alice": 1, "carol": 1}},
		{event{"body": "@dora"}, map[string]int{"alice": 1, "carol": 0, "dora": 1}},
		{event{"body": "@dora", "mentions": nil}, map[string]int{"alice": 0, "carol": 0, "dora": 1}},
		{event{"body": "two", "mentions": []string{"user:alice", "user:carol"}}, map[string]int{"alice": 1, "carol": 1, "dora": 0}},
		{event{"body": "three", "mentions": []string{}}, map[string]int{"alice": 0, "carol": 0}},
	} {
		step.input["postId"] = post
		a.must("bob", `mutation($i: EditPostInput!) { editPost(input: $i) { post { id } } }`, map[string]any{"i": step.input})
		a.RunAllJobs(a.Fanout)
		for user, want := range step.want {
			got := a.must(user, `{ viewer { badges { notifications { mention { value } } } } }`, nil)
			if got.valueAt("viewer", "badges", "notifications", "mention", "value") != float64(want) {
				t.Errorf("after %v %s has %+v, want %d", step.input, user, got, want)
			}
		}
	}
	many := make([]string, services.MaxMentions)
	for i := range many {
		many[i] = fmt.Sprintf("user:u%d", i)
		a.must(many[i][len("user:"):], `{ viewer { id } }`, nil)
	}
	a.must("bob", `mutation($i: EditPostInput!) { editPost(input: $i) { post { id } } }`, map[string]any{"i": event{"postId": post, "body": "four", "mentions": many}})
	got := a.askAs("bob", `mutation($i: EditPostInput!) { editPost(input: $i) { post { id } } }`, map[string]any{"i": event{"postId": post, "body": "@alice"}})
	if len(got.Errors) != 1 || got.code() != services.Invalid {
		t.Errorf("one more than a post mentions: %+v", got)
	}
}
