package command

import (
	"bytes"
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"tidings/services"
	"tidings/services/importer"
	"tidings/services/node"
	"tidings/services/sql"
)

// The imports of the command line are those of node.Imports, and no others: as words, in the help, in the faults and in completion. A
// flag of some imports names imports that there are.
func TestTheCommandLineHasTheRegisteredImports(t *testing.T) {
	var names []string
	help := helpOf(t, "import --help")
	for _, kind := range node.Imports(node.Config{}) {
		names = append(names, kind.Name)
		command, err := parse(t, "import "+kind.Name+" f")
		if want := "import " + kind.Name; err != nil || command.Name != want || command.Import.What != kind.Name || command.Import.File != "f" {
			t.Errorf("%s: %+v, %v", want, command.Import, err)
		}
		for _, part := range append(slices.Clone(kind.Examples), kind.Help) {
			if part == "" || !strings.Contains(strings.Join(strings.Fields(help), " "), strings.Join(strings.Fields(part), " ")) {
				t.Errorf("%s: the help lacks %q", kind.Name, part)
			}
		}
		if commands := helpOf(t, "--help"); !strings.Contains(strings.Join(strings.Fields(commands), " "), kind.Objects) {
			t.Errorf("%s: the list of commands lacks %q", kind.Name, kind.Objects)
		}
		if kind.Import == nil || kind.ExpectedLine == "" || kind.CountedUnit == "" || kind.FileFormat == "" || kind.MaxBytesPerLine == 0 {
			t.Errorf("%s is not complete: %+v", kind.Name, kind.Form)
		}
	}
	if unique := slices.Compact(slices.Sorted(slices.Values(names))); len(unique) != len(names) {
		t.Errorf("a name has two kinds: %v", names)
	}
	var offered []string
	for _, one := range suggest([]string{"import"}, "") {
		offered = append(offered, one.word)
	}
	if !slices.Equal(offered, names) {
		t.Errorf("completion offers %v, want %v", offered, names)
	}
	_, err := parse(t, "import likes f")
	if want := joinWords(names, "and") + " are"; err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("the fault is %v, want %q", err, want)
	}
	for _, flag := range newParser(&commandLineGrammar{}, nil).Model.Flags {
		for command := range strings.SplitSeq(flag.Tag.Get("for"), ",") {
			if name, of := strings.CutPrefix(command, "import "); of && !slices.Contains(names, name) {
				t.Errorf("--%s is a flag of the import %q, which does not exist", flag.Name, name)
			}
		}
	}
}

// A kind that is added to the list is an import of the command line, without another line: it has its word and its help, runs with the
// options of the command, and then does what it needs afterwards.
func TestARegisteredImportRuns(t *testing.T) {
	t.Chdir(t.TempDir())
	var got importer.Options
	var after int
	toys := importer.Kind{
		Form: importer.Form{Name: "toys"}, Objects: "wooden toys", FileFormat: "YAML", Help: "Toys: a line of FILE is a toy.\n", Examples: []string{"tidings import toys toys.yaml"},
		Import: func(_ context.Context, db *sql.DB, ids *services.IDClock, opts importer.Options) (importer.Report, error) {
			got = opts
			if db == nil || ids == nil {
				t.Error("the import has no database or no clock of IDs")
			}
			return importer.Report{Kind: "toys", LastLine: 3, GoodRows: 3, NewItems: 2, SkippedRows: 1}, nil
		},
		AfterImport: func(context.Context, *sql.DB) error {
			after++
			return errors.New("the toys were not put away")
		},
	}
	before := importKinds
	t.Cleanup(func() { importKinds = before })
	importKinds = func(c node.Config) []importer.Kind { return append(before(c), toys) }
	command, err := parse(t, "import toys shelf.yaml --prefix u --quiet --data d")
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	exit := runImport(t.Context(), command, nil, &out)
	const want = "3 rows: 2 toys are new, 1 existed already; 0.0 s\ntidings: the toys were not put away\n"
	if exit != 1 || out.String() != want || after != 1 {
		t.Errorf("exit code %d, %d steps afterwards:\n%s", exit, after, out.String())
	}
	if got.File != "shelf.yaml" || got.KeyPrefix != "u" || !got.Quiet {
		t.Errorf("it ran with %+v", got)
	}
	help := helpOf(t, "import --help")
	for _, word := range []string{"follows, messages, posts, shows or toys", "  tidings import toys toys.yaml\n", "Toys: a line of FILE is a toy.\n"} {
		if !strings.Contains(help, word) {
			t.Errorf("the help lacks %q:\n%s", word, help)
		}
	}
	if commands := helpOf(t, "--help"); !strings.Contains(strings.Join(strings.Fields(commands), " "), "from a JSON Lines file, or wooden toys from a YAML file.") {
		t.Errorf("the list of commands lacks the toys:\n%s", commands)
	}
	if _, err := parse(t, "import toys shelf.yaml --both"); err == nil || !strings.Contains(err.Error(), "--both is not a flag of tidings import toys") {
		t.Errorf("a flag of other imports: %v", err)
	}
}

// Run calls the import that the command line names.
func TestRunCallsARegisteredImport(t *testing.T) {
	t.Chdir(t.TempDir())
	before := importKinds
	t.Cleanup(func() { importKinds = before })
	called := false
	importKinds = func(node.Config) []importer.Kind {
		return []importer.Kind{{Form: importer.Form{Name: "toys"}, Import: func(context.Context, *sql.DB, *services.IDClock, importer.Options) (importer.Report, error) {
			called = true
			return importer.Report{}, nil
		}}}
	}
	var out, faults bytes.Buffer
	if exit := Run(t.Context(), strings.Fields("import toys f --data d"), environmentOf(nil), &out, &faults); exit != 0 || !called {
		t.Errorf("exit code %d, called %t\n%s%s", exit, called, out.String(), faults.String())
	}
}
