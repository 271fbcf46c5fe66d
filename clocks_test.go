package main

import (
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/rdb/rdbtest"
	"tidings/services/store/storetest"
)

// stepClock is the machine's clock and what a test has let pass besides.
type stepClock struct{ ahead atomic.Int64 }

func (c *stepClock) Now() time.Time          { return time.Now().Add(time.Duration(c.ahead.Load())) }
func (c *stepClock) advance(d time.Duration) { c.ahead.Add(int64(d)) }

// clocks are two nodes on one PostgreSQL and one Redis: the clock of one is right, that of the other ahead.
func clocks(t *testing.T, ahead time.Duration) (right, fast *node) {
	t.Helper()
	database, redis := storetest.Postgres(t), rdbtest.Redis(t)
	start := func(name string, ahead time.Duration) *node {
		return startNode(t, nodeOptions{database: database, redis: redis, ahead: ahead, change: func(cfg *Config) { cfg.Node = name }})
	}
	right, fast = start("right", 0), start("fast", ahead)
	eventually(t, soon, "both nodes know their clocks", func() bool {
		_, one := right.fanout.ClockAhead()
		_, other := fast.fanout.ClockAhead()
		return one && other
	})
	return right, fast
}

// shows waits until somebody has so many new posts, exactly.
func (n *node) showsNew(as string, want int) {
	n.tb.Helper()
	var got count
	eventually(n.tb, 30*time.Second, as+" has the new posts", func() bool {
		var data struct {
			Viewer struct{ Badges struct{ HomeFeed count } }
		}
		n.must(as, `{viewer{badges{homeFeed{value precision}}}}`, nil, &data)
		got = data.Viewer.Badges.HomeFeed
		return got.Value == want && got.Precision == string(services.Exact)
	})
}

// What a node whose clock is a minute ahead publishes, marks and follows hides nothing that is published next by another.
func TestAClockThatIsAheadHidesNothing(t *testing.T) {
	right, fast := clocks(t, time.Minute)
	right.follow("alice", "bob")
	right.showsNew("alice", 0)
	last := ""
	for _, mark := range []struct {
		what string
		n    *node
		upTo func() string
	}{
		{"everything, through the fast node", fast, func() string { return "" }},
		{"everything, through the right node", right, func() string { return "" }},
		{"the newest, through the fast node", fast, func() string { return last }},
	} {
		last = fast.publish("bob", "by the fast clock")
		right.showsNew("alice", 1)
		mark.n.markFeedSeen("alice", mark.upTo())
		right.showsNew("alice", 0)
		next := right.publish("bob", "afterwards")
		if next <= last {
			t.Errorf("%s: what was published next is %s, before it %s", mark.what, next, last)
		}
		right.showsNew("alice", 1)
		fast.showsNew("alice", 1)
		if page := right.page("alice", 1, "", ""); page.ids()[0] != next {
			t.Errorf("%s: the newest is %v, want %s", mark.what, page.ids(), next)
		}
		right.markFeedSeen("alice", "")
	}
	fast.follow("carol", "bob")
	right.publish("bob", "after the follow")
	right.showsNew("carol", 1)

	add := func(n *node, item string) {
		n.must("host:ingest", `mutation($i:String!,$at:Time!){addViewItem(input:{code:"news",id:"x",item:$i,at:$at}){__typename}}`,
			map[string]any{"i": item, "at": right.clock.Now().UTC().Format(time.RFC3339Nano)}, nil)
	}
	unread := func(n *node) int {
		var data struct {
			Viewer struct {
				Views struct {
					Edges []struct{ Node struct{ Unread count } }
				}
			}
		}
		n.must("alice", `{viewer{views(codes:["news"]){edges{node{unread{value}}}}}}`, nil, &data)
		return data.Viewer.Views.Edges[0].Node.Unread.Value
	}
	add(right, "one")
	fast.must("alice", `mutation{touchView(input:{code:"news",id:"x"}){__typename}}`, nil, nil)
	add(right, "two")
	eventually(t, soon, "alice has one unread item", func() bool { return unread(right) == 1 })
}

// readyz asks a node whether it takes traffic.
func (n *node) readyz() (status int, text string) {
	n.tb.Helper()
	response, err := http.Get(n.url + "/readyz")
	if err != nil {
		n.tb.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		n.tb.Fatal(err)
	}
	return response.StatusCode, string(body)
}

// A node says by how much its clock is off, and takes no traffic when that is more than two seconds.
func TestANodeSaysHowFarItsClockIsOff(t *testing.T) {
	right, fast := clocks(t, time.Minute)
	eventually(t, soon, "the right one is ready", func() bool {
		status, text := right.readyz()
		return status == http.StatusOK && strings.Contains(text, "clock is")
	})
	if status, text := fast.readyz(); status != http.StatusServiceUnavailable || !strings.Contains(text, "ahead of the database's") {
		t.Errorf("a minute ahead: %d %q", status, text)
	}
	if ahead, _ := fast.fanout.ClockAhead(); ahead < 55*time.Second || ahead > 65*time.Second {
		t.Errorf("a minute ahead is said to be %s", ahead)
	}
	response, err := http.Get(fast.url + "/metrics")
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = response.Body.Close() }()
	if text, err := io.ReadAll(response.Body); err != nil || !strings.Contains(string(text), "tidings_clock_ahead_seconds ") {
		t.Errorf("the metrics lack the clock, %v", err)
	}
	fast.clock.advance(-2 * time.Minute)
	eventually(t, 30*time.Second, "a clock that is behind is noticed", func() bool {
		status, text := fast.readyz()
		return status == http.StatusServiceUnavailable && strings.Contains(text, "behind the database's")
	})
	fast.clock.advance(time.Minute)
	eventually(t, 30*time.Second, "a clock that is right again is taken for it", func() bool {
		status, _ := fast.readyz()
		return status == http.StatusOK
	})
}

// A clock that was ahead and is set back leaves nothing in the future: posts can be marked, sessions of the board go on, shows
// end, and what is published next comes after what was.
func TestAClockThatIsSetBackLeavesNothingInTheFuture(t *testing.T) {
	n := startNode(t, nodeOptions{database: storetest.SQLite(t), redis: "embedded", ahead: 10 * time.Minute})
	n.follow("alice", "bob")
	var made struct {
		ScheduleShow struct{ Show struct{ ID string } }
	}
	n.must("bob", `mutation($at:Time!){scheduleShow(input:{title:"t",plannedAt:$at}){show{id}}}`,
		map[string]any{"at": n.clock.Now().Add(time.Hour).UTC().Format(time.RFC3339)}, &made)
	show := map[string]any{"s": made.ScheduleShow.Show.ID}
	n.must("bob", `mutation($s:ID!){startShow(input:{showId:$s}){show{id}}}`, show, nil)
	told := n.clock.Now().UTC().Format(time.RFC3339Nano)
	post := n.publish("bob", "one")
	n.showsNew("alice", 1)
	var board struct {
		Viewer struct{ LiveBoard struct{ SessionID string } }
	}
	n.must("alice", `{viewer{liveBoard(first:5){sessionId}}}`, nil, &board)

	n.clock.advance(-10 * time.Minute)
	n.markFeedSeen("alice", post)
	n.showsNew("alice", 0)
	if next := n.publish("bob", "two"); next <= post {
		t.Errorf("%s was published after %s", next, post)
	}
	n.showsNew("alice", 1)
	n.must("alice", `query($s:String){viewer{liveBoard(first:5,sessionId:$s){sessionId}}}`, map[string]any{"s": board.Viewer.LiveBoard.SessionID}, nil)
	n.must("host:ingest", `mutation($at:Time!){addViewItem(input:{code:"news",id:"x",item:"i",at:$at}){__typename}}`, map[string]any{"at": told}, nil)
	n.must("bob", `mutation($s:ID!){endShow(input:{showId:$s}){show{id}}}`, show, nil)
}

// Where the clocks of all nodes are ahead alike, one learns of it first: what the others make until they do is not of the
// future for it.
func TestASessionOfANodeThatDoesNotKnowItsClockYet(t *testing.T) {
	database, redis := storetest.Postgres(t), rdbtest.Redis(t)
	start := func(name string) *node {
		return startNode(t, nodeOptions{database: database, redis: redis, manual: true, ahead: 4 * time.Minute, change: func(cfg *Config) { cfg.Node = name }})
	}
	ignorant, knows := start("a"), start("b")
	ignorant.follow("reader", "host")
	for hours := range 3 {
		ignorant.schedule("host", "show", ignorant.clock.Now().Add(time.Duration(hours+1)*time.Hour))
	}
	ignorant.dueJobs()
	if err := ignorant.memory.Shows.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := ignorant.store.Beat(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := knows.jobs.Heartbeat().RunOnce(t.Context()); err != nil {
		t.Fatal(err)
	}
	if ahead, known := knows.fanout.ClockAhead(); !known || ahead < 3*time.Minute {
		t.Fatalf("a clock that is ahead by four minutes is said to be by %s, %t", ahead, known)
	}
	first := ignorant.board("reader", 1, boardPlace{})
	for _, byCursor := range []bool{true, false} {
		if next := knows.board("reader", 1, first.next(byCursor)); next.SessionID != first.SessionID || len(next.Edges) != 1 {
			t.Errorf("the second page: %+v", next)
		}
	}
}
