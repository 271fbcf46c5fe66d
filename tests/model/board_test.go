package model

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"tidings/services/redis/redistest"
	"tidings/services/sql/sqltest"
	"tidings/tests/world"
)

// walkBoard reads the rest of a board page by page, from the nodes in turn.
func walkBoard(tb testing.TB, nodes []*world.Node, as string, first int, from world.BoardPlace) (lines []string) {
	tb.Helper()
	for i := 0; ; i++ {
		page := nodes[i%len(nodes)].ReadBoardPage(as, first, from)
		lines = append(lines, page.Lines()...)
		if !page.PageInfo.HasNextPage {
			return lines
		}
		from = page.Next(i%2 == 0)
	}
}

// The documented scenario of boards holds. It has four hosts, five shows, and a reader who takes the first page while one show
// is live and the second page after all positions have changed.
func TestTheDocumentedScenarioOfABoard(t *testing.T) {
	t.Run("one node, embedded", func(t *testing.T) {
		n := world.StartNode(t, world.NodeOptions{Database: sqltest.SQLite(t), Redis: "embedded"})
		tellStory(t, n, n)
	})
	t.Run("two nodes", func(t *testing.T) {
		p := world.StartPair(t, redistest.Redis(t), nil)
		tellStory(t, p.A, p.B)
	})
}

// tellStory plays the scenario. Both nodes act in turn, and each must show every board.
func tellStory(t *testing.T, here, there *world.Node) {
	nodes := []*world.Node{here, there}
	pass := func(d time.Duration) {
		for _, n := range slices.Compact(slices.Clone(nodes)) {
			n.Clock.Advance(d)
		}
	}
	hosts := map[string]string{"1": "ann", "2": "ben", "3": "cem", "4": "cem", "5": "dot"}
	shows := map[string]string{}
	begin := here.Clock.Now()
	for _, host := range []string{"ann", "ben", "cem", "dot"} {
		here.Follow("reader", host)
	}
	for i, title := range []string{"1", "2", "3", "4", "5"} {
		shows[title] = nodes[i%2].Schedule(hosts[title], title, begin.Add(time.Duration(i+1)*time.Hour))
	}
	do := func(verb string, titles ...string) {
		for i, title := range titles {
			pass(time.Second)
			nodes[i%2].MutateShow(hosts[title], verb, shows[title])
		}
	}
	// is waits until every node shows this board.
	is := func(what string, want ...string) {
		t.Helper()
		for i, n := range nodes {
			world.EventuallySucceeds(t, world.ConvergenceTimeout, func() error {
				if got := walkBoard(t, []*world.Node{n, nodes[1-i]}, "reader", 2, world.BoardPlace{}); !slices.Equal(got, want) {
					return fmt.Errorf("%s: node %d shows %v, want %v", what, i, got, want)
				}
				return nil
			})
		}
	}
	do("startShow", "3")
	is("T1", "3 LIVE", "1 UPCOMING", "2 UPCOMING", "4 UPCOMING", "5 UPCOMING")
	first := here.ReadBoardPage("reader", 2, world.BoardPlace{})
	if first.NewSession || !first.PageInfo.HasNextPage || first.End != nil {
		t.Fatalf("the first page: %+v", first)
	}
	pass(4 * time.Minute)
	do("startShow", "5")
	do("endShow", "3")
	is("T2", "5 LIVE", "1 UPCOMING", "2 UPCOMING", "4 UPCOMING", "3 REPLAY")
	pass(4 * time.Minute)
	do("startShow", "1", "2")
	do("endShow", "5")
	is("T3", "2 LIVE", "1 LIVE", "4 UPCOMING", "5 REPLAY", "3 REPLAY")
	pass(4 * time.Minute)
	do("startShow", "4")
	do("endShow", "1")
	is("T4", "4 LIVE", "2 LIVE", "1 REPLAY", "5 REPLAY", "3 REPLAY")
	for _, byCursor := range []bool{true, false} {
		second := there.ReadBoardPage("reader", 10, first.Next(byCursor))
		if want := []string{"2 UPCOMING", "4 UPCOMING", "5 UPCOMING"}; !slices.Equal(second.Lines(), want) || second.NewSession || second.SessionID != first.SessionID {
			t.Errorf("the second page at T4: %v, %+v, want %v", second.Lines(), second, want)
		}
		for _, edge := range second.Edges {
			if edge.StartedAt != nil || edge.EndedAt != nil {
				t.Errorf("a show that was upcoming then has the times of now: %+v", edge.Node)
			}
		}
	}
	if again := there.ReadBoardPage("reader", 2, world.BoardPlace{Session: first.SessionID}); !slices.Equal(again.Lines(), first.Lines()) {
		t.Errorf("the session from its top: %v, was %v", again.Lines(), first.Lines())
	}
	pass(4 * time.Minute)
	do("endShow", "4", "2")
	is("T5", "2 REPLAY", "4 REPLAY", "1 REPLAY", "5 REPLAY", "3 REPLAY")
}
