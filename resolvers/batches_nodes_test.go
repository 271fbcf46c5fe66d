package resolvers

import (
	"fmt"
	"strings"
	"testing"

	"tidings/tests/histories"
)

// Objects of every type that are requested by their IDs are read together.
func nodesOfEveryTypeAreReadInBatches(t *testing.T, c *filledWorld) {
	c.loadsReaderOnRestart = true
	node := c.selections.schema.Types["Node"]
	for _, kind := range c.selections.schema.GetPossibleTypes(node) {
		if kind.Name == "Viewer" || kind.Name == "Badges" { // a viewer has one object of each of these types
			continue
		}
		t.Run(kind.Name, func(t *testing.T) {
			selected := " { id ... on " + kind.Name + c.selections.selectAllFields(kind) + " }"
			ids := c.idsInReaderLists(kind.Name)
			ids = ids[:min(histories.ShortOrFull(t, 12, 100), len(ids))]
			got := c.askColdAndWarm(t, "query($ids: [ID!]!) { nodes(ids: $ids)"+selected+" }", map[string]any{"ids": ids})
			for i := range ids {
				if id := got.valueAt("nodes", i, "id"); id != ids[i] {
					t.Errorf("in the place of %s stands %v", ids[i], id)
				}
			}
			var fields []string
			for i, id := range ids[:8] {
				fields = append(fields, fmt.Sprintf("a%d: node(id: %q)%s", i, id, selected))
			}
			fields = append(fields, fmt.Sprintf("b: nodes(ids: [%q, %q])%s", ids[0], ids[9], selected))
			got = c.askColdAndWarm(t, "{ "+strings.Join(fields, " ")+" }", nil)
			for i, id := range ids[:8] {
				if got.valueAt(fmt.Sprint("a", i), "id") != id {
					t.Errorf("in the place of %s stands %v", id, got.valueAt(fmt.Sprint("a", i)))
				}
			}
		})
	}
}

// IDs that no object has are looked up together too, and each once.
func missingIDsAreReadInBatches(t *testing.T, c *filledWorld) {
	c.loadsReaderOnRestart = true
	missing := []string{
		"user:nobody1", "user:nobody2", "user:nobody1", "post:0000000000001", "post:0000000000002", "show:0000000000001",
		"conversation:0000ZZZ", "announcement:0000000000001", "notification:0000000000001", "siteMessage:0000000000001",
		"siteMessageReport:0000000000001", "view:news/never touched", "device:AAAAAAAAAAAAAAAAAAAAAA",
	}
	var fields []string
	for i := range 4 {
		fields = append(fields, fmt.Sprintf("a%d: nodes(ids: $ids) { id } b%d: node(id: %q) { id }", i, i, missing[i]))
	}
	got := c.askColdAndWarm(t, "query($ids: [ID!]!) { "+strings.Join(fields, " ")+" }", map[string]any{"ids": missing})
	for i := range missing {
		if got.valueAt("a0", i) != nil {
			t.Errorf("%s was found: %v", missing[i], got.valueAt("a0", i))
		}
	}
}
