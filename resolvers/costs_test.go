package resolvers

import (
	"strings"
	"testing"

	"tidings/graph"
)

// A weight of a field that the schema does not have would weigh nothing.
func TestWeightsNameFieldsOfTheSchema(t *testing.T) {
	schema := graph.NewExecutableSchema(graph.Config{}).Schema()
	for name, weight := range Weights {
		kind, field, _ := strings.Cut(name, ".")
		definition := schema.Types[kind]
		if definition == nil || definition.Fields.ForName(field) == nil || weight < 1 {
			t.Errorf("%s weighs %d: want a field of the schema, and a weight of 1 or more", name, weight)
		}
	}
}
