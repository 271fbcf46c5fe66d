package house

import (
	"os"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// settingsType matches the type of a package's settings.
var settingsType = regexp.MustCompile(`(?m)^type (\w*Settings) struct \{$`)

// The settings of each package are a field of node.Config: otherwise nothing would set them, and no help would have them. They are in
// the package's settings.go.
func TestTheSettingsOfEachPackageAreInTheConfig(t *testing.T) {
	config := readRepositoryFile(t, "services/node/config.go")
	listed := 0
	for pkg := range packageLayers {
		text, err := os.ReadFile("../../" + pkg + "/settings.go")
		if os.IsNotExist(err) || pkg == "services/command" {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range settingsType.FindAllStringSubmatch(string(text), -1) {
			listed++
			if field := path.Base(pkg) + "." + match[1]; !regexp.MustCompile(`\b` + field + ` +.embed:""`).MatchString(config) {
				t.Errorf("node.Config does not embed %s", field)
			}
		}
	}
	if fields := strings.Count(config, "`embed:"); listed < 20 || listed != fields {
		t.Errorf("%d types of settings are there, and node.Config embeds %d", listed, fields)
	}
}

// A package with defaults in tags takes them from there by services.WithDefaults. That it does not write them again is not checked here:
// TestSettingsThatAreLeftOutHaveTheDefaults compares the values. Those of the node and of commands are for the command line alone, and that of jobs is an argument.
func TestEachPackageTakesItsDefaultsFromTheTags(t *testing.T) {
	checked := 0
	for pkg := range packageLayers {
		text := packageText(t, pkg)
		if !strings.Contains(text, `default:"`) || slices.Contains([]string{"services/node", "services/command", "services/jobs"}, pkg) {
			continue
		}
		checked++
		if !strings.Contains(text, "services.WithDefaults(") {
			t.Errorf("%s does not call services.WithDefaults", pkg)
		}
	}
	if checked < 10 {
		t.Errorf("only %d packages have defaults", checked)
	}
}
