package node_test

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/vektah/gqlparser/v2/ast"

	"tidings/graph"
	"tidings/services/ratelimit"
)

// selectAllFields returns a selection of all fields of a type that take no argument, and of all of theirs. Of Badges it is the
// selection in the fragment TidingsBadges of @tidings/client.
func selectAllFields(schema *ast.Schema, kind string) (text string) {
	for _, field := range schema.Types[kind].Fields {
		if len(field.Arguments) > 0 || strings.HasPrefix(field.Name, "__") {
			continue
		}
		text += " " + field.Name
		if of := field.Type.Name(); schema.Types[of].IsCompositeType() {
			text += " {" + selectAllFields(schema, of) + " }"
		}
	}
	return text
}

// shippedSubscriptions are the subscriptions of web/operations, of the documentation and of the demo, by their names, with the
// fragments that they use.
func shippedSubscriptions(t *testing.T) map[string]string {
	t.Helper()
	var names []string
	for _, pattern := range []string{"../../web/operations/*.graphql", "../../docs/*.md", "../../web/demo/src/*.tsx"} {
		found, err := filepath.Glob(pattern)
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %v", pattern, err)
		}
		names = append(names, found...)
	}
	operation := regexp.MustCompile("(?s)(?:\n|`)(subscription (\\w+)(?:\\([^)`]*\\))? \\{[^`]*?)(?:\n}\n|`)")
	fragment := regexp.MustCompile(`(?m)^fragment (\w+) on \w+ \{(?:.*\}$|(?s:.*?)^\})`)
	constant := regexp.MustCompile(`(?m)^const (\w+) = '(.*)';$`)
	texts, fragments := map[string]string{}, map[string]string{}
	for _, name := range names {
		whole, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		text := strings.ReplaceAll(string(whole), "${BADGES}", "")
		for _, found := range constant.FindAllStringSubmatch(text, -1) {
			text = strings.ReplaceAll(text, "${"+found[1]+"}", found[2])
		}
		for _, found := range fragment.FindAllStringSubmatch(text, -1) {
			fragments[found[1]] = found[0]
		}
		for _, found := range operation.FindAllStringSubmatch(text, -1) {
			query := strings.TrimSpace(found[1])
			if strings.HasSuffix(found[0], "\n}\n") {
				query += "\n}"
			}
			texts[filepath.Base(name)+" "+found[2]] = query
		}
	}
	fragments["TidingsBadges"] = fragmentOfBadges()
	spread := regexp.MustCompile(`\.\.\.(\w+)`)
	for name, query := range texts {
		used := map[string]bool{}
		for at := 0; ; {
			found := spread.FindStringSubmatchIndex(query[at:])
			if found == nil {
				break
			}
			one := query[at+found[2] : at+found[3]]
			if at += found[1]; !used[one] {
				used[one], query = true, query+"\n"+fragments[one]
			}
		}
		texts[name] = query
	}
	return texts
}

// The budget EVENTS covers the shipped subscriptions of one user. If all of them are open on three devices, each gets one event a
// second. If only one of them is open, it gets ten events a second on each of the three devices. The budget pays for at most four
// events of the greatest cost a second.
func TestSubscriptionsOfAScreenAreCoveredByTheBudget(t *testing.T) {
	const devices, eventsPerSecond = 3, 10
	price, perSecond := newPriceFunc(t), ratelimit.Settings{}.Limits()[ratelimit.Events]/60
	screens := shippedSubscriptions(t)
	start := regexp.MustCompile(`\w+Changed(\([^)]*\))? \{`)
	sum := 0
	var fields []string
	for name, query := range screens {
		field := strings.TrimRight(start.FindString(query), " {")
		field, _, _ = strings.Cut(field, "(")
		fields = append(fields, field)
		variables := map[string]any{}
		if strings.Contains(query, "$id: ID!") {
			variables["id"] = "conversation:0000000000001"
		}
		if field == "badgesChanged" {
			continue // its events come from memory, and are free
		}
		if !strings.Contains(query, "...TidingsBadges") {
			end := start.FindStringIndex(query)[1]
			query = query[:end] + " badges { ...TidingsBadges }" + query[end:] + "\n" + fragmentOfBadges()
		}
		got := price(query, variables)
		t.Logf("%d: %s", got, name)
		if sum += got; got*devices*eventsPerSecond > perSecond {
			t.Errorf("%s costs %d for each event, and on %d devices not all of %d events a second are covered", name, got, devices, eventsPerSecond)
		}
	}
	slices.Sort(fields)
	if fields = slices.Compact(fields); len(screens) < 10 || len(fields) != 6 {
		t.Errorf("%d subscriptions to %v", len(screens), fields)
	}
	if sum*devices > perSecond {
		t.Errorf("one state of every screen costs %d on %d devices, and a second has %d", sum*devices, devices, perSecond)
	}
	if perSecond > 4*defaultMaxQueryCost {
		t.Errorf("%d units of events a second are more than four events of the greatest cost", perSecond)
	}
}

// fragmentOfBadges is the text of the fragment TidingsBadges, which selects all fields of Badges.
func fragmentOfBadges() string {
	return "fragment TidingsBadges on Badges {" + selectAllFields(graph.NewExecutableSchema(graph.Config{}).Schema(), "Badges") + " }"
}
