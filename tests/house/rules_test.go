// Package house holds the repository to its own rules.
//
// golangci-lint has rules like some of these: depguard, funlen, forbidigo, godox. They are not used, because as a tool of go.mod it
// brings 211 modules, and all that go.mod names today are 75; depguard would repeat the order of the packages, which is read from
// docs/architecture.md here; and each rule here shows that it finds a violation (rule_violations_test.go).
package house

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// packageLayers has the layer of each package, from the table of packages in docs/architecture.md, and of the folders of tests, for
// which the table has one row. A package imports only packages of a greater layer, never one of the same layer. Layer 4 is for features
// that the features of layer 3 may import, and layer 5 is for notifications, which the features of both layers may import.
var packageLayers = readPackageLayers()

// packageTableRow matches a row of the table of packages: a package and the number of its layer.
var packageTableRow = regexp.MustCompile("(?m)^\\| `([\\w./]+)` \\|.*\\| (-?\\d+) \\|$")

// readPackageLayers reads the table of packages, before a test changes the folder.
func readPackageLayers() map[string]int {
	text, err := os.ReadFile("../../docs/architecture.md")
	if err != nil {
		panic(err)
	}
	layers := map[string]int{}
	for _, folder := range []string{"house", "model", "faults", "contract", "engines", "imports", "nodes", "books", "examples"} {
		layers["tests/"+folder] = -2
	}
	for _, match := range packageTableRow.FindAllStringSubmatch(string(text), -1) {
		name := match[1]
		if name == "server.go" {
			name = "."
		}
		layers[name], _ = strconv.Atoi(match[2]) // the row matches digits
	}
	return layers
}

// testHelperParents maps each package that only tests import (a test helper) to its parent package, which the helper may import.
var testHelperParents = map[string]string{
	"services/sql/sqltest":                     "services/sql",
	"services/devices/devicestest":             "services/devices",
	"services/badge/source/sourcetest":         "services/badge/source",
	"services/export/exporttest":               "services/export",
	"services/outbound/outboundtest":           "services/outbound",
	"services/people/peopletest":               "services/people",
	"services/redis/redistest":                 "services/redis",
	"services/redis/clienttest":                "services/redis",
	"services/rdb/rdbtest":                     "services/rdb",
	"services/rdb/rdbtest/feedhistory":         "services/rdb",
	"services/fanout/fanouttest":               "services/fanout",
	"services/live/livetest":                   "services/live",
	"services/notifications/notificationstest": "services/notifications",
	"web/browsertest":                          "web",
	"tests/histories":                          "services",
	"tests/eventually":                         "services",
	"tests/world":                              "services/command",
}

// helperImportExceptions maps a package to a test helper of a package above it that its tests may import all the same. The tests of
// rebuilds need users with posts in their feeds, and only fan-out makes those. These tests are in a separate test package, because Go
// allows no import cycle.
var helperImportExceptions = map[string]string{"services/projector": "services/fanout/fanouttest"}

// moduleOwners lists, for each outside module, the only package that may import it. Tests of the whole program are clients, and may
// also import the modules whose field client is true.
var moduleOwners = []struct {
	module, owner string
	client        bool
}{
	{"database/sql", "services/sql", false},
	{"modernc.org/sqlite", "services/sql", false},
	{"github.com/jackc/pgx", "services/sql", false},
	{"github.com/lib/pq", "services/sql", false},
	{"github.com/mattn/go-sqlite3", "services/sql", false},
	{"github.com/pressly/goose", "services/sql", false},
	{"github.com/redis/go-redis", "services/redis", false},
	{"github.com/alicebob/miniredis", "services/redis", false},
	{"github.com/gorilla/websocket", "transport", true},
	{"github.com/golang-jwt/jwt", "transport", true},
	{"github.com/standard-webhooks", "services/webhooks", true},
	{"github.com/SherClockHolmes/webpush-go", "services/devices", false},
}

// The limits for files that are written by hand.
const (
	maxFileLines     = 400       // a Go file has fewer lines
	maxFunctionLines = 80        // a Go function has fewer lines
	maxScriptLines   = 60        // a Lua script has fewer lines
	modulePath       = "tidings" // the path of this module
)

// These match unfinished work: words that mark it, and a panic in place of code. The words are concatenated, so that this file does
// not contain them.
var (
	unfinishedWord = regexp.MustCompile(`\b(TO` + `DO|FIX` + `ME|X` + `XX)\b`)
	stubPanic      = regexp.MustCompile(`panic\(.*not ` + `implemented`)
)

// ruleChecker checks a tree of files against the rules of this package, and collects the violations.
type ruleChecker struct {
	faults            []string        // a message for each violation
	hasPackageComment map[string]bool // package (folder and name) -> has a package comment
}

// addFault adds the message of a violation, at a line of the file with the path name.
func (c *ruleChecker) addFault(name string, line int, format string, args ...any) {
	c.faults = append(c.faults, fmt.Sprintf("%s:%d: %s", name, line, fmt.Sprintf(format, args...)))
}

// checkTree returns a message for each violation of the rules in a tree of files, sorted.
func checkTree(tree fs.FS) ([]string, error) {
	c := &ruleChecker{hasPackageComment: map[string]bool{}}
	err := fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if entry.IsDir() {
			if name != "." && (strings.HasPrefix(entry.Name(), ".") || isThirdPartyOrGenerated(name)) {
				return fs.SkipDir
			}
			return nil
		}
		switch path.Ext(name) {
		case ".go", ".lua", ".sql", ".graphqls", ".graphql", ".mjs", ".md", ".sh":
		default:
			return nil
		}
		text, err := fs.ReadFile(tree, name)
		if err != nil {
			return err
		}
		return c.checkFile(name, text)
	})
	for pkg, documented := range c.hasPackageComment {
		if !documented {
			c.faults = append(c.faults, pkg+": no file has a package comment")
		}
	}
	slices.Sort(c.faults)
	return c.faults, err
}

// isThirdPartyOrGenerated reports whether a folder holds files of other projects or generated files.
func isThirdPartyOrGenerated(name string) bool {
	return path.Base(name) == "node_modules" || path.Base(name) == "testdata" || name == "data" || name == "bench/bin" || name == "web/assets"
}

// checkFile checks one file against all rules for its kind.
func (c *ruleChecker) checkFile(name string, text []byte) error {
	if path.Ext(name) == ".go" {
		files := token.NewFileSet()
		file, err := parser.ParseFile(files, name, text, parser.ParseComments)
		if err != nil {
			return err
		}
		c.checkPackageComment(name, file)
		c.checkImports(files, name, file)
		if ast.IsGenerated(file) {
			return nil
		}
		c.checkLineCount(name, text, maxFileLines)
		c.checkFunctionLengths(files, name, file)
		c.checkNoSleepOrSkip(files, name, file)
		c.checkEngineWords(files, name, file)
	}
	if path.Ext(name) == ".lua" {
		c.checkLineCount(name, text, maxScriptLines)
		c.checkScriptHeader(name, string(text))
	}
	for i, row := range bytes.Split(text, []byte("\n")) {
		if word := unfinishedWord.Find(row); word != nil {
			c.addFault(name, i+1, "unfinished work: %s", word)
		} else if stubPanic.Match(row) {
			c.addFault(name, i+1, "a stub: %s", bytes.TrimSpace(row))
		}
	}
	return nil
}

func isTestFile(name string) bool { return strings.HasSuffix(name, "_test.go") }

// checkPackageComment records in hasPackageComment whether the package of a file has a comment, in this file or another.
func (c *ruleChecker) checkPackageComment(name string, file *ast.File) {
	if isTestFile(name) {
		return
	}
	pkg := path.Dir(name) + " (package " + file.Name.Name + ")"
	c.hasPackageComment[pkg] = c.hasPackageComment[pkg] || file.Doc != nil && len(strings.Fields(file.Doc.Text())) >= 4
}

// checkImports checks a file's imports against packageLayers and moduleOwners. Packages in bench/ may import everything, because they
// also measure alternatives.
func (c *ruleChecker) checkImports(files *token.FileSet, name string, file *ast.File) {
	dir := path.Dir(name)
	if dir == "bench" || strings.HasPrefix(dir, "bench/") {
		return
	}
	helperOf, helper := testHelperParents[dir]
	if isWithin(dir, "docs/examples") {
		c.checkExampleImports(files, name, file)
		return
	}
	layer, known := packageLayers[dir]
	if helper {
		layer, known = packageLayers[helperOf], true
	}
	if !known {
		c.addFault(name, 1, "the package %s has no layer in the table of docs/architecture.md", dir)
		return
	}
	for _, spec := range file.Imports {
		target, _ := strconv.Unquote(spec.Path.Value)
		at := files.Position(spec.Pos()).Line
		if target == modulePath || strings.HasPrefix(target, modulePath+"/") {
			c.checkImportDirection(name, at, dir, layer, strings.TrimPrefix(strings.TrimPrefix(target, modulePath), "/"))
			continue
		}
		for _, rule := range moduleOwners {
			mine := dir == rule.owner || helperOf == rule.owner
			if isWithin(target, rule.module) && !mine && !(rule.client && isWithin(dir, "tests")) {
				c.addFault(name, at, "only %s imports %s", rule.owner, rule.module)
			}
		}
		if dir == "services" && !isTestFile(name) && strings.Contains(strings.Split(target, "/")[0], ".") && target != servicesAllowedImport {
			c.addFault(name, at, "services imports the standard library only, not %s", target)
		}
	}
}

// checkExampleImports checks that an example imports nothing of this module, because examples are copied into other repositories.
func (c *ruleChecker) checkExampleImports(files *token.FileSet, name string, file *ast.File) {
	for _, spec := range file.Imports {
		if target, _ := strconv.Unquote(spec.Path.Value); isWithin(target, modulePath) {
			c.addFault(name, files.Position(spec.Pos()).Line, "an example imports %s: nobody can copy it", target)
		}
	}
}

// servicesAllowedImport is the only package that package services may import from outside the module and the standard library: the
// standard library lacks the tables of Unicode's normal forms.
const servicesAllowedImport = "golang.org/x/text/unicode/norm"

// isWithin reports whether a package or folder is module or lies in it.
func isWithin(target, module string) bool {
	return target == module || strings.HasPrefix(target, module+"/")
}

// checkImportDirection checks one import within the module. Tests and test helpers may import their own package and the
// helpers of a package below; helpers of one package may import each other. A package in helperImportExceptions may also import one
// helper of a package above.
func (c *ruleChecker) checkImportDirection(name string, at int, dir string, layer int, target string) {
	helperOf, helper := testHelperParents[dir]
	testing := isTestFile(name) || helper
	targetOf, targetHelper := testHelperParents[target]
	switch targetLayer, known := packageLayers[target]; {
	case testing && (target == dir || target == helperOf):
	case targetHelper && !testing:
		c.addFault(name, at, "%s is for tests only", target)
	case targetHelper && helperImportExceptions[dir] == target:
	case targetHelper && (targetOf == dir || targetOf == helperOf || packageLayers[targetOf] > layer):
	case targetHelper:
		c.addFault(name, at, "%s (layer %d) imports the helper of %s (layer %d): not downwards", dir, layer, targetOf, packageLayers[targetOf])
	case !known:
		c.addFault(name, at, "the package %q has no layer in the table of docs/architecture.md", target)
	case targetLayer <= layer:
		c.addFault(name, at, "%s (layer %d) imports %s (layer %d): not downwards", dir, layer, target, targetLayer)
	default:
		c.checkFeatureImport(name, at, dir, target)
	}
}

// checkLineCount checks that a file has fewer than bound lines.
func (c *ruleChecker) checkLineCount(name string, text []byte, bound int) {
	if n := bytes.Count(text, []byte("\n")); n >= bound {
		c.addFault(name, n, "%d lines, fewer than %d are allowed", n, bound)
	}
}

// checkFunctionLengths checks that each function has fewer than maxFunctionLines lines.
func (c *ruleChecker) checkFunctionLengths(files *token.FileSet, name string, file *ast.File) {
	for _, declaration := range file.Decls {
		function, ok := declaration.(*ast.FuncDecl)
		if !ok {
			continue
		}
		first := files.Position(function.Pos()).Line
		if n := files.Position(function.End()).Line - first + 1; n >= maxFunctionLines {
			c.addFault(name, first, "the function %s has %d lines, fewer than %d are allowed", function.Name.Name, n, maxFunctionLines)
		}
	}
}

// checkNoSleepOrSkip checks that a test waits for a condition and not for a fixed time, and is never skipped.
func (c *ruleChecker) checkNoSleepOrSkip(files *token.FileSet, name string, file *ast.File) {
	_, helper := testHelperParents[path.Dir(name)]
	if !isTestFile(name) && !helper {
		return
	}
	clock := "time"
	for _, spec := range file.Imports {
		if spec.Path.Value == `"time"` && spec.Name != nil {
			clock = spec.Name.Name
		}
	}
	ast.Inspect(file, func(node ast.Node) bool {
		selector, ok := node.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		owner, isName := selector.X.(*ast.Ident)
		at := files.Position(selector.Pos()).Line
		switch selector.Sel.Name {
		case "Sleep":
			if isName && owner.Name == clock && isTestFile(name) {
				c.addFault(name, at, "time.Sleep in a test: wait for a condition")
			}
		case "Skip", "Skipf", "SkipNow":
			c.addFault(name, at, "a test is skipped: what it needs must be there, or it fails")
		}
		return true
	})
}

// checkScriptHeader checks that a Lua script begins with a comment that names its arguments and results, and a lib*.lua with a
// comment that names its helpers.
func (c *ruleChecker) checkScriptHeader(name, text string) {
	var header strings.Builder
	for row := range strings.Lines(text) {
		if !strings.HasPrefix(row, "--") {
			break
		}
		header.WriteString(row)
	}
	words := []string{"KEYS", "ARGV", "returns"}
	if strings.HasPrefix(path.Base(name), "lib") {
		words = []string{"helpers"}
	}
	for _, word := range words {
		if !strings.Contains(strings.ToLower(header.String()), strings.ToLower(word)) {
			c.addFault(name, 1, "the header does not name %s", word)
		}
	}
}

// The files of this repository keep the rules that checkTree checks.
func TestTheRepositoryKeepsTheHouseRules(t *testing.T) {
	t.Chdir("../..")
	faults, err := checkTree(os.DirFS("."))
	if err != nil {
		t.Fatal(err)
	}
	for _, fault := range faults {
		t.Error(fault)
	}
}
