package house

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// featureImports is what a package that is no feature imports of the features.
type featureImports struct {
	features string // the names of their packages below services, with spaces between; "" for none, anyFeature for all
	why      string // the reason
}

// anyFeature allows the imports of every feature.
const anyFeature = "*"

// nonFeatures are the packages that are no feature, with the features that each may import. Layers alone would let every package above a
// feature import it. A package below services that is not listed is a feature: a feature may import the features below it, and is
// imported only by the features above it and by the packages that name it here. Other packages, such as transport, may import none.
var nonFeatures = map[string]featureImports{
	// These make the program of all features.
	"services/node": {anyFeature, "makes each feature and wires them"},
	"resolvers":     {anyFeature, "answers each operation by a call of a feature"},
	"services/command": {"acts devices people webhooks",
		"a command makes the services that it needs, without a node"},
	"graph":      {"chat live notifications", "the Go of the schema has these types as they are, so that no resolver copies them"},
	"dataloader": {"chat live posts", "a batch is one call of the feature whose objects it reads"},

	// These work on the users and the posts that every badge is about.
	"services/badge":     {"people positions posts", "the home feed is its own source; a visit is recorded before the badges are read from SQL"},
	"services/erasures":  {"people", "it locks the user that it erases, and tells nodes by the log of profiles"},
	"services/stream":    {"people", "its laps go over the active users, and changes alert from a time that the user set"},
	"services/projector": {"people positions posts", "a document begins with the home feed and the visit of its user"},
	"services/nodecache": {"people posts", "it holds posts, and the users who wrote them"},

	// This imports none, but names the fields that features have in documents. Its fixedVersionedFields says why the features do not
	// register them.
	"services/rdb": {},

	// These serve all features and know none.
	"services": {}, "services/sql": {}, "services/redis": {}, "services/jobs": {}, "services/changelog": {}, "services/metrics": {}, "services/trace": {},
	"services/outbound": {}, "services/leases": {}, "services/erase": {}, "services/export": {}, "services/importer": {}, "services/ratelimit": {}, "services/push": {},
	"services/badge/source": {}, "services/demo": {}, "services/audit": {},
}

// featureName returns the name of a feature by its package, "" for a package that is no feature.
func featureName(pkg string) string {
	name, below := strings.CutPrefix(pkg, "services/")
	if _, listed := nonFeatures[pkg]; listed || !below {
		return ""
	}
	return name
}

// mayImportFeature reports whether a package may import a feature, as far as the layers allow it.
func mayImportFeature(pkg, feature string) bool {
	allowed := nonFeatures[pkg].features
	return featureName(pkg) != "" || allowed == anyFeature || slices.Contains(strings.Fields(allowed), feature)
}

// checkFeatureImport checks an import that the layers allow. Tests and their helpers are not checked: they make the features that they
// need.
func (c *ruleChecker) checkFeatureImport(name string, at int, pkg, target string) {
	if _, helper := testHelperParents[pkg]; helper || isTestFile(name) {
		return
	}
	if feature := featureName(target); feature != "" && !mayImportFeature(pkg, feature) {
		c.addFault(name, at, "%s imports the feature %s: nonFeatures does not name it", pkg, feature)
	}
}

// engines are the packages that serve every feature alike. enginesHistory is the one file of them that names features: the tables of a
// migration, whose names never change.
const (
	engines        = "services/sql services/redis services/jobs services/changelog"
	enginesHistory = "services/sql/migrate_keys.go"
)

// featureWord matches the names in package services that belong to one feature. Source and Badge are no such names: a kind of job says
// which sources' counts it changes.
var featureWord = regexp.MustCompile(`^(Max)?(Host)?(Post|Show|Notification|Conversation|Message|SiteMessage|Announcement|View($|[^e])|Feed|Follow|Categor|Author|Live|Dot|Mention|Segment|Reminder|Comment|Like)`)

// checkEngineWords checks that an engine uses no type or constant of a feature. All of these are in package services, which engines
// import too.
func (c *ruleChecker) checkEngineWords(files *token.FileSet, name string, file *ast.File) {
	if !slices.Contains(strings.Fields(engines), path.Dir(name)) || isTestFile(name) || name == enginesHistory {
		return
	}
	ast.Inspect(file, func(node ast.Node) bool {
		if selector, ok := node.(*ast.SelectorExpr); ok {
			if owner, isName := selector.X.(*ast.Ident); isName && owner.Name == "services" && featureWord.MatchString(selector.Sel.Name) {
				c.addFault(name, files.Position(selector.Pos()).Line, "an engine names services.%s, which belongs to a feature", selector.Sel.Name)
			}
		}
		return true
	})
}

// Each import of a feature that the layers allow and nonFeatures does not is reported.
func TestOnlyListedPackagesImportFeatures(t *testing.T) {
	for name, c := range map[string]struct{ importer, feature, expected string }{
		"a transport":            {"transport", "live", "transport imports the feature live"},
		"a page":                 {"web/console", "people", "web/console imports the feature people"},
		"the batches":            {"dataloader", "views", "dataloader imports the feature views"},
		"the schema":             {"graph", "announcements", "graph imports the feature announcements"},
		"the command line":       {"services/command", "chat", "services/command imports the feature chat"},
		"the document":           {"services/badge", "announcements", "services/badge imports the feature announcements"},
		"the audit":              {"services/audit", "notifications", "services/audit imports the feature notifications"},
		"the change stream":      {"services/stream", "views", "services/stream imports the feature views"},
		"the removal of users":   {"services/erasures", "chat", "services/erasures imports the feature chat"},
		"the projector":          {"services/projector", "refs", "services/projector imports the feature refs"},
		"the caches of a node":   {"services/nodecache", "refs", "services/nodecache imports the feature refs"},
		"the hub":                {"services/push", "posts", "services/push imports the feature posts"},
		"what sources work with": {"services/badge/source", "people", "services/badge/source imports the feature people"},
		"a person of the demo":   {"services/demo", "feed", "services/demo imports the feature feed"},
	} {
		faults := strings.Join(treeFaults(t, map[string]string{c.importer + "/f.go": goFileText("made", "tidings/services/"+c.feature, "")}), "\n")
		if !strings.Contains(faults, c.expected) {
			t.Errorf("%s: found %q, want %q", name, faults, c.expected)
		}
	}
}

// Tests make the features that they need, features import those below them, and node and resolvers import all.
func TestListedPackagesAndTestsImportFeatures(t *testing.T) {
	for name, text := range map[string]string{
		"services/node/n.go":       goFileText("node", "tidings/services/live tidings/services/views", ""),
		"resolvers/r.go":           goFileText("resolvers", "tidings/services/announcements", ""),
		"services/feed/f.go":       goFileText("feed", "tidings/services/notifications tidings/services/posts", ""),
		"services/audit/a_test.go": goFileText("audit", "tidings/services/views", ""),
	} {
		faults := treeFaults(t, map[string]string{name: text})
		if len(faults) > 0 {
			t.Errorf("%s: found:\n%s", name, strings.Join(faults, "\n"))
		}
	}
}

// Each name in nonFeatures is of a package of the program, and each import that it allows is there. Otherwise a list that was too long
// would allow what nobody decided.
func TestNonFeaturesNameWhatTheProgramImports(t *testing.T) {
	t.Chdir("../..")
	for pkg, allowed := range nonFeatures {
		if _, known := packageLayers[pkg]; !known {
			t.Errorf("%s is no package", pkg)
		}
		if (allowed.features == "") != (allowed.why == "") {
			t.Errorf("%s has features without a reason, or a reason without features", pkg)
		}
		if allowed.features == "" || allowed.features == anyFeature {
			continue
		}
		imported := programImportsOf(t, pkg)
		for feature := range strings.FieldsSeq(allowed.features) {
			if !imported[modulePath+"/services/"+feature] {
				t.Errorf("%s may import the feature %s, and does not", pkg, feature)
			}
		}
	}
}

// programImportsOf returns the packages that the Go files of a folder import, without its tests and its subfolders.
func programImportsOf(t *testing.T, folder string) map[string]bool {
	t.Helper()
	names, err := filepath.Glob(folder + "/*.go")
	if err != nil {
		t.Fatal(err)
	}
	imported := map[string]bool{}
	for _, name := range names {
		if isTestFile(name) {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, spec := range file.Imports {
			pkg, _ := strconv.Unquote(spec.Path.Value)
			imported[pkg] = true
		}
	}
	return imported
}
