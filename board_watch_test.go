package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"tidings/services/rdb/rdbtest"
	"tidings/services/store/storetest"
)

// boardWatch is an open subscription to liveBoardChanged.
type boardWatch struct {
	t    *testing.T
	conn *websocket.Conn
}

// boardEvent is an event of it.
type boardEvent struct {
	SessionID                                          string
	NewSession, More                                   bool
	WentLive, Ended, Scheduled, Rescheduled, Cancelled []boardShow
	NewAbove                                           int
	LiveBoard                                          count
	Badges                                             struct {
		Version   string
		LiveBoard count
		Total     count
	}
}

// says is what an event tells, in short.
func (e boardEvent) says() string {
	titles := func(shows []boardShow) (list []string) {
		for _, show := range shows {
			list = append(list, show.Title+" "+show.Status)
		}
		return list
	}
	return fmt.Sprintf("live%v ended%v moved%v gone%v above:%d", titles(e.WentLive), titles(e.Ended), titles(e.Rescheduled), titles(e.Cancelled), e.NewAbove)
}

func (n *node) watchBoard(t *testing.T, as, session, since string) boardWatch {
	t.Helper()
	conn := n.dial(t)
	send(t, conn, `{"type":"connection_init","payload":{"authorization":"dev:`+as+`"}}`)
	variables, err := json.Marshal(map[string]*string{"session": orNil(session), "since": orNil(since)})
	if err != nil {
		t.Fatal(err)
	}
	send(t, conn, `{"id":"1","type":"subscribe","payload":{"variables":`+string(variables)+`,"query":`+
		quoted(`subscription($session:String,$since:String){liveBoardChanged(sessionId:$session,since:$since){sessionId newSession more
			wentLive{`+showFields+`} ended{`+showFields+`} scheduled{`+showFields+`} rescheduled{`+showFields+`} cancelled{`+showFields+`}
			newAbove liveBoard{value precision} badges{version liveBoard{value precision} total{value}}}}`)+`}}`)
	return boardWatch{t, conn}
}

func orNil(text string) *string {
	if text == "" {
		return nil
	}
	return &text
}

// until waits for an event that fits.
func (w boardWatch) until(what string, fits func(boardEvent) bool) boardEvent {
	w.t.Helper()
	if err := w.conn.SetReadDeadline(time.Now().Add(convergence)); err != nil {
		w.t.Fatal(err)
	}
	for last := ""; ; {
		_, text, err := w.conn.ReadMessage()
		if err != nil {
			w.t.Fatalf("%s was not told of: %v; the last was %s", what, err, last)
		}
		last = string(text)
		var message struct {
			Type    string
			Payload struct {
				Data struct{ LiveBoardChanged boardEvent }
			}
		}
		if err := json.Unmarshal(text, &message); err != nil || message.Type == "error" {
			w.t.Fatalf("%s: %v", text, err)
		}
		told := message.Payload.Data.LiveBoardChanged
		if message.Type != "next" {
			continue
		}
		if told.LiveBoard != told.Badges.LiveBoard {
			w.t.Errorf("the number is another one in the badges: %s", text)
		}
		if fits(told) {
			return told
		}
	}
}

func (w boardWatch) tells(want string) boardEvent {
	w.t.Helper()
	return w.until(want, func(e boardEvent) bool { return e.says() == want })
}

// What happens to shows is told to open boards on every node, against the session that they show.
func TestAnOpenBoardIsToldWhatChanges(t *testing.T) {
	t.Run("two nodes", func(t *testing.T) {
		p := startPair(t, rdbtest.Redis(t), nil)
		followBoard(t, p.a, p.b)
	})
	t.Run("one node, embedded", func(t *testing.T) {
		n := startNode(t, nodeOptions{database: storetest.SQLite(t), redis: "embedded"})
		followBoard(t, n, n)
	})
}

func followBoard(t *testing.T, here, there *node) {
	for _, host := range []string{"ann", "ben"} {
		here.follow("reader", host)
	}
	plan := func(n *node, host, title string, hours int) string {
		return n.schedule(host, title, n.clock.Now().Add(time.Duration(hours)*time.Hour))
	}
	one, two, three := plan(here, "ann", "one", 1), plan(here, "ben", "two", 2), plan(here, "ben", "three", 3)
	converge(t, convergence, func() error {
		if got := there.board("reader", 10, boardPlace{}).ids(); !slices.Equal(got, []string{one, two, three}) {
			return fmt.Errorf("the board has %v", got)
		}
		return nil
	})
	page := there.board("reader", 10, boardPlace{})
	open := there.watchBoard(t, "reader", page.SessionID, "")
	if first := open.tells("live[] ended[] moved[] gone[] above:0"); first.SessionID != page.SessionID || first.NewSession {
		t.Fatalf("the first event: %+v", first)
	}
	here.onShow("ben", "startShow", two)
	told := open.until("what went live, and the badge", func(e boardEvent) bool {
		return e.says() == "live[two LIVE] ended[] moved[] gone[] above:1" && e.LiveBoard.Value == 1 && e.Badges.Total.Value == 1
	})
	if told.WentLive[0].Host.Key != "ben" || told.WentLive[0].StartedAt == nil {
		t.Errorf("told: %+v", told)
	}
	seen := func(session *string) int {
		var data struct {
			MarkLiveBoardSeen struct{ Badges struct{ LiveBoard count } }
		}
		there.must("reader", `mutation($s:String){markLiveBoardSeen(input:{sessionId:$s}){badges{liveBoard{value}}}}`, map[string]any{"s": session}, &data)
		return data.MarkLiveBoardSeen.Badges.LiveBoard.Value
	}
	if got := seen(&page.SessionID); got != 1 {
		t.Errorf("what went live after the session was made: %d, want 1", got)
	}
	if got := seen(nil); got != 0 {
		t.Errorf("after a look at the board as it is: %d, want 0", got)
	}
	open.until("the look", func(e boardEvent) bool { return e.LiveBoard.Value == 0 && e.Badges.Total.Value == 0 })
	here.must("ben", `mutation($s:ID!,$at:Time!){rescheduleShow(input:{showId:$s,plannedAt:$at}){show{id}}}`,
		map[string]any{"s": three, "at": here.clock.Now().Add(30 * time.Minute)}, nil)
	open.tells("live[two LIVE] ended[] moved[three UPCOMING] gone[] above:2")
	there.onShow("ann", "cancelShow", one)
	open.tells("live[two LIVE] ended[] moved[three UPCOMING] gone[one CANCELLED] above:2")
	there.onShow("ben", "endShow", two)
	open.tells("live[] ended[two REPLAY] moved[three UPCOMING] gone[one CANCELLED] above:1")
	here.schedule("ann", "four", here.clock.Now().Add(10*time.Minute))
	open.tells("live[] ended[two REPLAY] moved[three UPCOMING] gone[one CANCELLED] above:2")

	known := there.badges("reader").Version
	late := there.watchBoard(t, "reader", "", known)
	there.watchBoard(t, "other", "", "").tells("live[] ended[] moved[] gone[] above:0") // by then late has most likely looked too
	here.onShow("ben", "startShow", three)
	told = late.until("what went live, without a session", func(e boardEvent) bool {
		if e.Badges.Version == known && e.says() == "live[] ended[] moved[] gone[] above:0" {
			t.Errorf("who holds the badges already is told of a board that is as it was: %+v", e)
		}
		return e.says() == "live[three LIVE] ended[] moved[] gone[] above:1"
	})
	if told.NewSession || told.SessionID == page.SessionID {
		t.Errorf("without a session: %+v", told)
	}
	open.tells("live[three LIVE] ended[two REPLAY] moved[] gone[one CANCELLED] above:2")
	here.must("reader", `mutation{unfollow(input:{userId:"user:ben"}){user{id}}}`, nil, nil)
	open.tells("live[] ended[] moved[] gone[one CANCELLED] above:1")
}
