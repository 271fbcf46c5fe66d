package main

import (
	"context"
	"fmt"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/live"
	"tidings/services/store"
)

// The first page of a live board is one round trip where live and upcoming shows fill it, one more where it goes on with
// replays; every later one two at most, whatever its size and the number followed;
// and none of them asks SQL for anything, show by show or at all.
func TestRoundTripsOfABoard(t *testing.T) {
	eachPair(t, func(t *testing.T, options nodeOptions) {
		options.manual = true
		n := startNode(t, options)
		const most, shows = 2000, 60
		hosts := make([]string, most)
		for i := range hosts {
			hosts[i] = fmt.Sprint("host", i)
		}
		followees := n.numbersOf(hosts...)
		for i := range shows {
			host := hosts[i%10]
			show := n.schedule(host, fmt.Sprint("show ", i), n.clock.Now().Add(time.Hour))
			if i%3 > 0 {
				n.onShow(host, "startShow", show)
			}
			if i%3 > 1 {
				n.onShow(host, "endShow", show)
			}
		}
		n.dueJobs()
		if err := n.memory.Shows.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, count := range []int{0, 10, 200, most} {
			t.Run(fmt.Sprint("followed ", count), func(t *testing.T) {
				key := fmt.Sprint("reader", count)
				reader := n.numbersOf(key)[0]
				edges := make([]services.Edge, count)
				for i := range edges {
					edges[i] = services.Edge{Follower: reader, Followee: followees[i]}
				}
				if err := n.store.Write(t.Context(), func(tx *store.Tx) error {
					_, err := tx.ImportFollows(t.Context(), edges)
					return err
				}); err != nil {
					t.Fatal(err)
				}
				n.board(key, 100, boardPlace{}) // he is active from now on, and has his list of replays
				n.roundTripsOfBoard(t, reader, map[bool]int{true: shows}[count > 0])
			})
		}
	})
}

func (n *node) roundTripsOfBoard(t *testing.T, reader services.UserNumber, want int) {
	for _, first := range []int{1, 20, 100} {
		var page live.Board
		turn := func(ask live.Ask) int {
			ask.First = first
			return measured(t, func(ctx context.Context) (err error) {
				page, err = n.live.Board(ctx, reader, ask)
				return err
			})
		}
		wanted := 1
		if first >= want*2/3 && want > 0 { // every third show is a replay
			wanted = 2
		}
		if trips := turn(live.Ask{}); trips != wanted || len(page.Items) != min(first, want) || page.Building {
			t.Errorf("a first page of %d: %d round trips, want %d; %d shows, building %t", first, trips, wanted, len(page.Items), page.Building)
		}
		for listed := len(page.Items); page.HasNext; listed += len(page.Items) {
			cursor := live.CursorText(page.Session, page.Items[len(page.Items)-1].Place)
			if trips := turn(live.Ask{After: &cursor}); trips > 2 || page.Replaced {
				t.Errorf("a page of %d after %d: %d round trips, want 2 at most; a new session %t", first, listed, trips, page.Replaced)
			}
			if len(page.Items) != min(first, want-listed) {
				t.Fatalf("a page of %d after %d has %d of %d", first, listed, len(page.Items), want)
			}
		}
	}
}

// dueJobs does every job that is due; those of later, which close shows that nobody ends, stay.
func (n *node) dueJobs() {
	n.tb.Helper()
	for claimed := 1; claimed > 0; {
		claimed = 0
		for _, worker := range n.workers {
			claimed += n.work(worker)
		}
	}
}
