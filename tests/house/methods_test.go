package house

import (
	"fmt"
	"go/ast"
	"go/importer"
	"go/parser"
	"go/token"
	"go/types"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
)

// maxMethods is how many methods can be called on an exported type, those of its embedded fields included. With more, a reader does not
// see which of them are its own.
const maxMethods = 40

// manyMethods are the exported types that may have more, by package and name, with the reason.
var manyMethods = map[string]string{
	"tidings/graph.MutationResolver": "gqlgen makes this interface of the schema: one method for each mutation",
}

// methodFaults returns a message for each exported type of a package on which more methods can be called than maxMethods. An alias is
// counted where its type is declared.
func methodFaults(pkg *types.Package) (faults []string) {
	for _, name := range pkg.Scope().Names() {
		declared, isType := pkg.Scope().Lookup(name).(*types.TypeName)
		if !isType || !declared.Exported() || declared.IsAlias() {
			continue
		}
		of := declared.Type()
		// Methods of an interface are called on itself, and those of another type on a pointer to it.
		if !types.IsInterface(of) {
			of = types.NewPointer(of)
		}
		count := 0
		for method := range types.NewMethodSet(of).Methods() {
			if method.Obj().Exported() {
				count++
			}
		}
		if full := pkg.Path() + "." + name; count > maxMethods && manyMethods[full] == "" {
			faults = append(faults, fmt.Sprintf("%s: %d methods can be called on it, at most %d are allowed: embed less, or split it", full, count, maxMethods))
		}
	}
	return faults
}

// No exported type of the program has too many methods. The compiler's own data of the packages has the methods of embedded fields too,
// of the libraries as well.
func TestNoExportedTypeHasManyMethods(t *testing.T) {
	list := exec.CommandContext(t.Context(), "go", "list", "-export", "-deps", "-f", "{{.ImportPath}} {{.Export}}", "./...")
	list.Dir, list.Stderr = "../..", os.Stderr
	text, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	files := map[string]string{}
	for line := range strings.Lines(string(text)) {
		// A package of tests alone has no file, and no type that others see.
		if pkg, file, _ := strings.Cut(strings.TrimSpace(line), " "); file != "" {
			files[pkg] = file
		}
	}
	imported := importer.ForCompiler(token.NewFileSet(), "gc", func(path string) (io.ReadCloser, error) { return os.Open(files[path]) })
	counted := 0
	for path := range files {
		if !isWithin(path, modulePath) {
			continue
		}
		pkg, err := imported.Import(path)
		if err != nil {
			t.Fatal(err)
		}
		counted++
		for _, fault := range methodFaults(pkg) {
			t.Error(fault)
		}
	}
	if counted < len(packageLayers)/2 {
		t.Errorf("only %d packages were counted", counted)
	}
}

// Methods of embedded fields count, however deep, and so do those of interfaces. Unexported methods and types do not, and an alias is
// no type of its own.
func TestMethodFaultsFindTypesWithManyMethods(t *testing.T) {
	var text strings.Builder
	text.WriteString("package made\ntype Engine struct{}\ntype Own struct{}\ntype some struct{ *Engine }\n" +
		"type Embeds struct{ some; Own }\ntype Named struct{ engine *Engine; Own }\ntype Alias = Embeds\ntype embeds struct{ Embeds }\ntype All interface{\n")
	for i := range maxMethods + 1 {
		if i > 0 { // Engine has maxMethods methods, All has one more
			fmt.Fprintf(&text, "M%d()\n", i)
		} else {
			text.WriteString("Last()\n")
		}
	}
	text.WriteString("}\nfunc (Own) More() {}\nfunc (Own) less() {}\nfunc (Named) less() {}\n")
	for i := range maxMethods {
		fmt.Fprintf(&text, "func (*Engine) M%d() {}\n", i+1)
	}
	names := token.NewFileSet()
	file, err := parser.ParseFile(names, "made.go", text.String(), 0)
	if err != nil {
		t.Fatal(err)
	}
	pkg, err := new(types.Config).Check("made", names, []*ast.File{file}, nil)
	if err != nil {
		t.Fatal(err)
	}
	faults := methodFaults(pkg)
	want := []string{"made.All: 41 methods", "made.Embeds: 41 methods"}
	if !slices.EqualFunc(faults, want, strings.HasPrefix) {
		t.Errorf("found:\n%s\nwant %q", strings.Join(faults, "\n"), want)
	}
}
