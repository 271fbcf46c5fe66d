package house

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"tidings/services"
)

// step is a row of the recipe: a file, and the place in it.
var step = regexp.MustCompile("(?m)^\\| `([\\w./]+)` \\| `([\\w ]+)` \\|")

// sourcePlaces are the places where a source is named, with what there names each of the sources that are one count.
// A source that is one count in CountFields has no line of its own anywhere else.
var sourcePlaces = map[[2]string]func(field services.CountField) string{
	{"services/sources.go", "Sources"}:              func(f services.CountField) string { return goName(f) },
	{"services/sources.go", "CountFields"}:          func(f services.CountField) string { return `"` + f.Name + `"` },
	{"graph/badges.graphqls", "enum BadgeSource"}:   func(f services.CountField) string { return string(f.Source) },
	{"graph/badges.graphqls", "type Badges"}:        func(f services.CountField) string { return f.Name + ": BadgeCount!" },
	{"services/rdb/registers.go", "fixedRegisters"}: nil, // the letters are of the documents
	{"services/node/node.go", "Sources"}:            nil, // registration refuses a list that lacks one
}

func goName(f services.CountField) string {
	return "Source" + strings.ToUpper(f.Name[:1]) + f.Name[1:]
}

// derived are files that once had a line for each source that is one count, and take it from CountFields now.
var derived = []string{"resolvers/hot_badges.go", "services/push/face.go", "services/rdb/layout.go", "services/rdb/document.go"}

// The recipe for a badge source names every place where the sources stand, and no other.
func TestTheRecipeForABadgeSourceNamesEveryPlace(t *testing.T) {
	_, recipe, found := strings.Cut(readText(t, "docs/architecture.md"), "\n## Add a badge source\n")
	if !found {
		t.Fatal("the documentation has no recipe")
	}
	recipe, _, _ = strings.Cut(recipe, "\n## ")
	named := map[[2]string]bool{}
	for _, match := range step.FindAllStringSubmatch(recipe, -1) {
		named[[2]string{match[1], match[2]}] = true
	}
	for place := range named {
		if _, known := sourcePlaces[place]; !known {
			t.Errorf("%s in %s is a step that nothing needs", place[1], place[0])
		}
	}
	for place, line := range sourcePlaces {
		if !named[place] {
			t.Errorf("%s in %s is no step of the recipe", place[1], place[0])
			continue
		}
		text := readText(t, place[0])
		_, after, found := strings.Cut(text, place[1])
		after, _, _ = strings.Cut(after, "}\n") // the end of the list
		if !found {
			t.Errorf("%s has no %s", place[0], place[1])
			continue
		}
		for _, field := range services.CountFields {
			if line != nil && !strings.Contains(after, line(field)) {
				t.Errorf("%s in %s lacks %s", place[1], place[0], line(field))
			}
		}
	}
	for _, path := range derived {
		for _, field := range services.CountFields {
			if text := readText(t, path); strings.Contains(text, goName(field)[len("Source"):]+" ") || strings.Contains(text, `"`+field.Name+`"`) {
				t.Errorf("%s names %s: the recipe lacks the step, or CountFields can bring it", path, field.Name)
			}
		}
	}
}

// Every source that is one count in the badges is in CountFields, once, under a source that there is.
func TestCountFieldsAreSources(t *testing.T) {
	badges, seen := &services.Badges{}, map[*services.Count]bool{}
	for _, field := range services.CountFields {
		if !slices.Contains(services.Sources, field.Source) || seen[field.Of(badges)] {
			t.Errorf("%+v is of no source, or twice there", field)
		}
		seen[field.Of(badges)] = true
	}
	schema := readText(t, "graph/badges.graphqls")
	_, object, _ := strings.Cut(schema, "\ntype Badges ")
	object, _, _ = strings.Cut(object, "\n}")
	counts := strings.Count(object, ": BadgeCount!") - 1 // the total is no source
	if counts != len(services.CountFields) {
		t.Errorf("the schema has %d sources that are one count, CountFields %d", counts, len(services.CountFields))
	}
}

func readText(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile("../../" + path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
