package redis

import (
	"fmt"
	"strings"
	"testing"
	"testing/fstest"
)

func TestAScriptStandsAfterTheLibraryAndItsParts(t *testing.T) {
	before := len(registeredScripts)
	defer func() { registeredScripts = registeredScripts[:before] }()
	files := ScriptFiles{fstest.MapFS{
		"lua/lib_one.lua": {Data: []byte("local one = 1")}, "lua/test_sum.lua": {Data: []byte("return one + (now() > 0 and 1 or 0)")},
	}}
	script := files.Load("test_sum", "lib_one")
	if rest, found := strings.CutPrefix(script.Source, sharedLua); !found || rest != "local one = 1\nreturn one + (now() > 0 and 1 or 0)\n" {
		t.Errorf("the source is %q", script.Source)
	}
	replies, err := connect(t, Options{URL: "embedded"}).Run(t.Context(), script, []ScriptCall{{Keys: []string{"k"}}})
	if err != nil || replies[0].Value != int64(2) {
		t.Errorf("%v, %v", replies, err)
	}
}

func TestAMissingScriptFilePanics(t *testing.T) {
	defer func() {
		if what := fmt.Sprint(recover()); !strings.Contains(what, "no_such_script") {
			t.Errorf("panic %q does not name the script", what)
		}
	}()
	ScriptFiles{fstest.MapFS{}}.Load("no_such_script")
}

// Without a function of SetEmptyKeysFunc, a key of the wrong type is deleted alone.
func TestAKeyOfTheWrongTypeIsDeletedAndTriedAgain(t *testing.T) {
	c := connect(t, Options{URL: "embedded"})
	for range 2 {
		if err := c.Commands().LPush(t.Context(), "{u1}:set", "not a set").Err(); err != nil {
			t.Fatal(err)
		}
		replies, err := c.Change(t.Context(), addMemberScript, addMemberCalls(2, 2))
		if err != nil || replies[0].Err != nil || replies[1].Value != int64(1) {
			t.Errorf("%v, %v", replies, err)
		}
		if err := c.Delete(t.Context(), "{u0}:set", "{u1}:set"); err != nil {
			t.Fatal(err)
		}
	}
}
