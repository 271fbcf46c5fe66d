package house

import (
	"encoding/json"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

var (
	metricName        = regexp.MustCompile(`\btidings_[a-z_]+\b`) // the name of a metric, in a query or a text
	dashboardVariable = regexp.MustCompile(`\$(\w+)`)             // a variable in a query of the dashboard
	// metricDefinition matches the definition of a metric in the files metrics.go.
	metricDefinition = regexp.MustCompile(`metrics\.(?:Gauge|Flag|Counter)\("([a-z_]+)"`)
)

// deployFiles returns the texts of all files under deploy, by path.
func deployFiles(t *testing.T) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir("../../deploy", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		files[strings.TrimPrefix(filepath.ToSlash(path), "../../deploy/")] = string(text)
		return err
	})
	if err != nil || len(files) < 7 {
		t.Fatalf("%d files of deploy: %v", len(files), err)
	}
	return files
}

// Alerts, dashboards and the page for operators name only metrics that the program has. A query for a missing metric would never
// return anything.
func TestDeploymentsAskForMetricsThatExist(t *testing.T) {
	var known []string
	files, err := filepath.Glob("../../services/*/metrics.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range append(files, "../../transport/metrics.go") {
		for _, match := range metricDefinition.FindAllStringSubmatch(readRepositoryFile(t, strings.TrimPrefix(filepath.ToSlash(file), "../../")), -1) {
			known = append(known, "tidings_"+match[1])
		}
	}
	if len(known) < 50 {
		t.Fatalf("the program has %d metrics", len(known))
	}
	asked := deployFiles(t)
	asked["docs/operate.md"] = readRepositoryFile(t, "docs/operate.md")
	for path, text := range asked {
		if path == "README.md" {
			continue
		}
		for _, name := range metricName.FindAllString(text, -1) {
			if !slices.Contains(known, name) {
				t.Errorf("%s: there is no metric %s", path, name)
			}
		}
	}
}

// Every JSON and YAML file under deploy can be parsed, and every anchor that a YAML file refers to exists.
func TestDeploymentsAreWellFormed(t *testing.T) {
	for path, text := range deployFiles(t) {
		switch filepath.Ext(path) {
		case ".json":
			if !json.Valid([]byte(text)) {
				t.Errorf("%s is no JSON", path)
			}
		case ".yaml":
			for _, document := range strings.Split(text, "\n---\n") {
				var content map[string]any
				if err := yaml.Unmarshal([]byte(document), &content); err != nil || len(content) == 0 {
					t.Errorf("%s: %v", path, err)
				}
			}
		}
	}
}

// The build of the Docker image gets every Go file and embedded file of the program: Dockerfile.dockerignore leaves out none of them.
func TestTheImageGetsEveryFileOfTheProgram(t *testing.T) {
	list := exec.CommandContext(t.Context(), "go", "list", "-deps", "-f", `{{if .Module}}{{if .Module.Main}}{{$d := .Dir}}{{range .GoFiles}}{{$d}}/{{.}}{{"\n"}}{{end}}{{range .EmbedFiles}}{{$d}}/{{.}}{{"\n"}}{{end}}{{end}}{{end}}`, ".")
	list.Dir = "../.."
	listed, err := list.Output()
	if err != nil {
		t.Fatal(err)
	}
	root, err := filepath.Abs(list.Dir)
	if err != nil {
		t.Fatal(err)
	}
	files := strings.Fields(strings.ReplaceAll(string(listed), root+string(filepath.Separator), ""))
	if len(files) < 300 || !slices.Contains(files, "server.go") {
		t.Fatalf("the program has %d files", len(files))
	}
	left := strings.Fields(readRepositoryFile(t, "deploy/Dockerfile.dockerignore"))
	for _, file := range files {
		for _, pattern := range left {
			inside, anywhere := strings.CutPrefix(pattern, "**/")
			if strings.HasPrefix(file, pattern+"/") || anywhere && slices.Contains(strings.Split(file, "/"), inside) {
				t.Errorf("%s leaves out %s", pattern, file)
			}
		}
	}
}

// Every alert says how severe it is, what a person sees, and what to do.
func TestAlertsSayWhatToDo(t *testing.T) {
	var rules struct {
		Groups []struct {
			Rules []struct {
				Alert, Expr         string
				Labels, Annotations map[string]string
			}
		}
	}
	if err := yaml.Unmarshal([]byte(deployFiles(t)["prometheus/alerts.yaml"]), &rules); err != nil || len(rules.Groups) == 0 {
		t.Fatalf("%+v, %v", rules, err)
	}
	for _, group := range rules.Groups {
		for _, rule := range group.Rules {
			if rule.Alert == "" || rule.Expr == "" || rule.Annotations["summary"] == "" || rule.Annotations["action"] == "" ||
				!slices.Contains([]string{"page", "warn"}, rule.Labels["severity"]) {
				t.Errorf("the alert %q is incomplete: %+v", rule.Alert, rule)
			}
		}
	}
}

// The dashboard has everything that Grafana needs to load it: panels that do not overlap, each with an ID of its own, and with
// queries to the data source that the reader chooses.
func TestTheDashboardIsComplete(t *testing.T) {
	type source struct{ Type, UID string }
	var dashboard struct {
		UID, Title    string
		SchemaVersion int
		Templating    struct {
			List []struct{ Name, Type, Query string }
		}
		Panels []struct {
			ID          int
			Type, Title string
			GridPos     struct{ X, Y, W, H int }
			Datasource  source
			Targets     []struct{ RefID, Expr string }
		}
	}
	if err := json.Unmarshal([]byte(deployFiles(t)["grafana/tidings.json"]), &dashboard); err != nil {
		t.Fatal(err)
	}
	if dashboard.UID == "" || dashboard.Title == "" || dashboard.SchemaVersion < 30 || len(dashboard.Panels) < 10 {
		t.Errorf("the dashboard %q %q has schema %d and %d panels", dashboard.UID, dashboard.Title, dashboard.SchemaVersion, len(dashboard.Panels))
	}
	variables := map[string]bool{"__range": true, "__rate_interval": true, "__interval": true}
	for _, variable := range dashboard.Templating.List {
		variables[variable.Name] = true
	}
	ids, taken := map[int]bool{}, map[[2]int]string{}
	for _, panel := range dashboard.Panels {
		at := panel.GridPos
		if panel.Title == "" || panel.Type == "" || ids[panel.ID] || at.W < 1 || at.H < 1 || at.X+at.W > 24 {
			t.Errorf("the panel %d %q is incomplete: %+v", panel.ID, panel.Title, panel)
		}
		ids[panel.ID] = true
		for x := at.X; x < at.X+at.W; x++ {
			for y := at.Y; y < at.Y+at.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" {
					t.Errorf("%q lies on %q", panel.Title, other)
				}
				taken[[2]int{x, y}] = panel.Title
			}
		}
		if (panel.Datasource != source{"prometheus", "${datasource}"}) || len(panel.Targets) == 0 {
			t.Errorf("%q asks %+v for %d rows", panel.Title, panel.Datasource, len(panel.Targets))
		}
		rows := map[string]bool{}
		for _, target := range panel.Targets {
			if target.RefID == "" || rows[target.RefID] || strings.Count(target.Expr, "(") != strings.Count(target.Expr, ")") {
				t.Errorf("%q: the query %q %q", panel.Title, target.RefID, target.Expr)
			}
			rows[target.RefID] = true
			for _, variable := range dashboardVariable.FindAllStringSubmatch(target.Expr, -1) {
				if !variables[variable[1]] {
					t.Errorf("%q: there is no variable %s", panel.Title, variable[0])
				}
			}
		}
	}
}
