package nodes

import (
	"testing"
	"time"

	"tidings/services/redis/redistest"
	"tidings/services/sql/sqltest"
	"tidings/tests/world"
)

// The mutations by which an operator sets the thresholds of modes, and pins the mode of an author.
const (
	setThresholdsMutation = `mutation($b:Int!,$h:Int!){r:setFanoutThresholds(input:{bigFollowers:$b,hugeFollowers:$h}){fanout{` + world.FanoutFields + `}}}`
	pinModeMutation       = `mutation($u:ID!,$m:AuthorMode){r:pinAuthorMode(input:{userId:$u,mode:$m}){author{` + world.AuthorAudienceFields + `}}}`
)

// While the node runs, an operator reads an author's mode, changes the thresholds of followers from which authors are big and huge, and
// pins the author's mode.
func TestOperatorsSetTheFanOutModeOfAuthors(t *testing.T) {
	n := world.StartNode(t, world.NodeOptions{Database: sqltest.SQLite(t), Redis: "embedded"})
	for _, reader := range []string{"one", "two", "three"} {
		n.Follow(reader, "author")
	}
	if got := n.AuthorAudience("author"); got.User.ID != "user:author" || got.Followers != 3 || got.Mode != "SMALL" || got.Pinned != nil {
		t.Errorf("the author is %+v", got)
	}
	if got := n.FanoutState(); got.BigFollowers != 5000 || got.HugeFollowers != 1_000_000 {
		t.Errorf("the state is %+v", got)
	}
	becomes := func(what, mode string) {
		t.Helper()
		world.Eventually(t, time.Minute, what, func() bool { return n.AuthorAudience("author").Mode == mode })
	}
	n.MustAsk("root:admin", setThresholdsMutation, map[string]any{"b": 2, "h": 10}, nil)
	if got := n.FanoutState(); got.BigFollowers != 2 || got.HugeFollowers != 10 {
		t.Errorf("the state after it was set is %+v", got)
	}
	becomes("the thresholds make the author big", "BIG")
	for _, mode := range []string{"HUGE", "SMALL"} {
		var data struct {
			R struct{ Author world.AuthorAudience }
		}
		n.MustAsk("root:admin", pinModeMutation, map[string]any{"u": "user:author", "m": mode}, &data)
		if got := data.R.Author; got.Pinned == nil || *got.Pinned != mode {
			t.Errorf("pinned as %s the author is %+v", mode, got)
		}
		becomes("the pin holds", mode)
	}
	n.MustAsk("root:admin", pinModeMutation, map[string]any{"u": "user:author", "m": nil}, nil)
	becomes("the mode follows the number of followers again", "BIG")
	n.Publish("author", "a post")
	world.Eventually(t, time.Minute, "the posts are delivered and counted", func() bool { return n.Metric("tidings_fanout_delivered_total") >= 3 })
	world.Eventually(t, time.Minute, "nothing is on its way", func() bool {
		return n.Metric("tidings_fanout_waiting") == 0 && n.Metric("tidings_fanout_lag_seconds") == 0 && n.FanoutState().LagMs == 0
	})
}

// Requests of operators that are invalid, and those of users without the scope admin, are refused and change nothing.
func TestInvalidRequestsOfOperators(t *testing.T) {
	n := world.StartNode(t, world.NodeOptions{Database: sqltest.SQLite(t), Redis: "embedded"})
	n.Follow("reader", "author")
	for _, c := range []struct {
		as, query string
		variables map[string]any
		code      string
	}{
		{"root:admin", setThresholdsMutation, map[string]any{"b": 0, "h": 10}, "INVALID"},
		{"root:admin", setThresholdsMutation, map[string]any{"b": 11, "h": 10}, "INVALID"},
		{"root:admin", setThresholdsMutation, map[string]any{"b": -1, "h": -1}, "INVALID"},
		{"author", setThresholdsMutation, map[string]any{"b": 1, "h": 10}, "FORBIDDEN"},
		{"root:ingest", setThresholdsMutation, map[string]any{"b": 1, "h": 10}, "FORBIDDEN"},
		{"", setThresholdsMutation, map[string]any{"b": 1, "h": 10}, "UNAUTHENTICATED"},
		{"root:admin", pinModeMutation, map[string]any{"u": "user:nobody", "m": "HUGE"}, "NOT_FOUND"},
		{"root:admin", pinModeMutation, map[string]any{"u": "author", "m": "HUGE"}, "INVALID"},
		{"author", pinModeMutation, map[string]any{"u": "user:author", "m": "HUGE"}, "FORBIDDEN"},
		{"", pinModeMutation, map[string]any{"u": "user:author", "m": "HUGE"}, "UNAUTHENTICATED"},
		{"root:admin", `{admin{author(userId:"user:nobody"){mode}}}`, nil, "NOT_FOUND"},
		{"author", `{admin{author(userId:"user:author"){mode}}}`, nil, "FORBIDDEN"},
		{"author", `{admin{fanout{waiting}}}`, nil, "FORBIDDEN"},
	} {
		if got := n.Ask(c.as, c.query, c.variables).ErrorCode(); got != c.code {
			t.Errorf("%s asks %s %v: %q, want %s", c.as, c.query, c.variables, got, c.code)
		}
	}
	if got := n.FanoutState(); got.BigFollowers != 5000 || got.HugeFollowers != 1_000_000 {
		t.Errorf("a refused change left %+v", got)
	}
	if got := n.AuthorAudience("author"); got.Mode != "SMALL" || got.Pinned != nil {
		t.Errorf("a refused pin left %+v", got)
	}
}

// An admin sets when users count as idle and dormant, while the nodes run; no other scope may.
func TestActivityThresholdsAreSetAtRuntime(t *testing.T) {
	const set = `mutation($i:Int!,$d:Int!){setActivityThresholds(input:{idleAfterHours:$i,dormantAfterHours:$d}){activity{idleAfterHours dormantAfterHours}}}`
	type hours struct{ IdleAfterHours, DormantAfterHours int }
	p := world.StartNodePair(t, redistest.Redis(t), nil)
	held := func(n *world.Node) hours {
		var data struct{ Admin struct{ Activity hours } }
		n.MustAsk("root:admin", `{admin{activity{idleAfterHours dormantAfterHours}}}`, nil, &data)
		return data.Admin.Activity
	}
	if got := held(p.B); got != (hours{7 * 24, 30 * 24}) {
		t.Errorf("as configured: %+v", got)
	}
	p.A.MustAsk("root:admin", set, map[string]any{"i": 48, "d": 72}, nil)
	world.Eventually(t, world.DeviceUpdateTimeout, "the other node goes by the thresholds", func() bool { return held(p.B) == hours{48, 72} && held(p.A) == hours{48, 72} })
	for _, refused := range []struct {
		as         string
		idle, dorm int
		code       string
	}{{"alice", 48, 72, "FORBIDDEN"}, {"root:admin", 0, 72, "INVALID"}, {"root:admin", 73, 72, "INVALID"}, {"root:admin", 48, 8761, "INVALID"}} {
		if got := p.A.Ask(refused.as, set, map[string]any{"i": refused.idle, "d": refused.dorm}); got.ErrorCode() != refused.code {
			t.Errorf("%+v: %s %v", refused, got.ErrorCode(), got.Errors)
		}
	}
}
