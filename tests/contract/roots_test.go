package contract

import (
	"strings"
	"testing"

	"tidings/services/node"
	"tidings/services/sql/sqltest"
	"tidings/tests/world"
)

// Operations that the executor would report as internal errors are refused earlier: introspection while it is off, also in a
// fragment, and a subscription with two fields.
func TestRootFieldsThatAreRefused(t *testing.T) {
	n := world.StartNode(t, world.NodeOptions{Database: sqltest.SQLite(t), Redis: "embedded", ChangeConfig: func(cfg *node.Config) { cfg.Introspection = "never" }})
	for query, want := range map[string][2]string{
		`{__schema{queryType{name}}}`:                                   {"FORBIDDEN", "--introspection"},
		`{a:__type(name:"Post"){name}}`:                                 {"FORBIDDEN", "--introspection"},
		`{...F} fragment F on Query{__schema{queryType{name}}}`:         {"FORBIDDEN", "--introspection"},
		`subscription{a:badgesChanged{version} badgesChanged{version}}`: {"INVALID", "1 root field"},
	} {
		got := n.Ask("alice", query, nil)
		if got.ErrorCode() != want[0] || len(got.Errors) == 0 || !strings.Contains(got.Errors[0].Message, want[1]) {
			t.Errorf("%s: %+v, want %v", query, got, want)
		}
	}
	if got := n.Ask("alice", `{__typename viewer{__typename}}`, nil); got.ErrorCode() != "" {
		t.Errorf("__typename: %+v", got.Errors)
	}
}
