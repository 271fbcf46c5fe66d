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

// readRestOfBoard reads a board from a position to its end, page by page, through the nodes in turn. It returns a line with the title and
// status of each show.
func readRestOfBoard(tb testing.TB, nodes []*world.Node, as string, first int, from world.BoardPageStart) (lines []string) {
	tb.Helper()
	for i := 0; ; i++ {
		page := nodes[i%len(nodes)].ReadBoardPage(as, first, from)
		lines = append(lines, page.TitleStatusLines()...)
		if !page.PageInfo.HasNextPage {
			return lines
		}
		from = page.NextPageStart(i%2 == 0)
	}
}

// boardLines returns a line for each show of a page: its title, status and times.
func boardLines(page world.BoardPage) []string {
	lines := make([]string, len(page.Edges))
	for i, edge := range page.Edges {
		lines[i] = edge.Node.Title + " " + edge.Status
		for _, at := range []*time.Time{edge.PlannedAt, edge.StartedAt, edge.EndedAt} {
			if at != nil {
				lines[i] += " " + at.UTC().Format(time.RFC3339Nano)
			}
		}
	}
	return lines
}

// A reader takes the first page of a board with five shows of four hosts while one show is live, and the second page after all positions
// have changed. Both pages show the board as it was when the session began.
func TestTheDocumentedScenarioOfABoard(t *testing.T) {
	t.Run("one node, embedded", func(t *testing.T) {
		n := world.StartNode(t, world.NodeOptions{Database: sqltest.SQLite(t), Redis: "embedded"})
		playBoardScenario(t, n, n)
	})
	t.Run("two nodes", func(t *testing.T) {
		p := world.StartNodePair(t, redistest.Redis(t), nil)
		playBoardScenario(t, p.A, p.B)
	})
}

// playBoardScenario runs the scenario of TestTheDocumentedScenarioOfABoard. Requests go to both nodes in turn, and each must show the
// same boards.
func playBoardScenario(t *testing.T, here, there *world.Node) {
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
		shows[title] = nodes[i%2].ScheduleShow(hosts[title], title, begin.Add(time.Duration(i+1)*time.Hour))
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
			world.EventuallySucceeds(t, world.RedisLossRecoveryTimeout, func() error {
				if got := readRestOfBoard(t, []*world.Node{n, nodes[1-i]}, "reader", 2, world.BoardPageStart{}); !slices.Equal(got, want) {
					return fmt.Errorf("%s: node %d shows %v, want %v", what, i, got, want)
				}
				return nil
			})
		}
	}
	do("startShow", "3")
	is("T1", "3 LIVE", "1 UPCOMING", "2 UPCOMING", "4 UPCOMING", "5 UPCOMING")
	first := here.ReadBoardPage("reader", 2, world.BoardPageStart{})
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
		second := there.ReadBoardPage("reader", 10, first.NextPageStart(byCursor))
		if want := []string{"2 UPCOMING", "4 UPCOMING", "5 UPCOMING"}; !slices.Equal(second.TitleStatusLines(), want) || second.NewSession || second.SessionID != first.SessionID {
			t.Errorf("the second page at T4: %v, %+v, want %v", second.TitleStatusLines(), second, want)
		}
		for _, edge := range second.Edges {
			if edge.StartedAt != nil || edge.EndedAt != nil {
				t.Errorf("a show that was upcoming then has the times of now: %+v", edge.Node)
			}
		}
	}
	if again := there.ReadBoardPage("reader", 2, world.BoardPageStart{Session: first.SessionID}); !slices.Equal(again.TitleStatusLines(), first.TitleStatusLines()) {
		t.Errorf("the session from its top: %v, was %v", again.TitleStatusLines(), first.TitleStatusLines())
	}
	pass(4 * time.Minute)
	do("endShow", "4", "2")
	is("T5", "2 REPLAY", "4 REPLAY", "1 REPLAY", "5 REPLAY", "3 REPLAY")
}
