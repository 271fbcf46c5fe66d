package resolvers

import "testing"

// An edit, as a mutation or as an event, returns the post as it is now, and keeps its position.
func TestEditPost(t *testing.T) {
	a := newAPI(t)
	published := a.must("bob", `mutation { publishPost(input: {body: "one"}) { post { id publishedAt } } }`, nil)
	post := published.at("publishPost", "post", "id")
	edited := a.must("bob", `mutation($p: ID!) { editPost(input: {postId: $p, body: "two"}) { post { id body publishedAt } badges { total { value } } } }`, map[string]any{"p": post})
	if edited.at("editPost", "post", "id") != post || edited.at("editPost", "post", "body") != "two" ||
		edited.at("editPost", "post", "publishedAt") != published.at("publishPost", "post", "publishedAt") {
		t.Errorf("edited: %+v", edited)
	}
	got := a.ingest(event{"editPost": event{"as": "user:bob", "postId": post, "body": "three", "mentions": []string{"user:alice"}}})
	if len(got.Errors) > 0 || got.at("ingest", "results", 0, "id") != post || got.at("ingest", "results", 0, "error") != nil {
		t.Fatalf("an edit by an event: %+v", got)
	}
	a.Quiet(a.Fanout)
	if got := a.must("bob", `{ viewer { homeFeed { edges { node { body } } } } }`, nil); got.at("viewer", "homeFeed", "edges", 0, "node", "body") != "three" {
		t.Errorf("the feed after the edits: %+v", got)
	}
	if got := a.must("alice", `{ viewer { badges { notifications { total { value } } } } }`, nil); got.at("viewer", "badges", "notifications", "total", "value") != float64(1) {
		t.Errorf("who is mentioned by an edit: %+v", got)
	}
}
