package house

import (
	"maps"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// row is a package in the table of the documentation, with its line.
var row = regexp.MustCompile("(?m)^\\| `([\\w./]+)` \\|.*\\| (-?\\d+) \\|$")

// The table that a reader of the documentation sees is the one that the rules go by. The folders of tests are one row there.
func TestTheDocumentedOrderIsTheOneThatIsKept(t *testing.T) {
	text, err := os.ReadFile("../../docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	documented, kept := map[string]int{}, maps.Clone(lines)
	for _, match := range row.FindAllStringSubmatch(string(text), -1) {
		name := match[1]
		if name == "server.go" {
			name = "."
		}
		documented[name], _ = strconv.Atoi(match[2])
	}
	maps.DeleteFunc(kept, func(name string, _ int) bool { return strings.HasPrefix(name, "tests/") })
	for name, line := range kept {
		if at, found := documented[name]; !found || at != line {
			t.Errorf("%s is on line %d; the documentation has %d, %t", name, line, at, found)
		}
		delete(documented, name)
	}
	for name := range documented {
		t.Errorf("the documentation has %s, which is no package", name)
	}
}
