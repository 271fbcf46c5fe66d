package house

import (
	"io/fs"
	"maps"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// packageTableRow matches a row of the table of packages in docs/architecture.md: a package and the number of its line. A package may
// import only packages with a greater number (see packageRanks).
var packageTableRow = regexp.MustCompile("(?m)^\\| `([\\w./]+)` \\|.*\\| (-?\\d+) \\|$")

// The table of packages in the documentation has the same numbers as packageRanks, by which imports are checked. The table has one row
// for all folders of tests, so the folders of tests are not compared.
func TestTheDocumentedLayersEqualTheCheckedOnes(t *testing.T) {
	text, err := os.ReadFile("../../docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	documented, kept := map[string]int{}, maps.Clone(packageRanks)
	for _, match := range packageTableRow.FindAllStringSubmatch(string(text), -1) {
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

var (
	testInDocs      = regexp.MustCompile("`(Test\\w+)` ?\\(`([\\w/.]+)`\\)") // a test and its folder, as docs/how-it-works.md names them
	testDeclaration = regexp.MustCompile(`(?m)^func (Test\w+)\(`)            // a test in a Go file
)

// docs/how-it-works.md names a test for each promise of Tidings. Each of these tests is in the folder that the page names.
func TestThePromisesNameTestsThatExist(t *testing.T) {
	text := readRepositoryFile(t, "docs/how-it-works.md")
	named := testInDocs.FindAllStringSubmatch(text, -1)
	if len(named) < 20 || len(named) != strings.Count(text, "`Test") {
		t.Fatalf("%d tests are named as `Test...` (`folder`), of %d", len(named), strings.Count(text, "`Test"))
	}
	for _, match := range named {
		files, err := fs.Glob(os.DirFS("../.."), match[2]+"/*_test.go")
		if err != nil {
			t.Fatal(err)
		}
		var made []string
		for _, file := range files {
			for _, found := range testDeclaration.FindAllStringSubmatch(readRepositoryFile(t, file), -1) {
				made = append(made, found[1])
			}
		}
		if !slices.Contains(made, match[1]) {
			t.Errorf("%s is not in %s", match[1], match[2])
		}
	}
}
