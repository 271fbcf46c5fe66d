package main

import (
	"strings"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/live"
	"tidings/services/store/storetest"
)

// Sessions and places of live boards that are none, or somebody else's, are refused with a word on what is wrong; and the
// session goes on.
func TestBadPlacesOfABoard(t *testing.T) {
	n := startNode(t, nodeOptions{database: storetest.SQLite(t), redis: "embedded"})
	n.follow("alice", "host")
	n.follow("bob", "host")
	var shows []string
	plan := func(host, title string) string {
		shows = append(shows, n.schedule(host, title, n.clock.Now().Add(time.Duration(len(shows)+1)*time.Hour)))
		return shows[len(shows)-1]
	}
	shown, cancelled, strange := plan("host", "one"), plan("host", "two"), plan("stranger", "three")
	own := plan("alice", "four")
	n.onShow("host", "cancelShow", cancelled)
	eventually(t, convergence, "the board has the show", func() bool { return len(n.board("alice", 5, boardPlace{}).Edges) == 1 })
	page := n.board("alice", 5, boardPlace{})
	later := plan("host", "five")
	session, cursor := page.SessionID, page.Edges[0].Cursor
	forged := func(change func(*live.Session)) string {
		viewer := n.numbersOf("alice")[0]
		parsed, err := live.ParseSession("sessionId", viewer, session)
		if err != nil {
			t.Fatal(err)
		}
		change(&parsed)
		return parsed.String()
	}
	future := forged(func(s *live.Session) { s.Made = services.PostIDAt(n.clock.Now().Add(time.Hour)) })
	beyond := forged(func(s *live.Session) { s.Version += 1000 })
	for _, bad := range []struct {
		what, as string
		from     boardPlace
		says     []string
	}{
		{"no session", "alice", boardPlace{session: "no session"}, []string{"sessionId", "no session"}},
		{"a cursor as a session", "alice", boardPlace{session: cursor}, []string{"sessionId"}},
		{"half a session", "alice", boardPlace{session: session[:20]}, []string{"sessionId"}},
		{"a long session", "alice", boardPlace{session: strings.Repeat("A", 50_000)}, []string{"sessionId"}},
		{"another user's session", "bob", boardPlace{session: session}, []string{"sessionId", "another user"}},
		{"a session of the future", "alice", boardPlace{session: future}, []string{"sessionId", "future"}},
		{"a session of a version that is not there", "alice", boardPlace{session: beyond}, []string{"sessionId"}},
		{"no cursor", "alice", boardPlace{after: "no cursor"}, []string{"after", "no cursor"}},
		{"a session as a cursor", "alice", boardPlace{after: session}, []string{"after"}},
		{"another user's cursor", "bob", boardPlace{after: cursor}, []string{"after", "another user"}},
		{"after and a session", "alice", boardPlace{after: cursor, session: session}, []string{"after", "sessionId"}},
		{"after and a last id", "alice", boardPlace{after: cursor, last: shown}, []string{"after", "lastId"}},
		{"a last id without a session", "alice", boardPlace{last: shown}, []string{"lastId", "sessionId"}},
		{"a last id of another type", "alice", boardPlace{session: session, last: "user:host"}, []string{"lastId", "user:host", "show"}},
		{"a last id that is none", "alice", boardPlace{session: session, last: "show:1"}, []string{"lastId", "show:1"}},
		{"a show that never was", "alice", boardPlace{session: session, last: "show:0000000000001"}, []string{"lastId", "never in the session"}},
		{"a show of somebody not followed", "alice", boardPlace{session: session, last: strange}, []string{"lastId", strange, "never in the session"}},
		{"a show that was cancelled before", "alice", boardPlace{session: session, last: cancelled}, []string{"lastId", cancelled}},
		{"a show that was planned later", "alice", boardPlace{session: session, last: later}, []string{"lastId", later}},
		{"one's own show", "alice", boardPlace{session: session, last: own}, []string{"lastId", own}},
	} {
		t.Run(bad.what, func(t *testing.T) {
			refused{"INVALID", bad.says}.check(t, n.ask(bad.as, boardQuery, bad.from.variables(5)))
		})
	}
	for first, says := range map[int]string{0: "got 0", 101: "got 101", -1: "got -1"} {
		refused{"INVALID", []string{"first: 1 to 100", says}}.check(t, n.ask("alice", boardQuery, boardPlace{}.variables(first)))
	}
	const seen = `mutation($s:String){markLiveBoardSeen(input:{sessionId:$s}){badges{version}}}`
	for what, text := range map[string]string{"none": "no session", "of the future": future, "beyond the log": beyond} {
		t.Run("seen: "+what, func(t *testing.T) {
			refused{"INVALID", []string{"sessionId"}}.check(t, n.ask("alice", seen, map[string]any{"s": text}))
		})
	}
	refused{"INVALID", []string{"sessionId", "another user"}}.check(t, n.ask("bob", seen, map[string]any{"s": session}))
	if again := n.board("alice", 5, boardPlace{session: session}); again.NewSession || len(again.Edges) != 1 || again.SessionID != session {
		t.Errorf("the session afterwards: %+v", again)
	}
	if end := n.board("alice", 5, boardPlace{session: session, last: shown}); len(end.Edges) != 0 || end.PageInfo.HasNextPage {
		t.Errorf("after its only show: %+v", end)
	}
}
