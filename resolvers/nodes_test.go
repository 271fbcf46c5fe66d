package resolvers

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"tidings/services"
)

const nodesQuery = `query($ids: [ID!]!) { nodes(ids: $ids) { id __typename } }`

func TestNodesAreAnsweredInTheirOrder(t *testing.T) {
	a := newAPI(t)
	post, gone := a.publish("alice"), a.publish("alice")
	a.Clock.Advance(time.Second)
	a.must("alice", `mutation($id: ID!) { deletePost(input: {postId: $id}) { postId } }`, map[string]any{"id": gone})
	ids := []string{"user:alice", post, "user:nobody", gone, post, "post:0000000000001", "notification:0000000000001", "user:bob"}
	got := a.must("bob", nodesQuery, map[string]any{"ids": ids})
	want := []string{"user:alice User", post + " Post", "", "", post + " Post", "", "", "user:bob User"}
	for i := range want {
		text := ""
		if node := got.at("nodes", i); node != nil {
			text = fmt.Sprint(got.at("nodes", i, "id"), " ", got.at("nodes", i, "__typename"))
		}
		if text != want[i] {
			t.Errorf("%s is %q, want %q", ids[i], text, want[i])
		}
	}
	if numbers, err := a.Store.UserIDs(t.Context(), []string{"nobody"}); len(numbers) != 0 || err != nil {
		t.Errorf("asking for somebody made him: %v, %v", numbers, err)
	}
}

func TestOneTo100Nodes(t *testing.T) {
	a := newAPI(t)
	ids := make([]string, 101)
	for i := range ids {
		ids[i] = "user:bob"
	}
	for count, code := range map[int]services.Code{0: services.Invalid, 1: "", 100: "", 101: services.Invalid} {
		got := a.as("bob", nodesQuery, map[string]any{"ids": ids[:count]})
		if got.code() != code {
			t.Errorf("%d ids: %+v", count, got.Errors)
		}
		if code == services.Invalid && !strings.Contains(got.Errors[0].Message, fmt.Sprint("1 to 100 are allowed, got ", count)) {
			t.Errorf("%d ids: %q", count, got.Errors[0].Message)
		}
	}
}

func TestAnIDThatIsNoneIsInvalid(t *testing.T) {
	a := newAPI(t)
	for _, id := range []string{"", "bob", "user:", "user:a b", "post:x", "post:ZZZZZZZZZZZZZ", "picture:1", ":", "user:" + strings.Repeat("a", 65)} {
		if got := a.as("bob", nodesQuery, map[string]any{"ids": []string{"user:bob", id}}); got.code() != services.Invalid {
			t.Errorf("%q: %+v", id, got)
		}
	}
	if got := a.ask("", nil, nodesQuery, map[string]any{"ids": []string{"user:bob"}}); got.code() != services.Unauthenticated {
		t.Errorf("without a token: %+v", got)
	}
}
