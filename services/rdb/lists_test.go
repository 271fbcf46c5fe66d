package rdb

import "testing"

func TestAPartOfUsersKeysIsRegisteredOnce(t *testing.T) {
	defer func(drop string, known []List, ends []string) {
		inboxDrop.Source, lists, leaseParts = drop, known, ends
	}(inboxDrop.Source, lists, leaseParts)
	for what, register := range map[string]func(){
		"list":  func() { RegisterList(List{Part: "w", Lua: "local function dropW() end", Drop: "dropW"}) },
		"lease": func() { RegisterLease("x") },
	} {
		panics := func() (panicked bool) {
			defer func() { panicked = recover() != nil }()
			register()
			return false
		}
		if panics() || !panics() {
			t.Errorf("a %s is not registered exactly once", what)
		}
	}
}
