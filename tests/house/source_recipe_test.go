package house

import (
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"tidings/services"
)

// badgeSource is a source of the badges, as the tree has it.
type badgeSource struct {
	name            string   // as in services.Sources
	constant        string   // SourceViews
	countField      string   // its field in services.CountFields; "" for a source of several counts
	pkg             string   // the folder of its package, services/views
	text            string   // the Go of its package, without tests
	versionedFields []string // the versioned fields of every document that it writes: Views for rdb.ViewsVersionedField
}

// declarationsListingSources has the declarations, by file and name, that list the sources of the badges or their parts. Each has a
// function that returns the texts that must be in it for a source; nil where another test finds what is missing.
var declarationsListingSources = map[[2]string]func(t *testing.T, s badgeSource) []string{
	{"services/sources.go", "Sources"}:            func(_ *testing.T, s badgeSource) []string { return []string{s.constant} },
	{"services/sources.go", "CountFields"}:        func(_ *testing.T, s badgeSource) []string { return ifAny(s.countField, `"%s"`) },
	{"graph/badges.graphqls", "enum BadgeSource"}: func(_ *testing.T, s badgeSource) []string { return []string{s.name} },
	{"graph/badges.graphqls", "type Badges"}:      func(_ *testing.T, s badgeSource) []string { return ifAny(s.countField, "%s: BadgeCount!") },
	{"services/rdb/versioned_fields.go", "fixedVersionedFields"}: func(t *testing.T, s badgeSource) []string {
		return forEach(s.versionedFields, func(field string) string { return "{" + fixedVersionedFieldConstants(t)[field] + "," })
	},
	{"services/rdb/versioned_fields.go", "VersionedValues"}: func(_ *testing.T, s badgeSource) []string {
		return forEach(s.versionedFields, func(field string) string { return "\n\t" + field })
	},
	{"services/rdb/versioned_fields.go", "parseFixedVersionedFields"}: func(_ *testing.T, s badgeSource) []string {
		return forEach(s.versionedFields, func(field string) string { return "\n\tr." + field })
	},
	{"services/node/wire.go", "wire"}:                      func(_ *testing.T, s badgeSource) []string { return []string{" " + path.Base(s.pkg) + ".New("} },
	{"services/node/wire.go", "Sources"}:                   wiredSource,
	{"services/node/wire.go", "AllExportKinds"}:            func(_ *testing.T, s badgeSource) []string { return ifDeclared(s, "Exports") },
	{"services/node/wire.go", "eraseSteps"}:                wiredEraseSteps,
	{"services/node/exports_test.go", "tablesNotExported"}: nil, // TestEveryTableIsExportedOrNot finds a table that is missing
	{"tests/nodes/kinds_test.go", "allJobKinds"}:           jobKindsOf,
	{"docs/architecture.md", "Packages"}:                   func(_ *testing.T, s badgeSource) []string { return []string{"| `" + s.pkg + "` |"} },
}

// ifAny returns the format with the value in it; nothing for no value.
func ifAny(value, format string) []string {
	if value == "" {
		return nil
	}
	return []string{strings.ReplaceAll(format, "%s", value)}
}

// forEach returns the text of each value.
func forEach(values []string, text func(string) string) (texts []string) {
	for _, value := range values {
		texts = append(texts, text(value))
	}
	return texts
}

// ifDeclared returns the variable of the source's package, if there is one: views.Exports.
func ifDeclared(s badgeSource, variable string) []string {
	if !strings.Contains(s.text, "\nvar "+variable+" = ") {
		return nil
	}
	return []string{path.Base(s.pkg) + "." + variable}
}

// wiredSource returns the call of the source's service in node.wire: lists.Source(). The badges themselves make the home feed.
func wiredSource(t *testing.T, s badgeSource) []string {
	if !strings.Contains(s.text, ") Source() Source {") {
		return nil
	}
	made := regexp.MustCompile(`([\w.]+) :?= ` + path.Base(s.pkg) + `\.New\(`).FindStringSubmatch(readRepositoryFile(t, "services/node/wire.go"))
	if made == nil {
		t.Fatalf("node.wire does not make the service of %s", s.pkg)
	}
	return []string{made[1] + ".Source()"}
}

// wiredEraseSteps returns the erase steps of the source's package: a variable, or a method of its service.
func wiredEraseSteps(t *testing.T, s badgeSource) []string {
	if !strings.Contains(s.text, ") EraseSteps() []erase.Step {") {
		return ifDeclared(s, "EraseSteps")
	}
	service := regexp.MustCompile(`(\w+) \*` + path.Base(s.pkg) + `\.Service\b`).FindStringSubmatch(readRepositoryFile(t, "services/node/wire.go"))
	if service == nil {
		t.Fatalf("eraseSteps does not take the service of %s", s.pkg)
	}
	return []string{service[1] + ".EraseSteps()"}
}

// registeredJobKind matches a kind of job in the code of a feature: the constant of its name.
var registeredJobKind = regexp.MustCompile(`\{Name: (\w+), Class: jobs\.`)

// jobKindsOf returns the names of the kinds of jobs of the source's package.
func jobKindsOf(t *testing.T, s badgeSource) (kinds []string) {
	for _, match := range registeredJobKind.FindAllStringSubmatch(s.text, -1) {
		value := regexp.MustCompile(`\b` + match[1] + ` += (".+?")`).FindStringSubmatch(s.text)
		if value == nil {
			t.Fatalf("%s has no constant %s", s.pkg, match[1])
		}
		kinds = append(kinds, value[1])
	}
	return kinds
}

// fixedVersionedFieldFunction matches a function that makes a versioned field of every document: the field's name is a constant. Fields
// of categories, types and dots are named by functions.
var fixedVersionedFieldFunction = regexp.MustCompile(`\nfunc (\w+)VersionedField\([^\n]+\n(?:\t[^\n]*\n)*?\treturn VersionedField\{(\w+),`)

// fixedVersionedFieldConstants returns the constants of the versioned fields of every document, by the functions that make them without the
// ending: Views has viewsField.
func fixedVersionedFieldConstants(t *testing.T) map[string]string {
	t.Helper()
	constants := map[string]string{}
	for _, match := range fixedVersionedFieldFunction.FindAllStringSubmatch(readRepositoryFile(t, "services/rdb/versioned_fields.go"), -1) {
		constants[match[1]] = match[2]
	}
	if len(constants) < 6 {
		t.Fatalf("only %v are versioned fields of every document", constants)
	}
	return constants
}

var (
	sourceKey          = regexp.MustCompile(`\) Key\(\) services\.Source \{ return services\.(Source\w+) \}`)
	sourceConstant     = regexp.MustCompile(`\b(Source\w+) +Source = "(\w+)"`)
	usedVersionedField = regexp.MustCompile(`\brdb\.(\w+)VersionedField\(`)
)

// badgeSources returns the sources of the tree: the packages with a Source.
func badgeSources(t *testing.T) (sources []badgeSource) {
	t.Helper()
	names, constants := map[string]string{}, fixedVersionedFieldConstants(t)
	for _, match := range sourceConstant.FindAllStringSubmatch(readRepositoryFile(t, "services/sources.go"), -1) {
		names[match[1]] = match[2]
	}
	for pkg := range packageLayers {
		s := badgeSource{pkg: pkg, text: packageText(t, pkg)}
		key := sourceKey.FindStringSubmatch(s.text)
		if key == nil {
			continue
		}
		s.constant, s.name = key[1], names[key[1]]
		if i := slices.IndexFunc(services.CountFields, func(f services.CountField) bool { return string(f.Source) == s.name }); i >= 0 {
			s.countField = services.CountFields[i].Name
		}
		for _, match := range usedVersionedField.FindAllStringSubmatch(s.text, -1) {
			if constants[match[1]] != "" && !slices.Contains(s.versionedFields, match[1]) {
				s.versionedFields = append(s.versionedFields, match[1])
			}
		}
		sources = append(sources, s)
	}
	if len(sources) < 7 {
		t.Fatalf("only %d packages have a source", len(sources))
	}
	return sources
}

// packageText returns the Go of a package, without its tests.
func packageText(t *testing.T, pkg string) string {
	t.Helper()
	files, err := filepath.Glob("../../" + pkg + "/*.go")
	if err != nil {
		t.Fatal(err)
	}
	var all strings.Builder
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		all.Write(text)
	}
	return all.String()
}

// declarationText returns the text of a declaration, from its name to its end: a declaration of Go or of the schema, a field of a
// literal (up to the end of the declaration around it), or a section of a page. It is "" if the file has none.
func declarationText(t *testing.T, place [2]string) string {
	t.Helper()
	text := readRepositoryFile(t, place[0])
	start := regexp.MustCompile(`(?m)^(func (\([^)]*\) )?|var |type |## )?` + place[1] + `\b|\t` + place[1] + `: `).FindStringIndex(text)
	if start == nil {
		return ""
	}
	text = text[start[0]:]
	if end := regexp.MustCompile(`\n[})]\n|\n## `).FindStringIndex(text); end != nil {
		text = text[:end[0]]
	}
	return text
}

// filesWithoutSourceNames are files that loop over services.CountFields or use code generated from the schema, and so must not name a
// source that is one count.
var filesWithoutSourceNames = []string{"resolvers/hot_badges.go", "services/stream/types.go", "services/push/face.go", "services/rdb/layout.go", "services/rdb/document.go"}

// The recipe for a badge source names every place that lists the sources, and no other place. Each place has every source.
func TestTheRecipeForABadgeSourceNamesEveryPlace(t *testing.T) {
	named, sources := map[[2]string]bool{}, badgeSources(t)
	for _, place := range declarationsInDocsSection(t, "Add a badge source") {
		named[place] = true
	}
	for place := range named {
		if _, known := declarationsListingSources[place]; !known {
			t.Errorf("%s in %s is a step that nothing needs", place[1], place[0])
		}
	}
	for place, wanted := range declarationsListingSources {
		text := declarationText(t, place)
		if !named[place] {
			t.Errorf("%s in %s is no step of the recipe", place[1], place[0])
		}
		if text == "" {
			t.Errorf("%s has no %s", place[0], place[1])
		}
		if wanted == nil {
			continue
		}
		found := 0
		for _, source := range sources {
			for _, want := range wanted(t, source) {
				if found++; !strings.Contains(text, want) {
					t.Errorf("%s in %s lacks %s of %s", place[1], place[0], strings.TrimSpace(want), source.pkg)
				}
			}
		}
		if found < 3 {
			t.Errorf("%s in %s: only %d texts were looked for", place[1], place[0], found)
		}
	}
	for _, file := range filesWithoutSourceNames {
		text := readRepositoryFile(t, file)
		for _, source := range sources {
			if source.countField == "" {
				continue
			}
			if strings.Contains(text, source.constant[len("Source"):]+" ") || strings.Contains(text, `"`+source.countField+`"`) {
				t.Errorf("%s names %s: the recipe lacks the step, or CountFields can bring it", file, source.countField)
			}
		}
	}
}

// services.CountFields has every source that is one count in the badges once, with a source that exists.
func TestCountFieldsAreSources(t *testing.T) {
	badges, seen := &services.Badges{}, map[*services.Count]bool{}
	for _, field := range services.CountFields {
		if !slices.Contains(services.Sources, field.Source) || seen[field.CountIn(badges)] {
			t.Errorf("%+v is of no source, or twice there", field)
		}
		seen[field.CountIn(badges)] = true
	}
	schema := readRepositoryFile(t, "graph/badges.graphqls")
	_, object, _ := strings.Cut(schema, "\ntype Badges ")
	object, _, _ = strings.Cut(object, "\n}")
	counts := strings.Count(object, ": BadgeCount!") - 1 // the total is not a source
	if counts != len(services.CountFields) {
		t.Errorf("the schema has %d sources that are one count, CountFields %d", counts, len(services.CountFields))
	}
}
