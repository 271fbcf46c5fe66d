package contract

import (
	"strings"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/live"
	"tidings/services/sql/sqltest"
	"tidings/tests/world"
)

// Sessions and positions of live boards that are malformed or another user's are refused with a reason, and the session
// continues.
func TestBadPositionsOfABoard(t *testing.T) {
	n := world.StartNode(t, world.NodeOptions{Database: sqltest.SQLite(t), Redis: "embedded"})
	n.Follow("alice", "host")
	n.Follow("bob", "host")
	var shows []string
	plan := func(host, title string) string {
		shows = append(shows, n.ScheduleShow(host, title, n.Clock.Now().Add(time.Duration(len(shows)+1)*time.Hour)))
		return shows[len(shows)-1]
	}
	shown, cancelled, strange := plan("host", "one"), plan("host", "two"), plan("stranger", "three")
	own := plan("alice", "four")
	n.MutateShow("host", "cancelShow", cancelled)
	world.Eventually(t, world.RedisLossRecoveryTimeout, "the board has the show", func() bool { return len(n.ReadBoardPage("alice", 5, world.BoardPageStart{}).Edges) == 1 })
	page := n.ReadBoardPage("alice", 5, world.BoardPageStart{})
	later := plan("host", "five")
	session, cursor := page.SessionID, page.Edges[0].Cursor
	forged := func(change func(*live.Session)) string {
		viewer := n.EnsureUserIDs("alice")[0]
		parsed, err := live.ParseSession("sessionId", viewer, session)
		if err != nil {
			t.Fatal(err)
		}
		change(&parsed)
		return parsed.String()
	}
	future := forged(func(s *live.Session) { s.CreationID = services.SortableIDAt(n.Clock.Now().Add(time.Hour)) })
	beyond := forged(func(s *live.Session) { s.Version += 1000 })
	for _, bad := range []struct {
		what, as string
		from     world.BoardPageStart
		says     []string
	}{
		{"no session", "alice", world.BoardPageStart{Session: "no session"}, []string{"sessionId", "no session"}},
		{"a cursor as a session", "alice", world.BoardPageStart{Session: cursor}, []string{"sessionId"}},
		{"half a session", "alice", world.BoardPageStart{Session: session[:20]}, []string{"sessionId"}},
		{"a long session", "alice", world.BoardPageStart{Session: strings.Repeat("A", 50_000)}, []string{"sessionId"}},
		{"another user's session", "bob", world.BoardPageStart{Session: session}, []string{"sessionId", "another user"}},
		{"a session of the future", "alice", world.BoardPageStart{Session: future}, []string{"sessionId", "future"}},
		{"a session of a version that is not there", "alice", world.BoardPageStart{Session: beyond}, []string{"sessionId"}},
		{"no cursor", "alice", world.BoardPageStart{After: "no cursor"}, []string{"after", "no cursor"}},
		{"a session as a cursor", "alice", world.BoardPageStart{After: session}, []string{"after"}},
		{"another user's cursor", "bob", world.BoardPageStart{After: cursor}, []string{"after", "another user"}},
		{"after and a session", "alice", world.BoardPageStart{After: cursor, Session: session}, []string{"after", "sessionId"}},
		{"after and a last id", "alice", world.BoardPageStart{After: cursor, Last: shown}, []string{"after", "lastId"}},
		{"a last id without a session", "alice", world.BoardPageStart{Last: shown}, []string{"lastId", "sessionId"}},
		{"a last id of another type", "alice", world.BoardPageStart{Session: session, Last: "user:host"}, []string{"lastId", "user:host", "show"}},
		{"a last id that is none", "alice", world.BoardPageStart{Session: session, Last: "show:1"}, []string{"lastId", "show:1"}},
		{"a show that never was", "alice", world.BoardPageStart{Session: session, Last: "show:0000000000001"}, []string{"lastId", "never in the session"}},
		{"a show of somebody not followed", "alice", world.BoardPageStart{Session: session, Last: strange}, []string{"lastId", strange, "never in the session"}},
		{"a show that was cancelled before", "alice", world.BoardPageStart{Session: session, Last: cancelled}, []string{"lastId", cancelled}},
		{"a show that was planned later", "alice", world.BoardPageStart{Session: session, Last: later}, []string{"lastId", later}},
		{"one's own show", "alice", world.BoardPageStart{Session: session, Last: own}, []string{"lastId", own}},
	} {
		t.Run(bad.what, func(t *testing.T) {
			wantedError{"INVALID", bad.says}.checkAnswer(t, n.Ask(bad.as, world.BoardQuery, bad.from.Variables(5)))
		})
	}
	for first, says := range map[int]string{0: "got 0", 101: "got 101", -1: "got -1"} {
		wantedError{"INVALID", []string{"first: 1 to 100", says}}.checkAnswer(t, n.Ask("alice", world.BoardQuery, world.BoardPageStart{}.Variables(first)))
	}
	const seen = `mutation($s:String){markLiveBoardSeen(input:{sessionId:$s}){badges{version}}}`
	for what, text := range map[string]string{"none": "no session", "of the future": future, "beyond the log": beyond} {
		t.Run("seen: "+what, func(t *testing.T) {
			wantedError{"INVALID", []string{"sessionId"}}.checkAnswer(t, n.Ask("alice", seen, map[string]any{"s": text}))
		})
	}
	wantedError{"INVALID", []string{"sessionId", "another user"}}.checkAnswer(t, n.Ask("bob", seen, map[string]any{"s": session}))
	if again := n.ReadBoardPage("alice", 5, world.BoardPageStart{Session: session}); again.NewSession || len(again.Edges) != 1 || again.SessionID != session {
		t.Errorf("the session afterwards: %+v", again)
	}
	if end := n.ReadBoardPage("alice", 5, world.BoardPageStart{Session: session, Last: shown}); len(end.Edges) != 0 || end.PageInfo.HasNextPage {
		t.Errorf("after its only show: %+v", end)
	}
}
