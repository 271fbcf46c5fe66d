package main

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"tidings/services/rdb/rdbtest"
	"tidings/services/store/storetest"
)

// boardPage is a page of a live board as a client sees it.
type boardPage struct {
	Edges []struct {
		Cursor string
		Node   boardShow
	}
	PageInfo struct {
		HasNextPage bool
		EndCursor   *string
	}
	SessionID            string
	LastID, End          *string
	NewSession, Building bool
}

// boardShow is a show as a client sees it.
type boardShow struct {
	ID, Title, Status             string
	Host                          struct{ Key string }
	PlannedAt, StartedAt, EndedAt *time.Time
}

func (p boardPage) ids() []string {
	ids := make([]string, len(p.Edges))
	for i, edge := range p.Edges {
		ids[i] = edge.Node.ID
	}
	return ids
}

// lines are the titles of a page with their statuses.
func (p boardPage) lines() []string {
	lines := make([]string, len(p.Edges))
	for i, edge := range p.Edges {
		lines[i] = edge.Node.Title + " " + edge.Node.Status
	}
	return lines
}

const showFields = `id title status host{key} plannedAt startedAt endedAt`

const boardQuery = `query($first:Int,$after:String,$session:String,$last:ID){viewer{liveBoard(first:$first,after:$after,sessionId:$session,lastId:$last){
	edges{cursor node{` + showFields + `}} pageInfo{hasNextPage endCursor} sessionId lastId newSession end building}}}`

// boardPlace is where a page of a board starts; what is "" is left out.
type boardPlace struct{ after, session, last string }

func (p boardPlace) variables(first int) map[string]any {
	variables := map[string]any{"first": first}
	for name, value := range map[string]string{"after": p.after, "session": p.session, "last": p.last} {
		if value != "" {
			variables[name] = value
		}
	}
	return variables
}

// board reads a page of a board.
func (n *node) board(as string, first int, from boardPlace) boardPage {
	n.tb.Helper()
	var data struct{ Viewer struct{ LiveBoard boardPage } }
	n.must(as, boardQuery, from.variables(first), &data)
	return data.Viewer.LiveBoard
}

// next is where the page after this one starts, by its cursor or by its session.
func (p boardPage) next(byCursor bool) boardPlace {
	if byCursor {
		return boardPlace{after: *p.PageInfo.EndCursor}
	}
	return boardPlace{session: p.SessionID, last: *p.LastID}
}

// walkBoard reads the rest of a board page by page, on several nodes by turns.
func walkBoard(tb testing.TB, nodes []*node, as string, first int, from boardPlace) (lines []string) {
	tb.Helper()
	for i := 0; ; i++ {
		page := nodes[i%len(nodes)].board(as, first, from)
		lines = append(lines, page.lines()...)
		if !page.PageInfo.HasNextPage {
			return lines
		}
		from = page.next(i%2 == 0)
	}
}

// schedule plans a show and answers its id.
func (n *node) schedule(host, title string, at time.Time) string {
	n.tb.Helper()
	var data struct {
		ScheduleShow struct{ Show struct{ ID string } }
	}
	n.must(host, `mutation($t:String!,$at:Time!){scheduleShow(input:{title:$t,plannedAt:$at}){show{id}}}`, map[string]any{"t": title, "at": at}, &data)
	return data.ScheduleShow.Show.ID
}

// onShow does something to a show: startShow, endShow, cancelShow.
func (n *node) onShow(host, verb, show string) {
	n.tb.Helper()
	n.must(host, `mutation($s:ID!){r:`+verb+`(input:{showId:$s}){show{id}}}`, map[string]any{"s": show}, nil)
}

// The story that boards are made for: four hosts, five shows, and a reader who takes the first page while one runs and
// turns to the second when everything stands elsewhere.
func TestTheStoryOfABoard(t *testing.T) {
	t.Run("one node, embedded", func(t *testing.T) {
		n := startNode(t, nodeOptions{database: storetest.SQLite(t), redis: "embedded"})
		tellStory(t, n, n)
	})
	t.Run("two nodes", func(t *testing.T) {
		p := startPair(t, rdbtest.Redis(t), nil)
		tellStory(t, p.a, p.b)
	})
}

func tellStory(t *testing.T, here, there *node) {
	nodes := []*node{here, there}
	pass := func(d time.Duration) {
		for _, n := range slices.Compact(slices.Clone(nodes)) {
			n.clock.advance(d)
		}
	}
	hosts := map[string]string{"1": "ann", "2": "ben", "3": "cem", "4": "cem", "5": "dot"}
	shows := map[string]string{}
	begin := here.clock.Now()
	for _, host := range []string{"ann", "ben", "cem", "dot"} {
		here.follow("reader", host)
	}
	for i, title := range []string{"1", "2", "3", "4", "5"} {
		shows[title] = nodes[i%2].schedule(hosts[title], title, begin.Add(time.Duration(i+1)*time.Hour))
	}
	do := func(verb string, titles ...string) {
		for i, title := range titles {
			pass(time.Second)
			nodes[i%2].onShow(hosts[title], verb, shows[title])
		}
	}
	// The board as it is read from now on, on both nodes.
	is := func(what string, want ...string) {
		t.Helper()
		for i, n := range nodes {
			converge(t, convergence, func() error {
				if got := walkBoard(t, []*node{n, nodes[1-i]}, "reader", 2, boardPlace{}); !slices.Equal(got, want) {
					return fmt.Errorf("%s: node %d shows %v, want %v", what, i, got, want)
				}
				return nil
			})
		}
	}
	do("startShow", "3")
	is("T1", "3 LIVE", "1 UPCOMING", "2 UPCOMING", "4 UPCOMING", "5 UPCOMING")
	first := here.board("reader", 2, boardPlace{})
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
		second := there.board("reader", 10, first.next(byCursor))
		if want := []string{"2 UPCOMING", "4 UPCOMING", "5 UPCOMING"}; !slices.Equal(second.lines(), want) || second.NewSession || second.SessionID != first.SessionID {
			t.Errorf("the second page at T4: %v, %+v, want %v", second.lines(), second, want)
		}
		for _, edge := range second.Edges {
			if edge.Node.StartedAt != nil || edge.Node.EndedAt != nil {
				t.Errorf("a show that was upcoming then has the times of now: %+v", edge.Node)
			}
		}
	}
	if again := there.board("reader", 2, boardPlace{session: first.SessionID}); !slices.Equal(again.lines(), first.lines()) {
		t.Errorf("the session from its top: %v, was %v", again.lines(), first.lines())
	}
	pass(4 * time.Minute)
	do("endShow", "4", "2")
	is("T5", "2 REPLAY", "4 REPLAY", "1 REPLAY", "5 REPLAY", "3 REPLAY")
}
