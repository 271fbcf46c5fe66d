package command

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// A deployment names no setting that the program does not have: it would be ignored silently.
func TestDeploymentsNameSettingsThatExist(t *testing.T) {
	known := map[string]bool{}
	for _, flag := range newParser(&commandLineGrammar{}, valueDecoder{}).Model.Flags {
		known[environmentVariable(flag)] = true
	}
	named := 0
	setting := regexp.MustCompile(`\b(TIDINGS_[A-Z_]+|DATABASE_URL|REDIS_URL)\b`)
	err := filepath.WalkDir("../../deploy", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		for _, name := range setting.FindAllString(string(text), -1) {
			named++
			if !known[name] {
				t.Errorf("%s: there is no setting %s", path, name)
			}
		}
		return err
	})
	if err != nil || named < 20 {
		t.Errorf("%d settings are named, %v", named, err)
	}
}
