package services

import (
	"reflect"
	"testing"
	"time"
)

// testLimits are settings within testSettings.
type testLimits struct {
	Depth int `default:"12" min:"1"`
}

// testSettings have a field of each type and each kind of zero.
type testSettings struct {
	Scope   string        `default:"request"`
	Types   []string      `default:"general,billing"`
	Timeout time.Duration `default:"5s" min:"100ms"`
	Bytes   int64         `default:"65536" min:"1024"`
	Sockets int           `default:"50" min:"0"`
	Drain   time.Duration `default:"8s" min:"0s"`
	Key     string
	Always  bool
	Limits  testLimits
}

func TestWithDefaultsFillsZeroesThatAreNoValues(t *testing.T) {
	given := testSettings{Scope: "user", Types: []string{"shop"}, Timeout: -time.Second, Bytes: 1, Sockets: 2, Drain: 3, Key: "k", Always: true, Limits: testLimits{4}}
	for name, c := range map[string]struct{ settings, want testSettings }{
		"Zero":      {testSettings{}, testSettings{Scope: "request", Types: []string{"general", "billing"}, Timeout: 5 * time.Second, Bytes: 64 << 10, Limits: testLimits{12}}},
		"EmptyList": {testSettings{Types: []string{}}, testSettings{Scope: "request", Types: []string{"general", "billing"}, Timeout: 5 * time.Second, Bytes: 64 << 10, Limits: testLimits{12}}},
		"Given":     {given, given},
	} {
		if got := WithDefaults(c.settings); !reflect.DeepEqual(got, c.want) {
			t.Errorf("%s: %+v, want %+v", name, got, c.want)
		}
	}
}
