package faults

import (
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"tidings/services/jobs"
	"tidings/services/node"
	"tidings/services/redis/redistest"
	"tidings/services/sql/sqltest"
	"tidings/tests/eventually"
	"tidings/tests/world"
)

// startNodesWithClockAhead starts two nodes on one PostgreSQL and one Redis. The clock of the first node is right, and the clock of
// the second is ahead.
func startNodesWithClockAhead(t *testing.T, ahead time.Duration) (right, fast *world.Node) {
	t.Helper()
	database, redis := sqltest.Postgres(t), redistest.Redis(t)
	start := func(name string, ahead time.Duration) *world.Node {
		return world.StartNode(t, world.NodeOptions{Database: database, Redis: redis, ClockAhead: ahead, ChangeConfig: func(cfg *node.Config) { cfg.Node = name }})
	}
	right, fast = start("right", 0), start("fast", ahead)
	world.Eventually(t, world.DeviceUpdateTimeout, "both nodes know their clocks", func() bool {
		_, one := right.Projector.ClockAhead()
		_, other := fast.Projector.ClockAhead()
		return one && other
	})
	return right, fast
}

// Posts, follows and marks of feeds as seen are made through a node whose clock is a minute ahead. None of them hides posts that are
// published later through another node.
func TestAClockAheadHidesNoPosts(t *testing.T) {
	right, fast := startNodesWithClockAhead(t, time.Minute)
	right.Follow("alice", "bob")
	right.WaitNewPosts("alice", 0)
	last := ""
	for _, mark := range []struct {
		what string
		n    *world.Node
		upTo func() string
	}{
		{"everything, through the fast node", fast, func() string { return "" }},
		{"everything, through the right node", right, func() string { return "" }},
		{"the newest, through the fast node", fast, func() string { return last }},
	} {
		last = fast.Publish("bob", "by the fast clock")
		right.WaitNewPosts("alice", 1)
		mark.n.MarkFeedSeen("alice", mark.upTo())
		right.WaitNewPosts("alice", 0)
		next := right.Publish("bob", "afterwards")
		if next <= last {
			t.Errorf("%s: what was published next is %s, before it %s", mark.what, next, last)
		}
		right.WaitNewPosts("alice", 1)
		fast.WaitNewPosts("alice", 1)
		if page := right.ReadFeedPage("alice", 1, "", ""); page.Ids()[0] != next {
			t.Errorf("%s: the newest is %v, want %s", mark.what, page.Ids(), next)
		}
		right.MarkFeedSeen("alice", "")
	}
	fast.Follow("carol", "bob")
	right.Publish("bob", "after the follow")
	right.WaitNewPosts("carol", 1)

	add := func(n *world.Node, item string) {
		n.MustAsk("host:ingest", `mutation($i:String!,$at:Time!){addViewItem(input:{code:"news",key:"x",item:$i,at:$at}){__typename}}`,
			map[string]any{"i": item, "at": right.Clock.Now().UTC().Format(time.RFC3339Nano)}, nil)
	}
	unread := func(n *world.Node) int {
		var data struct {
			Viewer struct {
				Views struct {
					Edges []struct{ Node struct{ Unread world.Count } }
				}
			}
		}
		n.MustAsk("alice", `{viewer{views(codes:["news"]){edges{node{unread{value}}}}}}`, nil, &data)
		return data.Viewer.Views.Edges[0].Node.Unread.Value
	}
	add(right, "one")
	fast.MustAsk("alice", `mutation{touchView(input:{code:"news",key:"x"}){__typename}}`, nil, nil)
	add(right, "two")
	world.Eventually(t, world.DeviceUpdateTimeout, "alice has one unread item", func() bool { return unread(right) == 1 })
}

// A node reports the offset of its clock, and takes no traffic if the offset is more than two seconds.
func TestANodeReportsItsClockOffset(t *testing.T) {
	right, fast := startNodesWithClockAhead(t, time.Minute)
	world.Eventually(t, world.DeviceUpdateTimeout, "the right one is ready", func() bool {
		status, text := right.Readyz()
		return status == http.StatusOK && strings.Contains(text, "clock is")
	})
	if status, text := fast.Readyz(); status != http.StatusServiceUnavailable || !strings.Contains(text, "ahead of the database's") {
		t.Errorf("a minute ahead: %d %q", status, text)
	}
	if ahead, _ := fast.Projector.ClockAhead(); ahead < 55*time.Second || ahead > 65*time.Second {
		t.Errorf("a minute ahead is said to be %s", ahead)
	}
	response, err := http.Get(fast.URL + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if text, err := io.ReadAll(response.Body); err != nil || !strings.Contains(string(text), "tidings_clock_ahead_seconds ") {
		t.Errorf("the metrics lack the clock, %v", err)
	}
	fast.Clock.Advance(-2 * time.Minute)
	world.Eventually(t, 30*time.Second, "a clock that is behind is noticed", func() bool {
		status, text := fast.Readyz()
		return status == http.StatusServiceUnavailable && strings.Contains(text, "behind the database's")
	})
	fast.Clock.Advance(time.Minute)
	world.Eventually(t, 30*time.Second, "a clock that is right again is taken for it", func() bool {
		status, _ := fast.Readyz()
		return status == http.StatusOK
	})
}

// A node's clock is ten minutes ahead, and then it is set back. What was made before then does not count as from the future: posts can be
// marked as seen, sessions of the live board go on, shows end, and new posts come after earlier ones.
func TestAClockSetBackLeavesNothingInTheFuture(t *testing.T) {
	n := world.StartNode(t, world.NodeOptions{Database: sqltest.SQLite(t), Redis: "embedded", ClockAhead: 10 * time.Minute})
	n.Follow("alice", "bob")
	var made struct {
		ScheduleShow struct{ Show struct{ ID string } }
	}
	n.MustAsk("bob", `mutation($at:Time!){scheduleShow(input:{title:"t",plannedAt:$at}){show{id}}}`,
		map[string]any{"at": n.Clock.Now().Add(time.Hour).UTC().Format(time.RFC3339)}, &made)
	show := map[string]any{"s": made.ScheduleShow.Show.ID}
	n.MustAsk("bob", `mutation($s:ID!){startShow(input:{showId:$s}){show{id}}}`, show, nil)
	reportedAt := n.Clock.Now().UTC().Format(time.RFC3339Nano)
	post := n.Publish("bob", "one")
	n.WaitNewPosts("alice", 1)
	var board struct {
		Viewer struct{ LiveBoard struct{ SessionID string } }
	}
	n.MustAsk("alice", `{viewer{liveBoard(first:5){sessionId}}}`, nil, &board)

	n.Clock.Advance(-10 * time.Minute)
	n.MarkFeedSeen("alice", post)
	n.WaitNewPosts("alice", 0)
	if next := n.Publish("bob", "two"); next <= post {
		t.Errorf("%s was published after %s", next, post)
	}
	n.WaitNewPosts("alice", 1)
	n.MustAsk("alice", `query($s:String){viewer{liveBoard(first:5,sessionId:$s){sessionId}}}`, map[string]any{"s": board.Viewer.LiveBoard.SessionID}, nil)
	n.MustAsk("host:ingest", `mutation($at:Time!){addViewItem(input:{code:"news",key:"x",item:"i",at:$at}){__typename}}`, map[string]any{"at": reportedAt}, nil)
	n.MustAsk("bob", `mutation($s:ID!){endShow(input:{showId:$s}){show{id}}}`, show, nil)
}

// The clocks of two nodes are ahead of the database's by the same time, and one node learns this first. It must not reject the session
// IDs that the other node makes meanwhile as IDs from the future.
func TestASessionOfANodeThatDoesNotKnowItsClockYet(t *testing.T) {
	database, redis := sqltest.Postgres(t), redistest.Redis(t)
	start := func(name string) *world.Node {
		return world.StartNode(t, world.NodeOptions{Database: database, Redis: redis, ManualStepping: true, ClockAhead: 4 * time.Minute, ChangeConfig: func(cfg *node.Config) { cfg.Node = name }})
	}
	ignorant, knows := start("a"), start("b")
	ignorant.Follow("reader", "host")
	for hours := range 3 {
		ignorant.ScheduleShow("host", "show", ignorant.Clock.Now().Add(time.Duration(hours+1)*time.Hour))
	}
	ignorant.RunJobs()
	if err := ignorant.Live.Memory.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := jobs.RecordHeartbeat(t.Context(), ignorant.DB, false); err != nil {
		t.Fatal(err)
	}
	eventually.SucceedsDespiteTimeouts(t, func() error { return knows.Jobs.Heartbeat().RunOnce(t.Context()) })
	if ahead, known := knows.Projector.ClockAhead(); !known || ahead < 3*time.Minute {
		t.Fatalf("a clock that is ahead by four minutes is said to be by %s, %t", ahead, known)
	}
	first := ignorant.ReadBoardPage("reader", 1, world.BoardPageStart{})
	for _, byCursor := range []bool{true, false} {
		if next := knows.ReadBoardPage("reader", 1, first.NextPageStart(byCursor)); next.SessionID != first.SessionID || len(next.Edges) != 1 {
			t.Errorf("the second page: %+v", next)
		}
	}
}
