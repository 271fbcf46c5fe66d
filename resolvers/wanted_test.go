package resolvers

import (
	"testing"

	"github.com/vektah/gqlparser/v2"
	"github.com/vektah/gqlparser/v2/ast"

	"tidings/graph"
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
