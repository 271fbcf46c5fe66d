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

// onOneAndTwoNodes runs a test in which mutations are sent to the node here and subscriptions are open on the node there: once with two
// nodes, and once with one node as both.
func onOneAndTwoNodes(t *testing.T, test func(t *testing.T, here, there *world.Node)) {
	t.Run("two nodes", func(t *testing.T) {
		p := world.StartNodePair(t, redistest.Redis(t), nil)
		test(t, p.A, p.B)
	})
	t.Run("one node, embedded", func(t *testing.T) {
		n := world.StartNode(t, world.NodeOptions{Database: sqltest.SQLite(t), Redis: "embedded"})
		test(t, n, n)
	})
}

// showTitles returns the titles of shows.
func showTitles(shows []world.BoardShow) (list []string) {
	for _, show := range shows {
		list = append(list, show.Title)
	}
	return list
}

// maxBadgesWait is how long a change of the board waits for the badges that count it, as in services/live. Then it is sent without
// them.
const maxBadgesWait = 500 * time.Millisecond

// An event of a board's subscription that reports the start or the end of a show also has the count of live shows after that change. The
// product promises this only if the badges come within maxBadgesWait, which a busy machine may not allow. So shows start and end until
// enough changes were in time.
func TestAShowsStartAndItsCountComeInOneEvent(t *testing.T) {
	onOneAndTwoNodes(t, func(t *testing.T, here, there *world.Node) {
		const shows = 8
		round, inTime := 0, 0
		world.Eventually(t, 2*time.Minute, "enough changes are in time", func() bool {
			round++
			inTime += checkStartsAndEnds(t, here, there, fmt.Sprint(round), shows)
			t.Logf("round %d: %d changes were in time", round, inTime)
			return inTime >= shows || t.Failed()
		})
	})
}

// checkStartsAndEnds starts and ends the shows of a new host, and checks the events of a new reader's board. It returns for how many of
// the changes the badges came in time, so that their events were checked: 1 + 2*shows on a quiet machine.
func checkStartsAndEnds(t *testing.T, here, there *world.Node, round string, shows int) (inTime int) {
	t.Helper()
	reader, host := "reader"+round, "ann"+round
	here.Follow(reader, host)
	planned := make([]string, shows)
	for i := range planned {
		planned[i] = here.ScheduleShow(host, fmt.Sprint(i), here.Clock.Now().Add(time.Hour))
	}
	world.EventuallySucceeds(t, world.RedisLossRecoveryTimeout, func() error {
		if got := there.ReadBoardPage(reader, 20, world.BoardPageStart{}).Ids(); len(got) != shows {
			return fmt.Errorf("the board has %v", got)
		}
		return nil
	})
	began := time.Now()
	open := there.SubscribeToBoard(t, reader, "", "")
	// reaches waits until the board and its count show the last change: want shows are live.
	reaches := func(what string, want int) {
		t.Helper()
		frames, late := 0, false
		open.WaitEvent(fmt.Sprint(what, want), func(e world.BoardEvent) bool {
			frames++
			right, exact := len(e.WentLive) == e.LiveBoard.Value, e.LiveBoard.Precision == "EXACT"
			// A count that is not EXACT shows that Redis was late. The EXACT count follows in an event of its own.
			late = late || !exact || time.Since(began) >= maxBadgesWait
			if !late && !right {
				t.Errorf("%s %d: %v are live, and the number is %d", what, want, showTitles(e.WentLive), e.LiveBoard.Value)
			}
			return len(e.WentLive) == want && right && exact
		})
		if late {
			return
		}
		inTime++
		if frames != 1 {
			t.Errorf("%s %d: %d frames, want one", what, want, frames)
		}
	}
	reaches("at first", 0)
	for i, show := range planned {
		began = time.Now()
		here.MutateShow(host, "startShow", show)
		reaches("a start", i+1)
	}
	for i, show := range planned {
		began = time.Now()
		here.MutateShow(host, "endShow", show)
		reaches("an end", shows-i-1)
	}
	return inTime
}

// A subscription to a board with a live show on top reports new shows below that show, their changes of time, and the shows of a newly
// followed host. An end that is reported before its start changes nothing on the board.
func TestAnOpenBoardGetsChangesBelowTheTop(t *testing.T) {
	onOneAndTwoNodes(t, func(t *testing.T, here, there *world.Node) {
		here.Follow("reader", "ann")
		plan := func(host, title string, hours int) string {
			return here.ScheduleShow(host, title, here.Clock.Now().Add(time.Duration(hours)*time.Hour))
		}
		move := func(host, show string, hours int) {
			here.MustAsk(host, `mutation($s:ID!,$at:Time!){rescheduleShow(input:{showId:$s,plannedAt:$at}){show{id}}}`,
				map[string]any{"s": show, "at": here.Clock.Now().Add(time.Duration(hours) * time.Hour)}, nil)
		}
		top, known := plan("ann", "top", 1), plan("ann", "known", 2)
		here.MutateShow("ann", "startShow", top)
		other := plan("eve", "eve's", 3)
		here.MutateShow("eve", "startShow", plan("eve", "eve runs", 3))
		world.EventuallySucceeds(t, world.RedisLossRecoveryTimeout, func() error {
			page := there.ReadBoardPage("reader", 20, world.BoardPageStart{})
			if got := page.Ids(); !slices.Equal(got, []string{top, known}) || page.Edges[0].Status != "LIVE" {
				return fmt.Errorf("the board has %v", got)
			}
			return nil
		})
		open := there.SubscribeToBoard(t, "reader", there.ReadBoardPage("reader", 20, world.BoardPageStart{}).SessionID, "")
		wantEvent := func(what string, live, scheduled, moved []string) world.BoardEvent {
			t.Helper()
			return open.WaitEvent(what, func(e world.BoardEvent) bool {
				for _, show := range slices.Concat(e.Scheduled, e.Rescheduled) {
					if show.EndedAt != nil {
						t.Errorf("%s: %q is over before it starts", what, show.Title)
					}
				}
				return slices.Equal(showTitles(e.WentLive), live) && slices.Equal(showTitles(e.Scheduled), scheduled) && slices.Equal(showTitles(e.Rescheduled), moved)
			})
		}
		wantEvent("nothing yet", nil, nil, nil)
		late, later := plan("ann", "late", 5), plan("ann", "later", 6)
		if event := wantEvent("two are scheduled", nil, []string{"late", "later"}, nil); event.NewAbove != 0 {
			t.Errorf("%d are above the live show", event.NewAbove)
		}
		move("ann", late, 7)
		wantEvent("one is put off", nil, []string{"later", "late"}, nil)
		move("ann", known, 8)
		wantEvent("one of the session is put off", nil, []string{"later", "late"}, []string{"known"})
		here.MutateShow("ann", "endShow", late)
		here.MutateShow("ann", "endShow", known)
		here.MutateShow("ann", "cancelShow", later)
		wantEvent("a scheduled one is cancelled", nil, []string{"late"}, []string{"known"})
		here.Follow("reader", "eve")
		event := wantEvent("a host who is followed", []string{"eve runs"}, []string{"eve's", "late"}, []string{"known"})
		if event.LiveBoard.Value != 1 || event.NewAbove != 1 { // only the top show counts: it went live after its host was followed
			t.Errorf("the number is %d, %d are above", event.LiveBoard.Value, event.NewAbove)
		}
		move("eve", other, 9)
		wantEvent("that host's move", []string{"eve runs"}, []string{"late", "eve's"}, []string{"known"})
	})
}

// A reminder is one of the notifications, and so a part of their total.
func TestAReminderIsPartOfTheTotal(t *testing.T) {
	n := world.StartNode(t, world.NodeOptions{Database: sqltest.SQLite(t), Redis: "embedded"})
	n.Follow("reader", "ann")
	show := map[string]any{"s": n.ScheduleShow("ann", "regatta", n.Clock.Now().Add(time.Hour))}
	n.MustAsk("reader", `mutation($s:ID!){remindMe(input:{showId:$s}){changed}}`, show, &struct{}{})
	n.MustAsk("ann", `mutation($s:ID!){startShow(input:{showId:$s}){show{id}}}`, show, &struct{}{})
	world.EventuallySucceeds(t, world.RedisLossRecoveryTimeout, func() error {
		if got := n.Badges("reader").Notifications.Total.Value; got != 1 {
			return fmt.Errorf("%d notifications, want the reminder", got)
		}
		return nil
	})
}
