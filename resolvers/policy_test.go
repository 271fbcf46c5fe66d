package resolvers

import (
	"testing"

	"tidings/services"
)

const displayPolicyFields = `{ sources { source inTotal style } quietHours { from to offsetMinutes } }`

func TestSetDisplayPolicy(t *testing.T) {
	a := newAPI(t)
	standard := a.must("bob", `{ viewer { displayPolicy `+displayPolicyFields+` badges { quiet } } }`, nil)
	if standard.valueAt("viewer", "displayPolicy", "sources", 0, "source") != "HOME_FEED" || standard.valueAt("viewer", "displayPolicy", "sources", 4, "style") != "NUMBER" ||
		standard.valueAt("viewer", "displayPolicy", "quietHours") != nil || standard.valueAt("viewer", "badges", "quiet") != false {
		t.Errorf("the standard is %+v", standard)
	}
	a.must("bob", `mutation { follow(input: {userId: "user:alice"}) { user { id } } }`, nil)
	a.publishPost("alice")
	a.RunAllJobs(a.Fanout)
	got := a.must("bob", `mutation { setDisplayPolicy(input: {
		sources: [{source: HOME_FEED, inTotal: false, style: DOT}, {source: CONVERSATIONS}], quietHours: {from: "12:00", to: "13:00"}
	}) { policy `+displayPolicyFields+` badges { quiet total { value display } homeFeed { value display inTotal } } } }`, nil)
	for _, want := range []struct {
		value any
		path  []any
	}{
		{false, []any{"policy", "sources", 0, "inTotal"}}, {"DOT", []any{"policy", "sources", 0, "style"}}, {true, []any{"policy", "sources", 4, "inTotal"}},
		{"12:00", []any{"policy", "quietHours", "from"}}, {0.0, []any{"policy", "quietHours", "offsetMinutes"}},
		{true, []any{"badges", "quiet"}}, {0.0, []any{"badges", "total", "value"}}, {"", []any{"badges", "homeFeed", "display"}},
		{1.0, []any{"badges", "homeFeed", "value"}}, {false, []any{"badges", "homeFeed", "inTotal"}},
	} {
		if value := got.valueAt(append([]any{"setDisplayPolicy"}, want.path...)...); value != want.value {
			t.Errorf("%v is %v, want %v", want.path, value, want.value)
		}
	}
}

func TestAPolicyForAnUnknownSourceIsRefused(t *testing.T) {
	a := newAPI(t)
	for what, input := range map[string]string{
		"an unknown source": `{sources: [{source: WEATHER, inTotal: false}]}`,
		"a source twice":    `{sources: [{source: HOME_FEED, inTotal: false}, {source: HOME_FEED, inTotal: true}]}`,
		"no time of a day":  `{sources: [{source: HOME_FEED, inTotal: false}], quietHours: {from: "25:00", to: "06:00"}}`,
		"no such offset":    `{quietHours: {from: "22:00", to: "06:00", offsetMinutes: 900}}`,
		"an unknown style":  `{sources: [{source: HOME_FEED, style: BLINKING}]}`,
	} {
		if got := a.askAs("bob", `mutation { setDisplayPolicy(input: `+input+`) { badges { version } } }`, nil); got.code() != services.Invalid {
			t.Errorf("%s: %+v", what, got)
		}
	}
	if got := a.must("bob", `{ viewer { displayPolicy `+displayPolicyFields+` } }`, nil); got.valueAt("viewer", "displayPolicy", "sources", 0, "inTotal") != true {
		t.Errorf("half of it was done: %+v", got)
	}
	if got := a.ask("", nil, `mutation { setDisplayPolicy(input: {}) { badges { version } } }`, nil); got.code() != services.Unauthenticated {
		t.Errorf("without a token: %+v", got)
	}
}
