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

// A subscription to a board reports changes of shows that are made through any node. Each event has all that changed since the session of
// the board began.
func TestAnOpenBoardGetsEveryChange(t *testing.T) {
	t.Run("two nodes", func(t *testing.T) {
		p := world.StartNodePair(t, redistest.Redis(t), nil)
		checkBoardEvents(t, p.A, p.B)
	})
	t.Run("one node, embedded", func(t *testing.T) {
		n := world.StartNode(t, world.NodeOptions{Database: sqltest.SQLite(t), Redis: "embedded"})
		checkBoardEvents(t, n, n)
	})
}

// checkBoardEvents changes shows through both nodes, and checks the events of subscriptions to boards on the node there.
func checkBoardEvents(t *testing.T, here, there *world.Node) {
	for _, host := range []string{"ann", "ben"} {
		here.Follow("reader", host)
	}
	plan := func(n *world.Node, host, title string, hours int) string {
		return n.ScheduleShow(host, title, n.Clock.Now().Add(time.Duration(hours)*time.Hour))
	}
	one, two, three := plan(here, "ann", "one", 1), plan(here, "ben", "two", 2), plan(here, "ben", "three", 3)
	world.EventuallySucceeds(t, world.RedisLossRecoveryTimeout, func() error {
		if got := there.ReadBoardPage("reader", 10, world.BoardPageStart{}).Ids(); !slices.Equal(got, []string{one, two, three}) {
			return fmt.Errorf("the board has %v", got)
		}
		return nil
	})
	page := there.ReadBoardPage("reader", 10, world.BoardPageStart{})
	open := there.SubscribeToBoard(t, "reader", page.SessionID, "")
	if first := open.WaitEventWithShortForm("live[] ended[] moved[] gone[] above:0"); first.SessionID != page.SessionID || first.NewSession {
		t.Fatalf("the first event: %+v", first)
	}
	here.MutateShow("ben", "startShow", two)
	event := open.WaitEvent("what went live, and the badge", func(e world.BoardEvent) bool {
		return e.ShortForm() == "live[two LIVE] ended[] moved[] gone[] above:1" && e.LiveBoard.Value == 1 && e.Badges.Total.Value == 1
	})
	if event.WentLive[0].Host.Key != "ben" || event.WentLive[0].StartedAt == nil {
		t.Errorf("the event is %+v", event)
	}
	seen := func(session *string) int {
		var data struct {
			MarkLiveBoardSeen struct {
				Badges struct{ LiveBoard world.Count }
			}
		}
		there.MustAsk("reader", `mutation($s:String){markLiveBoardSeen(input:{sessionId:$s}){badges{liveBoard{value}}}}`, map[string]any{"s": session}, &data)
		return data.MarkLiveBoardSeen.Badges.LiveBoard.Value
	}
	if got := seen(&page.SessionID); got != 1 {
		t.Errorf("what went live after the session was made: %d, want 1", got)
	}
	if got := seen(nil); got != 0 {
		t.Errorf("after a look at the board as it is: %d, want 0", got)
	}
	open.WaitEvent("the look", func(e world.BoardEvent) bool { return e.LiveBoard.Value == 0 && e.Badges.Total.Value == 0 })
	here.MustAsk("ben", `mutation($s:ID!,$at:Time!){rescheduleShow(input:{showId:$s,plannedAt:$at}){show{id}}}`,
		map[string]any{"s": three, "at": here.Clock.Now().Add(30 * time.Minute)}, nil)
	open.WaitEventWithShortForm("live[two LIVE] ended[] moved[three UPCOMING] gone[] above:2")
	there.MutateShow("ann", "cancelShow", one)
	open.WaitEventWithShortForm("live[two LIVE] ended[] moved[three UPCOMING] gone[one CANCELLED] above:2")
	there.MutateShow("ben", "endShow", two)
	open.WaitEventWithShortForm("live[] ended[two REPLAY] moved[three UPCOMING] gone[one CANCELLED] above:1")
	here.ScheduleShow("ann", "four", here.Clock.Now().Add(10*time.Minute))
	open.WaitEventWithShortForm("live[] ended[two REPLAY] moved[three UPCOMING] gone[one CANCELLED] above:2")

	known, before := there.Badges("reader").Version, there.CountBoardSessions("reader")
	late := there.SubscribeToBoard(t, "reader", "", known)
	// There is no first event to wait for, because the client has the present badges already.
	world.Eventually(t, world.RedisLossRecoveryTimeout, "the late board has a session", func() bool { return there.CountBoardSessions("reader") > before })
	here.MutateShow("ben", "startShow", three)
	event = late.WaitEvent("what went live, without a session", func(e world.BoardEvent) bool {
		if e.Badges.Version == known && e.ShortForm() == "live[] ended[] moved[] gone[] above:0" {
			t.Errorf("a client that has the badges already gets an event of an unchanged board: %+v", e)
		}
		return e.ShortForm() == "live[three LIVE] ended[] moved[] gone[] above:1"
	})
	if event.NewSession || event.SessionID == page.SessionID {
		t.Errorf("without a session: %+v", event)
	}
	open.WaitEventWithShortForm("live[three LIVE] ended[two REPLAY] moved[] gone[one CANCELLED] above:2")
	here.MustAsk("reader", `mutation{unfollow(input:{userId:"user:ben"}){user{id}}}`, nil, nil)
	open.WaitEventWithShortForm("live[] ended[] moved[] gone[one CANCELLED] above:1")
}
