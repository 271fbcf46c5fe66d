package world

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"tidings/services"
	"tidings/services/live"
	"tidings/services/redis"
)

// ReadOneShowBoardPage reads a board page of one show, by a call of the live service and not over the API. It fails the test if the
// page does not have one show.
func (n *Node) ReadOneShowBoardPage(reader services.UserID, ask live.BoardRequest) live.Board {
	n.TB.Helper()
	ask.First = 1
	board, err := n.Live.Board(n.TB.Context(), reader, ask)
	if err != nil {
		n.TB.Fatal(err)
	}
	if len(board.Items) != 1 || board.ReplaysBeingBuilt {
		n.TB.Fatalf("a page of one show is %+v", board)
	}
	return board
}

// BoardPage is a page of a live board as a client sees it.
type BoardPage struct {
	Edges []struct {
		Cursor, Status                string     // Status is frozen, and so are the times below
		PlannedAt, StartedAt, EndedAt *time.Time // as in the session
		Node                          BoardShow  // the show as it is now
	}
	PageInfo struct {
		HasNextPage bool
		EndCursor   *string
	}
	SessionID            string
	LastID, End          *string // the ID of the last show; the reason why no page follows. nil: none
	NewSession, Building bool    // NewSession: the requested session is over. Building: the list of replays is being rebuilt
}

// BoardShow is a show as a client sees it.
type BoardShow struct {
	ID, Title, Status             string
	Host                          struct{ Key string }
	PlannedAt, StartedAt, EndedAt *time.Time
}

// Ids returns the IDs of the shows on the page, in order.
func (p BoardPage) Ids() []string {
	ids := make([]string, len(p.Edges))
	for i, edge := range p.Edges {
		ids[i] = edge.Node.ID
	}
	return ids
}

// TitleStatusLines returns the titles of the shows on a page, each with the status that the session froze.
func (p BoardPage) TitleStatusLines() []string {
	lines := make([]string, len(p.Edges))
	for i, edge := range p.Edges {
		lines[i] = edge.Node.Title + " " + edge.Status
	}
	return lines
}

// ShowFields selects the fields of BoardShow.
const ShowFields = `id title status host{key} plannedAt startedAt endedAt`

// BoardQuery asks for a page of the viewer's live board.
const BoardQuery = `query($first:Int,$after:String,$session:String,$last:ID){viewer{liveBoard(first:$first,after:$after,sessionId:$session,lastId:$last){
	edges{cursor status plannedAt startedAt endedAt node{` + ShowFields + `}} pageInfo{hasNextPage endCursor} sessionId lastId newSession end building}}}`

// BoardPageStart is where a page of a board starts: after a cursor, or in a session after the show with the ID Last. A field that
// is "" is left out of the query.
type BoardPageStart struct{ After, Session, Last string }

// Variables returns the variables of BoardQuery for a page that starts here.
func (p BoardPageStart) Variables(first int) map[string]any {
	variables := map[string]any{"first": first}
	for name, value := range map[string]string{"after": p.After, "session": p.Session, "last": p.Last} {
		if value != "" {
			variables[name] = value
		}
	}
	return variables
}

// ReadBoardPage reads a page of a board.
func (n *Node) ReadBoardPage(as string, first int, from BoardPageStart) BoardPage {
	n.TB.Helper()
	var data struct{ Viewer struct{ LiveBoard BoardPage } }
	n.MustAsk(as, BoardQuery, from.Variables(first), &data)
	return data.Viewer.LiveBoard
}

// NextPageStart returns the position where the next page starts, given by this page's cursor or by its session.
func (p BoardPage) NextPageStart(byCursor bool) BoardPageStart {
	if byCursor {
		return BoardPageStart{After: *p.PageInfo.EndCursor}
	}
	return BoardPageStart{Session: p.SessionID, Last: *p.LastID}
}

// ScheduleShow plans a show and returns its id.
func (n *Node) ScheduleShow(host, title string, at time.Time) string {
	n.TB.Helper()
	var data struct {
		ScheduleShow struct{ Show struct{ ID string } }
	}
	n.MustAsk(host, `mutation($t:String!,$at:Time!){scheduleShow(input:{title:$t,plannedAt:$at}){show{id}}}`, map[string]any{"t": title, "at": at}, &data)
	return data.ScheduleShow.Show.ID
}

// MutateShow sends a mutation on a show: startShow, endShow or cancelShow.
func (n *Node) MutateShow(host, verb, show string) {
	n.TB.Helper()
	n.MustAsk(host, `mutation($s:ID!){r:`+verb+`(input:{showId:$s}){show{id}}}`, map[string]any{"s": show}, nil)
}

// CountBoardSessions counts a reader's board sessions in Redis.
func (n *Node) CountBoardSessions(reader string) int64 {
	n.TB.Helper()
	sessions, err := n.Redis.Client.Commands().HLen(n.TB.Context(), redis.UserKey(n.EnsureUserIDs(reader)[0], ":s")).Result()
	if err != nil {
		n.TB.Fatal(err)
	}
	return sessions
}

// boardSubscription is an open subscription to liveBoardChanged.
type boardSubscription struct {
	t    *testing.T
	conn *websocket.Conn
}

// BoardEvent is an event of liveBoardChanged. NewSession means that this session replaces the one before, and More that a list is cut off
// at 100 shows.
type BoardEvent struct {
	SessionID                                          string
	NewSession, More                                   bool
	WentLive, Ended, Scheduled, Rescheduled, Cancelled []BoardShow
	NewAbove                                           int   // number of shows above the first show of the session
	LiveBoard                                          Count // the live board's count, which the badges have too
	Badges                                             struct {
		Version   string
		LiveBoard Count
		Total     Count
	}
}

// ShortForm returns the event as a line such as "live[one LIVE] ended[] moved[] gone[] above:0": the titles and statuses of the shows
// that went live, ended, were rescheduled or cancelled, and the number of shows above the session.
func (e BoardEvent) ShortForm() string {
	titles := func(shows []BoardShow) (list []string) {
		for _, show := range shows {
			list = append(list, show.Title+" "+show.Status)
		}
		return list
	}
	return fmt.Sprintf("live%v ended%v moved%v gone%v above:%d", titles(e.WentLive), titles(e.Ended), titles(e.Rescheduled), titles(e.Cancelled), e.NewAbove)
}

// SubscribeToBoard subscribes to a person's live board. session is the session of the pages that the client shows. since is the
// version of the badges that the client has. "" leaves either out.
func (n *Node) SubscribeToBoard(t *testing.T, as, session, since string) boardSubscription {
	t.Helper()
	conn := n.Dial(t)
	Send(t, conn, `{"type":"connection_init","payload":{"authorization":"dev:`+as+`"}}`)
	variables, err := json.Marshal(map[string]*string{"session": nilIfEmpty(session), "since": nilIfEmpty(since)})
	if err != nil {
		t.Fatal(err)
	}
	Send(t, conn, `{"id":"1","type":"subscribe","payload":{"variables":`+string(variables)+`,"query":`+
		QuoteJSON(`subscription($session:String,$since:Version){liveBoardChanged(sessionId:$session,since:$since){sessionId newSession more
			wentLive{`+ShowFields+`} ended{`+ShowFields+`} scheduled{`+ShowFields+`} rescheduled{`+ShowFields+`} cancelled{`+ShowFields+`}
			newAbove liveBoard{value precision} badges{version liveBoard{value precision} total{value}}}}`)+`}}`)
	return boardSubscription{t, conn}
}

// nilIfEmpty returns nil for "", so that the variable of the request is null.
func nilIfEmpty(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// WaitEvent waits for an event for which fits returns true.
func (w boardSubscription) WaitEvent(what string, fits func(BoardEvent) bool) BoardEvent {
	w.t.Helper()
	if err := w.conn.SetReadDeadline(time.Now().Add(RedisLossRecoveryTimeout)); err != nil {
		w.t.Fatal(err)
	}
	for last := ""; ; {
		_, text, err := w.conn.ReadMessage()
		if err != nil {
			w.t.Fatalf("%s was not pushed: %v; the last was %s", what, err, last)
		}
		last = string(text)
		var message struct {
			Type    string
			Payload struct {
				Data struct{ LiveBoardChanged BoardEvent }
			}
		}
		if err := json.Unmarshal(text, &message); err != nil || message.Type == "error" {
			w.t.Fatalf("%s: %v", text, err)
		}
		event := message.Payload.Data.LiveBoardChanged
		if message.Type != "next" {
			continue
		}
		if event.LiveBoard != event.Badges.LiveBoard {
			w.t.Errorf("the number is another one in the badges: %s", text)
		}
		if fits(event) {
			return event
		}
	}
}

// WaitEventWithShortForm waits for an event whose short form is want.
func (w boardSubscription) WaitEventWithShortForm(want string) BoardEvent {
	w.t.Helper()
	return w.WaitEvent(want, func(e BoardEvent) bool { return e.ShortForm() == want })
}

// ReadWholeBoard reads a user's board, page by page. first is the number of shows on a page. It returns the lines of TitleStatusLines,
// and the reason for the end that the last page reports. If first is even it asks for the next page by cursor, and otherwise by session.
func (n *Node) ReadWholeBoard(as string, first int) (lines []string, end string) {
	n.TB.Helper()
	for from := (BoardPageStart{}); ; {
		page := n.ReadBoardPage(as, first, from)
		lines = append(lines, page.TitleStatusLines()...)
		if page.NewSession {
			n.TB.Errorf("%s: the session ended between two pages", as)
		}
		if !page.PageInfo.HasNextPage {
			return lines, *page.End
		}
		if len(page.Edges) == 0 {
			n.TB.Fatalf("%s: after %d shows a page has none, and more are to follow", as, len(lines))
		}
		from = page.NextPageStart(first%2 == 0)
	}
}

// RunJobsAndTailChangelog runs every job that is due now, and brings the node cache up to date with the changelog.
func (n *Node) RunJobsAndTailChangelog() {
	n.TB.Helper()
	for busy := true; busy; {
		busy = false
		for _, worker := range n.Workers {
			busy = n.RunWorkerOnce(worker) > 0 || busy
		}
	}
	if _, err := n.Caches.Changelog.RunOnce(n.TB.Context()); err != nil {
		n.TB.Fatal(err)
	}
}
