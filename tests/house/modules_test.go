package house

import (
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// readGoMod returns the modules that go.mod requires, and whether each is marked as indirect; tools are the packages of its tool
// directives.
func readGoMod(t *testing.T) (required map[string]bool, tools []string) {
	t.Helper()
	text, err := os.ReadFile("go.mod")
	if err != nil {
		t.Fatal(err)
	}
	required = map[string]bool{}
	block := ""
	for row := range strings.Lines(string(text)) {
		words := strings.Fields(row)
		switch {
		case len(words) == 2 && words[1] == "(":
			block = words[0]
			continue
		case len(words) == 1 && words[0] == ")":
			block = ""
			continue
		case len(words) > 0 && block != "":
			words = append([]string{block}, words...)
		}
		switch {
		case len(words) > 1 && words[0] == "tool":
			tools = append(tools, words[1])
		case len(words) > 2 && words[0] == "require":
			required[words[1]] = strings.HasSuffix(strings.TrimSpace(row), "// indirect")
		}
	}
	return required, tools
}

// moduleOf returns the one of the required modules that contains a package; "" if there is none.
func moduleOf(required map[string]bool, pkg string) (longest string) {
	for module := range required {
		if isWithin(pkg, module) && len(module) > len(longest) {
			longest = module
		}
	}
	return longest
}

// importsOf returns the packages that the Go files of a folder and its subfolders import, each with a file that imports it.
func importsOf(t *testing.T, root string) map[string]string {
	t.Helper()
	imported := map[string]string{}
	err := fs.WalkDir(os.DirFS(root), ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() && name != "." && (strings.HasPrefix(entry.Name(), ".") || isThirdPartyOrGenerated(name)) {
			return fs.SkipDir
		}
		if path.Ext(name) != ".go" {
			return nil
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			return err
		}
		for _, spec := range file.Imports {
			pkg, _ := strconv.Unquote(spec.Path.Value)
			imported[pkg] = name
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return imported
}

// Modules that the project imports are direct requirements in go.mod, so that an upgrade of another module does not change them.
func TestImportedModulesAreDirect(t *testing.T) {
	t.Chdir("../..")
	required, tools := readGoMod(t)
	direct := map[string]bool{}
	for pkg, file := range importsOf(t, ".") {
		module := moduleOf(required, pkg)
		direct[module] = true
		if required[module] {
			t.Errorf("%s imports %s, whose module go.mod calls indirect", file, pkg)
		}
	}
	for _, tool := range tools {
		direct[moduleOf(required, tool)] = true
	}
	for module, indirect := range required {
		if !indirect && !direct[module] {
			t.Errorf("go.mod names %s, which nothing imports", module)
		}
	}
}

// tools.go and the tool directives of go.mod name the same modules.
func TestToolsFileAgreesWithGoMod(t *testing.T) {
	t.Chdir("../..")
	required, tools := readGoMod(t)
	file, err := parser.ParseFile(token.NewFileSet(), "tools.go", nil, parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	named, pinned := map[string]bool{}, map[string]bool{}
	for _, spec := range file.Imports {
		pkg, _ := strconv.Unquote(spec.Path.Value)
		named[moduleOf(required, pkg)] = true
	}
	for _, tool := range tools {
		pinned[moduleOf(required, tool)] = true
	}
	if len(pinned) == 0 || !maps.Equal(named, pinned) {
		t.Errorf("tools.go names %v, go.mod has tools of %v", slices.Sorted(maps.Keys(named)), slices.Sorted(maps.Keys(pinned)))
	}
}
