package redis

import (
	"fmt"
	"strings"
	"testing"
)

func TestKeysOfAUserShareTheirTag(t *testing.T) {
	for got, want := range map[string]string{
		UserKey(0, ":b"):              "{u0}:b",
		UserKey(4_294_967_295, ":on"): "{u4294967295}:on",
		hintChannel("node-1"):         "node:node-1",
	} {
		if got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestAKeyIsOfTheFamilyOfItsPrefix(t *testing.T) {
	before := keyFamilies
	defer func() { keyFamilies = before }()
	shelf := RegisterKeys(KeyFamily{Prefix: "shelf:", MarkerMember: "!", MayBeOurs: func(rest string) bool { return rest != "" }})
	for key, ours := range map[string]bool{"shelf:a": true, "shelf:": false, "ashelf:a": false, "{u1}:b": false} {
		if family, found := FamilyOf(key); found != ours || found && family.MarkerMember != shelf.MarkerMember {
			t.Errorf("%q is ours: %t", key, found)
		}
	}
	defer func() {
		if what := fmt.Sprint(recover()); !strings.Contains(what, "shelf:") {
			t.Errorf("panic %q does not name the keys", what)
		}
	}()
	RegisterKeys(shelf)
}
