package resolvers

import (
	"slices"
	"strings"
	"testing"

	"github.com/vektah/gqlparser/v2/ast"

	"tidings/graph"
)

// Every weight names a field of the schema. A weight of any other name would have no effect.
func TestWeightsNameFieldsOfTheSchema(t *testing.T) {
	schema := graph.NewExecutableSchema(graph.Config{}).Schema()
	for name, weight := range CostWeights {
		kind, field, _ := strings.Cut(name, ".")
		definition := schema.Types[kind]
		if definition == nil || definition.Fields.ForName(field) == nil || weight < 1 {
			t.Errorf("%s weighs %d: want a field of the schema, and a weight of 1 or more", name, weight)
		}
	}
}

// A field that reads a list of its own, or objects by their keys, must have a weight. Without one it would cost no more than a
// field of an object that was read already.
func TestEveryListWithASizeHasAWeight(t *testing.T) {
	lists := 0
	for _, kind := range graph.NewExecutableSchema(graph.Config{}).Schema().Types {
		for _, field := range kind.Fields {
			keyed := kind.Name == "Query" && slices.ContainsFunc(field.Arguments, func(argument *ast.ArgumentDefinition) bool { return argument.Type.Elem != nil })
			if field.Arguments.ForName("first") == nil && !keyed {
				continue
			}
			if lists++; CostWeights[kind.Name+"."+field.Name] == 0 {
				t.Errorf("%s.%s has no weight", kind.Name, field.Name)
			}
		}
	}
	if lists < 20 {
		t.Errorf("only %d fields have a size", lists)
	}
}
