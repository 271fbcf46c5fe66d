package house

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"tidings/services"
)

// docsDeclarationRow matches a row of a table in docs/architecture.md: a file, and a declaration in it. A table that lists all places to
// change for a task, such as a new badge source, is called a recipe.
var docsDeclarationRow = regexp.MustCompile("(?m)^\\| `([\\w./]+)` \\| `([\\w ]+)` \\|")

// declarationsInDocsSection returns the rows of the table in a section of docs/architecture.md: a file and a declaration in it.
func declarationsInDocsSection(t *testing.T, section string) (places [][2]string) {
	t.Helper()
	_, text, found := strings.Cut(readRepositoryFile(t, "docs/architecture.md"), "\n## "+section+"\n")
	if !found {
		t.Fatalf("the documentation has no section %q", section)
	}
	text, _, _ = strings.Cut(text, "\n## ")
	for _, match := range docsDeclarationRow.FindAllStringSubmatch(text, -1) {
		places = append(places, [2]string{match[1], match[2]})
	}
	return places
}

// codeInDocs matches code in a page.
var codeInDocs = regexp.MustCompile("`([^`]+)`")

// recipes are the sections of docs/architecture.md with a recipe, and how many names each has at least.
var recipes = map[string]int{"Add a badge source": 50, "Add a category of notifications": 30, "Add an import": 20, "Add a setting": 15}

// Each name in a recipe is there: in a row of its table in the file of the row, elsewhere in any file. A recipe that names a function
// that was renamed sends its reader astray.
func TestEveryNameInARecipeExists(t *testing.T) {
	names, everywhere := namesByFile(t), map[string]bool{}
	for _, found := range names {
		maps.Copy(everywhere, found)
	}
	for section, most := range recipes {
		if checked := checkNamesInSection(t, section, names, everywhere); checked < most {
			t.Errorf("%s: the recipe has only %d names", section, checked)
		}
	}
}

// checkNamesInSection checks the names in a section of docs/architecture.md, and returns how many it has. names are the names of Go by
// file, and everywhere those of all files.
func checkNamesInSection(t *testing.T, section string, names map[string]map[string]bool, everywhere map[string]bool) (checked int) {
	t.Helper()
	_, text, _ := strings.Cut(readRepositoryFile(t, "docs/architecture.md"), "\n## "+section+"\n")
	text, _, _ = strings.Cut(text, "\n## ")
	for line := range strings.Lines(text) {
		known := everywhere
		if row := docsDeclarationRow.FindStringSubmatch(line); row != nil && path.Ext(row[1]) == ".go" {
			known = names[row[1]]
		}
		for _, match := range codeInDocs.FindAllStringSubmatch(line, -1) {
			checked++
			if problem := unknownCode(t, match[1], known); problem != "" {
				t.Errorf("%s: %s", strings.TrimSpace(line), problem)
			}
		}
	}
	return checked
}

// registeredImport matches an import in the list of node.Imports: the call of its package's Import.
var registeredImport = regexp.MustCompile(`\b(\w+)\.Import\(`)

// Each feature that has a kind of import is in node.Imports: otherwise its files could not be imported, and nothing else would tell.
func TestEveryImportOfAFeatureIsRegistered(t *testing.T) {
	var registered, features []string
	for _, match := range registeredImport.FindAllStringSubmatch(readRepositoryFile(t, "services/node/imports.go"), -1) {
		registered = append(registered, match[1])
	}
	for pkg := range packageLayers {
		files, err := filepath.Glob("../../" + pkg + "/*.go")
		if err != nil {
			t.Fatal(err)
		}
		for _, file := range files {
			if text, err := os.ReadFile(file); err != nil {
				t.Fatal(err)
			} else if featureName(pkg) != "" && bytes.Contains(text, []byte(") importer.Kind {\n")) {
				features = append(features, featureName(pkg))
			}
		}
	}
	slices.Sort(registered)
	slices.Sort(features)
	if !slices.Equal(registered, features) || len(features) < 4 {
		t.Errorf("node.Imports lists %v, and %v have an import", registered, features)
	}
}

// unknownCode returns what is wrong with code in the documentation; "" for a path, a target of make, a declaration of the schema and one
// of the known names of Go.
func unknownCode(t *testing.T, code string, known map[string]bool) string {
	t.Helper()
	kind, name, several := strings.Cut(code, " ")
	switch {
	case kind == "make" && several:
		if !strings.Contains(readRepositoryFile(t, "Makefile"), "\n"+name+":") {
			return "make has no target " + name
		}
	case several: // of the schema: TestTheRecipeForABadgeSourceNamesEveryPlace looks into its file
	case strings.Contains(code, "/") || code == "services":
		if found, err := filepath.Glob("../../" + code); err != nil || len(found) == 0 {
			return "there is no file " + code
		}
	case code == "Packages" || code == "user_number": // a heading, and a column
	case !known[code]:
		return "there is no " + code
	}
	return ""
}

// namesByFile returns the names of Go in each file, by its path: functions, methods, types, variables, constants and fields, and what
// the file uses of these from other packages.
func namesByFile(t *testing.T) map[string]map[string]bool {
	t.Helper()
	names := map[string]map[string]bool{}
	for _, root := range []string{"services", "resolvers", "tests"} {
		err := fs.WalkDir(os.DirFS("../.."), root, func(name string, entry fs.DirEntry, err error) error {
			if err != nil || path.Ext(name) != ".go" {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), name, readRepositoryFile(t, name), parser.SkipObjectResolution)
			if err == nil {
				names[name] = namesIn(file)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return names
}

// namesIn returns the names of Go in a file. Names of parameters and of variables in functions are left out.
func namesIn(file *ast.File) map[string]bool {
	names := map[string]bool{}
	add := func(found ...*ast.Ident) {
		for _, name := range found {
			names[name.Name] = true
		}
	}
	addFields := func(list *ast.FieldList) {
		for _, field := range list.List {
			add(field.Names...)
		}
	}
	for _, declaration := range file.Decls {
		if group, isGroup := declaration.(*ast.GenDecl); isGroup {
			for _, spec := range group.Specs {
				if values, are := spec.(*ast.ValueSpec); are {
					add(values.Names...)
				}
			}
		}
	}
	ast.Inspect(file, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.FuncDecl:
			add(node.Name)
		case *ast.TypeSpec:
			add(node.Name)
		case *ast.StructType:
			addFields(node.Fields)
		case *ast.InterfaceType:
			addFields(node.Methods)
		case *ast.SelectorExpr:
			add(node.Sel)
		case *ast.KeyValueExpr:
			if key, isName := node.Key.(*ast.Ident); isName {
				add(key)
			}
		}
		return true
	})
	return names
}

// declarationEnd matches the end of a declaration, of a member of a group, or of a declaration in one line.
var declarationEnd = regexp.MustCompile(`\n\}|\n\t\}\}|\]category`)

// objectEnd matches the end of an object of a page's script.
var objectEnd = regexp.MustCompile(`\}`)

// Each place that the recipe for a new category of notifications names has every category. So a new category cannot be left out of one.
func TestEveryCategoryIsInEachPlaceOfItsRecipe(t *testing.T) {
	steps := declarationsInDocsSection(t, "Add a category of notifications")
	if len(steps) < 11 {
		t.Fatalf("the recipe has only the steps %v", steps)
	}
	for _, place := range steps {
		// The name in a comment does not count. The region begins with the comment of the declaration, which may say why it leaves a
		// category out.
		declared := regexp.MustCompile(`(?m)(?:^//.*\n)*(?:^|^\s+|, )(?:func (?:\([^)]*\) )?|export |const |function |var |type )*` + place[1] + `\b`)
		text := readRepositoryFile(t, place[0])
		// A page declares its texts once for each language, each time in one line that ends with a brace.
		found, end, most := declared.FindAllStringIndex(text, -1), declarationEnd, 1
		if strings.HasPrefix(path.Ext(place[0]), ".ts") {
			end, most = objectEnd, len(found)
		}
		if len(found) == 0 {
			t.Errorf("%s does not declare %s", place[0], place[1])
		}
		for _, start := range found[:min(most, len(found))] {
			region := text[start[0]:]
			if end := end.FindStringIndex(region); end != nil {
				region = region[:end[0]]
			}
			for _, category := range services.Categories {
				if strings.Contains(strings.ToLower(region), strings.ToLower(string(category))) {
					continue
				}
				if place[1] == "keysIn" && category == services.CategoryMention {
					continue // a mention has a subject, which is read for every category
				}
				t.Errorf("%s in %s lacks %s", place[1], place[0], category)
			}
		}
	}
}

// The functions in the function-by-function descriptions of the architecture are in the files that the descriptions name.
func TestThePathsOfTheArchitectureExist(t *testing.T) {
	for _, section := range []string{"A like, function by function", "A frozen page, function by function"} {
		steps := declarationsInDocsSection(t, section)
		if len(steps) < 8 {
			t.Errorf("%s has only the steps %v", section, steps)
		}
		for _, place := range steps {
			declared := regexp.MustCompile(`(?m)^(func (\([^)]*\) )?|var |const )` + place[1] + `\b`)
			if !declared.MatchString(readRepositoryFile(t, place[0])) {
				t.Errorf("%s: %s has no %s", section, place[0], place[1])
			}
		}
	}
}

// readRepositoryFile returns the text of a file at a path below the root of the repository.
func readRepositoryFile(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile("../../" + path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
