package rdb

import (
	"crypto/sha1"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"tidings/services/redis"
)

func TestAMissingScriptFilePanics(t *testing.T) {
	defer func() {
		if what := fmt.Sprint(recover()); !strings.Contains(what, "no_such_script") {
			t.Errorf("panic %q does not name the script", what)
		}
	}()
	loadScript("no_such_script")
}

// Every file that is not a library is a registered script: the helpers, possibly more parts, and the file.
func TestEveryScriptFileIsRegisteredAfterItsHelpers(t *testing.T) {
	files, err := luaFiles.ReadDir("lua")
	if err != nil {
		t.Fatal(err)
	}
	names := redis.ScriptNames()
	helpers := []string{"lib", "lib_named", "lib_inbox", "lib_count"}
	for _, file := range files {
		name := strings.TrimSuffix(file.Name(), ".lua")
		if strings.HasPrefix(name, "lib") {
			continue
		}
		registered := 0
		for _, parts := range [][]string{helpers, append(helpers, replaysLib), append(helpers, viewsLib), {"lib", "lib_conversations"}} {
			source := ""
			for _, part := range append(parts[:len(parts):len(parts)], name) {
				source += luaFile(part)
			}
			sum := sha1.Sum([]byte(source))
			if names[hex.EncodeToString(sum[:])] == name {
				registered++
			}
		}
		if registered != 1 {
			t.Errorf("%s is registered %d times, want once and after its helpers", name, registered)
		}
	}
}
