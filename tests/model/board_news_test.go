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

// onNodes runs a test in which one node acts and another one pushes: on two nodes, and on one node that does both.
func onNodes(t *testing.T, test func(t *testing.T, here, there *world.Node)) {
	t.Run("two nodes", func(t *testing.T) {
		p := world.StartPair(t, redistest.Redis(t), nil)
		test(t, p.A, p.B)
	})
	t.Run("one node, embedded", func(t *testing.T) {
		n := world.StartNode(t, world.NodeOptions{Database: sqltest.SQLite(t), Redis: "embedded"})
		test(t, n, n)
	})
}

// titles returns the titles of shows.
func titles(shows []world.BoardShow) (list []string) {
	for _, show := range shows {
		list = append(list, show.Title)
	}
	return list
}

// A frame that reports the start or the end of a show also has the count after that change.
func TestAStartAndItsCountAreOneFrame(t *testing.T) {
	onNodes(t, func(t *testing.T, here, there *world.Node) {
		here.Follow("reader", "ann")
		const many = 8
		shows := make([]string, many)
		for i := range shows {
			shows[i] = here.Schedule("ann", fmt.Sprint(i), here.Clock.Now().Add(time.Hour))
		}
		world.EventuallySucceeds(t, world.ConvergenceTimeout, func() error {
			if got := there.ReadBoardPage("reader", 20, world.BoardPlace{}).Ids(); len(got) != many {
				return fmt.Errorf("the board has %v", got)
			}
			return nil
		})
		open := there.WatchBoard(t, "reader", "", "")
		frames := 0
		reaches := func(what string, want int) {
			t.Helper()
			open.WaitEvent(fmt.Sprint(what, want), func(e world.BoardEvent) bool {
				frames++
				if len(e.WentLive) != e.LiveBoard.Value {
					t.Errorf("%s %d: %v are live, and the number is %d", what, want, titles(e.WentLive), e.LiveBoard.Value)
				}
				return len(e.WentLive) == want
			})
		}
		reaches("at first", 0)
		for i, show := range shows {
			here.MutateShow("ann", "startShow", show)
			reaches("a start", i+1)
		}
		for i, show := range shows {
			here.MutateShow("ann", "endShow", show)
			reaches("an end", many-i-1)
		}
		if want := 1 + 2*many; frames != want {
			t.Errorf("%d frames, want one a change: %d", frames, want)
		}
	})
}

// An open board with a live show on top is notified of new shows below that show, of their moves, and of the shows of a newly
// followed host. An end that is reported before its start changes nothing on the board.
func TestAnOpenBoardGetsChangesBelowTheTop(t *testing.T) {
	onNodes(t, func(t *testing.T, here, there *world.Node) {
		here.Follow("reader", "ann")
		plan := func(host, title string, hours int) string {
			return here.Schedule(host, title, here.Clock.Now().Add(time.Duration(hours)*time.Hour))
		}
		move := func(host, show string, hours int) {
			here.Must(host, `mutation($s:ID!,$at:Time!){rescheduleShow(input:{showId:$s,plannedAt:$at}){show{id}}}`,
				map[string]any{"s": show, "at": here.Clock.Now().Add(time.Duration(hours) * time.Hour)}, nil)
		}
		top, known := plan("ann", "top", 1), plan("ann", "known", 2)
		here.MutateShow("ann", "startShow", top)
		other := plan("eve", "eve's", 3)
		here.MutateShow("eve", "startShow", plan("eve", "eve runs", 3))
		world.EventuallySucceeds(t, world.ConvergenceTimeout, func() error {
			page := there.ReadBoardPage("reader", 20, world.BoardPlace{})
			if got := page.Ids(); !slices.Equal(got, []string{top, known}) || page.Edges[0].Status != "LIVE" {
				return fmt.Errorf("the board has %v", got)
			}
			return nil
		})
		open := there.WatchBoard(t, "reader", there.ReadBoardPage("reader", 20, world.BoardPlace{}).SessionID, "")
		wantEvent := func(what string, live, scheduled, moved []string) world.BoardEvent {
			t.Helper()
			return open.WaitEvent(what, func(e world.BoardEvent) bool {
				for _, show := range slices.Concat(e.Scheduled, e.Rescheduled) {
					if show.EndedAt != nil {
						t.Errorf("%s: %q is over before it starts", what, show.Title)
					}
				}
				return slices.Equal(titles(e.WentLive), live) && slices.Equal(titles(e.Scheduled), scheduled) && slices.Equal(titles(e.Rescheduled), moved)
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
	show := map[string]any{"s": n.Schedule("ann", "regatta", n.Clock.Now().Add(time.Hour))}
	n.Must("reader", `mutation($s:ID!){remindMe(input:{showId:$s}){changed}}`, show, &struct{}{})
	n.Must("ann", `mutation($s:ID!){startShow(input:{showId:$s}){show{id}}}`, show, &struct{}{})
	world.EventuallySucceeds(t, world.ConvergenceTimeout, func() error {
		if got := n.Badges("reader").Notifications.Total.Value; got != 1 {
			return fmt.Errorf("%d notifications, want the reminder", got)
		}
		return nil
	})
}
