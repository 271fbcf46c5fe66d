package resolvers

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/vektah/gqlparser/v2/ast"

	"tidings/graph"
	"tidings/services"
	"tidings/services/people"
)

const nodesQuery = `query($ids: [ID!]!) { nodes(ids: $ids) { id __typename } }`

func TestNodesAreAnsweredInTheirOrder(t *testing.T) {
	a := newAPI(t)
	post, gone := a.publishPost("alice"), a.publishPost("alice")
	a.Clock.Advance(time.Second)
	a.must("alice", `mutation($id: ID!) { deletePost(input: {postId: $id}) { postId } }`, map[string]any{"id": gone})
	ids := []string{"user:alice", post, "user:nobody", gone, post, "post:0000000000001", "notification:0000000000001", "user:bob"}
	got := a.must("bob", nodesQuery, map[string]any{"ids": ids})
	want := []string{"user:alice User", post + " Post", "", "", post + " Post", "", "", "user:bob User"}
	for i := range want {
		text := ""
		if node := got.valueAt("nodes", i); node != nil {
			text = fmt.Sprint(got.valueAt("nodes", i, "id"), " ", got.valueAt("nodes", i, "__typename"))
		}
		if text != want[i] {
			t.Errorf("%s is %q, want %q", ids[i], text, want[i])
		}
	}
	if ids, err := people.IDs(t.Context(), a.DB, []string{"nobody"}); len(ids) != 0 || err != nil {
		t.Errorf("asking for somebody made them a user: %v, %v", ids, err)
	}
}

func TestOneTo100Nodes(t *testing.T) {
	a := newAPI(t)
	ids := make([]string, 101)
	for i := range ids {
		ids[i] = "user:bob"
	}
	for count, code := range map[int]services.Code{0: services.Invalid, 1: "", 100: "", 101: services.Invalid} {
		got := a.askAs("bob", nodesQuery, map[string]any{"ids": ids[:count]})
		if got.code() != code {
			t.Errorf("%d ids: %+v", count, got.Errors)
		}
		if code == services.Invalid && !strings.Contains(got.Errors[0].Message, fmt.Sprint("1 to 100 are allowed, got ", count)) {
			t.Errorf("%d ids: %q", count, got.Errors[0].Message)
		}
	}
}

func TestMalformedIDsAreInvalid(t *testing.T) {
	a := newAPI(t)
	for _, id := range []string{"", "bob", "user:", "user:a b", "post:x", "post:ZZZZZZZZZZZZZ", "picture:1", ":", "user:" + strings.Repeat("a", 129)} {
		if got := a.askAs("bob", nodesQuery, map[string]any{"ids": []string{"user:bob", id}}); got.code() != services.Invalid {
			t.Errorf("%q: %+v", id, got)
		}
	}
	if got := a.ask("", nil, nodesQuery, map[string]any{"ids": []string{"user:bob"}}); got.code() != services.Unauthenticated {
		t.Errorf("without a token: %+v", got)
	}
}

// Every type with an ID is a Node. A client's cache keeps objects by their IDs. It could not read an object again that is no Node, and
// could confuse it with the Node of the same ID.
func TestEveryTypeWithAnIDIsANode(t *testing.T) {
	nodes := 0
	for _, kind := range graph.NewExecutableSchema(graph.Config{}).Schema().Types {
		if id := kind.Fields.ForName("id"); kind.Kind != ast.Object || id == nil || !id.Type.NonNull {
			continue
		}
		if nodes++; !slices.Contains(kind.Interfaces, "Node") {
			t.Errorf("%s has an id and is no Node", kind.Name)
		}
	}
	if nodes < 12 {
		t.Errorf("only %d types are Nodes", nodes)
	}
}

// A view is a node only for users who touched it, and a report only for operators and the host application.
func TestViewsAndReportsAreNodesOfTheirOwners(t *testing.T) {
	a := newAPI(t)
	touched := a.must("bob", `mutation { touchView(input: {code: "news", key: "a/b: c"}) { view { id key } } }`, nil)
	view, _ := touched.valueAt("touchView", "view", "id").(string)
	sent := a.askWithHostToken(`mutation { sendSiteMessage(input: {title: "hello", to: ["user:bob"]}) { message { id siteMessageId title } } }`, nil)
	report, _ := sent.valueAt("sendSiteMessage", "message", "id").(string)
	a.RunAllJobs(a.Fanout)
	query, ids := `query($ids: [ID!]!) { nodes(ids: $ids) { __typename id ... on View { key } ... on SiteMessageReport { siteMessageId recipients } } }`, map[string]any{"ids": []string{view, report}}
	got := a.must("bob", query, ids)
	if got.valueAt("nodes", 0, "id") != view || got.valueAt("nodes", 0, "key") != "a/b: c" || view != "view:news/a/b: c" || got.valueAt("nodes", 1) != nil {
		t.Errorf("bob reads %v", got.Data)
	}
	if got := a.must("alice", query, ids); got.valueAt("nodes", 0) != nil || got.valueAt("nodes", 1) != nil {
		t.Errorf("alice reads %v", got.Data)
	}
	for _, scope := range []services.Scope{services.ScopeAdmin, services.ScopeIngest} {
		got := a.ask("alice", []services.Scope{services.ScopeViewer, scope}, query, ids)
		if got.valueAt("nodes", 1, "id") != report || got.valueAt("nodes", 1, "siteMessageId") != sent.valueAt("sendSiteMessage", "message", "siteMessageId") || got.valueAt("nodes", 1, "recipients") != 1.0 {
			t.Errorf("a sender with the scope %s reads %+v", scope, got)
		}
	}
	for _, id := range []string{"view:", "view:news", "view:news/", "view:/x", "view:News/x", "view:home_page/x", "view:news/" + strings.Repeat("x", 65), "siteMessageReport:1"} {
		if got := a.askAs("bob", `query($id: ID!) { node(id: $id) { id } }`, map[string]any{"id": id}); got.code() != services.Invalid {
			t.Errorf("%q: %+v", id, got)
		}
	}
}
