package resolvers

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/vektah/gqlparser/v2/ast"
	"pgregory.net/rapid"

	"tidings/graph"
	"tidings/services"
	"tidings/tests/histories"
)

// compiledAnswersEqualExecuted compares the answers of compiled queries with those of the executor: for every list with all that is
// below it, for a node of every type, and for random selections of everything that a user can read.
func compiledAnswersEqualExecuted(t *testing.T, c *filledWorld) {
	c.restart(true)
	pair := newPairOf(c.testAPI, graph.NewSchema(graph.Config{Resolvers: c.resolver}))
	pair.varyingText = regexp.MustCompile(`"[A-Za-z0-9_-]{50,}"`) // the session of a board: each first page begins another
	viewer := c.selections.schema.Types["Viewer"]
	for _, field := range viewer.Fields {
		pair.askBoth(t, "reader", "{ viewer { "+c.selections.selectField(viewer, field, "")+" } }", nil)
	}
	var ids []string
	for _, kind := range c.selections.schema.GetPossibleTypes(c.selections.schema.Types["Node"]) {
		switch kind.Name {
		case "Viewer", "Badges", "User", "Post", "Show", "Notification", "SiteMessage", "Announcement", "Conversation", "View", "Device", "Message":
		default:
			continue
		}
		of := []string{services.GlobalID(strings.ToLower(kind.Name[:1])+kind.Name[1:], "reader")}
		if kind.Name != "Viewer" && kind.Name != "Badges" {
			of = c.idsInReaderLists(kind.Name)
		}
		ids = append(ids, of[0])
		whole := " { node(id: \"" + of[0] + "\") { id ... on " + kind.Name + c.selections.selectAllFields(kind) + " } }"
		pair.askBoth(t, "reader", whole, nil)
		pair.askBoth(t, "p01", whole, nil) // p01 is another user, who may get null for the node
	}
	histories.ReduceRapidChecks(t, 2)
	rapid.Check(t, func(t *rapid.T) {
		fields := drawFields(t, c.selections.schema, viewer, nil)
		id := rapid.SampledFrom(ids).Draw(t, "id")
		query := fmt.Sprintf("query($id: ID!) { a: viewer { %s } node(id: $id) { __typename ... on Post { %s } ... on Conversation { %s } ... on User { %s } } }", fields,
			drawFields(t, c.selections.schema, c.selections.schema.Types["Post"], nil), drawFields(t, c.selections.schema, c.selections.schema.Types["Conversation"], nil),
			drawFields(t, c.selections.schema, c.selections.schema.Types["User"], nil))
		pair.askBoth(t, rapid.SampledFrom([]string{"reader", "p01", "nobody yet"}).Draw(t, "viewer"), query, map[string]any{"id": id})
	})
}

// drawFields draws some fields of an object with all that is below them. above are the types that contain the object: fields of these
// types are left out. Some fields are in fragments.
func drawFields(t *rapid.T, schema *ast.Schema, kind *ast.Definition, above []string) string {
	above = append(slices.Clone(above), kind.Name)
	var fields []*ast.FieldDefinition
	for _, field := range kind.Fields {
		below := schema.Types[field.Type.Name()]
		if !strings.HasPrefix(field.Name, "__") && !slices.Contains(above, below.Name) && len(above) < 7 && (below.Kind == ast.Object || below.IsLeafType()) {
			fields = append(fields, field)
		}
	}
	if len(fields) == 0 {
		return "__typename"
	}
	most := 5
	if len(above) > 2 {
		most = 3
	}
	text := "__typename "
	for i, index := range rapid.SliceOfNDistinct(rapid.IntRange(0, len(fields)-1), 1, min(most, len(fields)), rapid.ID[int]).Draw(t, kind.Name) {
		field := fields[index]
		one := field.Name
		if arguments := requiredArguments[kind.Name+"."+field.Name]; arguments != "" {
			one += "(" + arguments + ")"
		}
		if rapid.IntRange(0, 3).Draw(t, "alias") == 0 {
			one = fmt.Sprintf("f%d: %s", i, one)
		}
		if below := schema.Types[field.Type.Name()]; below.Kind == ast.Object {
			one += " { " + drawFields(t, schema, below, above) + " }"
		}
		if field.Name == "id" && slices.Contains(kind.Interfaces, "Node") && rapid.Bool().Draw(t, "of the node") {
			one = "... on Node { " + one + " }"
		}
		if rapid.IntRange(0, 4).Draw(t, "fragment") == 0 {
			one = "... on " + kind.Name + " { " + one + " }"
		}
		text += one + " "
	}
	return text
}
