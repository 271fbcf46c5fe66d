package rdb

import "testing"

func TestRegisteringAKeyPartTwicePanics(t *testing.T) {
	defer func(drop string, known []FeatureList, ends []string) {
		dropFromInboxScript.Source, registeredLists, leaseKeyParts = drop, known, ends
	}(dropFromInboxScript.Source, registeredLists, leaseKeyParts)
	for what, register := range map[string]func(){
		"list": func() {
			RegisterList(FeatureList{KeyPart: "w", Lua: "local function dropW() end", DropFunction: "dropW"})
		},
		"lease": func() { RegisterLeaseKey("x") },
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
