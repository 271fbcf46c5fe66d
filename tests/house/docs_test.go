package house

import (
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// Each row of the table of packages is a folder with Go files, and a row that a rename left behind is found. checkTree finds packages
// without a row.
func TestEveryRowOfTheTableIsAPackage(t *testing.T) {
	for name := range packageLayers {
		files, err := fs.Glob(os.DirFS("../.."), path.Join(name, "*.go"))
		if err != nil || len(files) == 0 {
			t.Errorf("the documentation has %s, which is no package: %v", name, err)
		}
	}
	if len(packageLayers) < 40 {
		t.Errorf("the table has only %d packages", len(packageLayers))
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
