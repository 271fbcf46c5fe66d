package command

import (
	"bytes"
	"io/fs"
	"strings"
	"testing"

	"github.com/vektah/gqlparser/v2/ast"

	"tidings/docs"
	"tidings/graph"
)

// The page equals the schema, and has each of its types and fields once.
func TestTheReferenceIsTheSchema(t *testing.T) {
	var out bytes.Buffer
	if err := runSchema(schemaOptions{Markdown: true}, &out); err != nil {
		t.Fatal(err)
	}
	page, err := fs.ReadFile(docs.Files(), "schema.md")
	if err != nil || string(page) != out.String() {
		t.Errorf("docs/schema.md is not what the schema says: run make generate (%v)", err)
	}
	want, got := 0, strings.Count("\n"+out.String(), "\n- **")
	for _, definition := range graph.NewExecutableSchema(graph.Config{}).Schema().Types {
		if definition.BuiltIn || strings.HasPrefix(definition.Name, "__") {
			continue
		}
		for _, field := range definition.Fields {
			if !strings.HasPrefix(field.Name, "__") {
				want++
			}
		}
		heading := "\n### `" + kindOf(definition) + " " + definition.Name + "`\n"
		root := definition.Kind == ast.Object && (definition.Name == "Query" || definition.Name == "Mutation" || definition.Name == "Subscription")
		if times := strings.Count(out.String(), heading); times != 1 && !root {
			t.Errorf("%s is in the reference %d times", definition.Name, times)
		}
	}
	if got != want {
		t.Errorf("the reference has %d fields, the schema %d", got, want)
	}
}
