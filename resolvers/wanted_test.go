package resolvers

import (
	"fmt"
	"testing"

	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"

	"tidings/graph"
	"tidings/services/fanout/fanouttest"
)

// Two fields with different arguments are two pages, even if the arguments joined into one text would be equal.
func TestPagesOfDifferentArgumentsAreNotShared(t *testing.T) {
	schema := graph.NewExecutableSchema(graph.Config{}).Schema()
	doc, faults := gqlparser.LoadQueryWithRules(schema, `query($code: String! = "news") { viewer {
		a: views(codes: ["news", "topic"], first: 5) { nodes { id } }
		b: views(codes: ["news topic"]) { nodes { id } }
		c: views(codes: [$code, "topic"], first: 7) { nodes { id } }
		d: siteMessages(after: "x type:y") { nodes { id } }
		e: siteMessages(after: "x", type: "y") { nodes { id } }
	} }`, nil)
	if faults != nil {
		t.Fatal(faults)
	}
	keys := map[string]pageKey{}
	for _, selection := range doc.Operations[0].SelectionSet[0].(*ast.Field).SelectionSet {
		field := selection.(*ast.Field)
		keys[field.Alias] = pageKeyOf(field, map[string]any{"code": "news"})
	}
	if keys["a"] != keys["c"] {
		t.Errorf("one page under two keys: %v and %v", keys["a"], keys["c"])
	}
	if keys["a"] == keys["b"] || keys["d"] == keys["e"] {
		t.Errorf("two pages under one key: %v and %v", keys["a"], keys["d"])
	}
}

// A mutation that selects neither the object that it changed nor the badges does not read them: it takes fewer round trips to Redis,
// and no more statements.
func TestAMutationReadsWhatItSelects(t *testing.T) {
	sql := &statementCounter{runsByName: map[string]int{}}
	a := newAPIOn(t, fanouttest.New(t, fanouttest.Options{RedisURL: "embedded", Trace: sql.countRun}), 0, 0)
	group := a.must("alice", `mutation { createConversation(input: {kind: GROUP, title: "g", memberIds: ["user:bob"]}) { conversation { id } } }`, nil).
		valueAt("createConversation", "conversation", "id")
	posts := []any{a.publishPost("bob"), a.publishPost("bob"), a.publishPost("bob")}
	for name, mutation := range map[string]struct{ text, all string }{
		"likePost":    {`likePost(input: {postId: "%[2]v"}) { changed %[3]s }`, "post { body } badges { version }"},
		"sendMessage": {`sendMessage(input: {conversationId: "%[1]v", body: "hi"}) { created %[3]s }`, "message { body } conversation { title } badges { version }"},
		"publishPost": {`publishPost(input: {body: "hi"}) { created %[3]s }`, "edge { cursor } badges { version }"},
	} {
		// cost is the number of statements and of round trips to Redis of the mutation.
		cost := func(post int, selected string) (statements int, trips int64) {
			a.RunAllJobs(a.Fanout)
			sql.takeCounts()
			a.must("alice", "mutation { "+fmt.Sprintf(mutation.text, group, posts[post], selected)+" }", nil)
			for _, count := range sql.takeCounts() {
				statements += count
			}
			return statements, a.lastRoundTrips.Load()
		}
		cost(0, mutation.all) // the first mutation of a day is a visit, and fills caches
		bareStatements, bareTrips := cost(1, "")
		allStatements, allTrips := cost(2, mutation.all)
		if bareTrips >= allTrips || bareStatements > allStatements {
			t.Errorf("%s: %d statements and %d round trips without reads, %d and %d with them", name, bareStatements, bareTrips, allStatements, allTrips)
		}
	}
}
