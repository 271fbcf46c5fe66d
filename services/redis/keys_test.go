package redis

import "testing"

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
