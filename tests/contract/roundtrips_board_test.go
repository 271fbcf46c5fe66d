package contract

import (
	"fmt"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/people"
	"tidings/services/sql"
	"tidings/tests/world"
)

// The first page of a live board takes one round trip to Redis if live and upcoming shows fill it, and one more if it continues
// with replays. Every later page takes at most two, for any size and any number of followed hosts. No first page has its replays from
// SQL.
func TestRoundTripsOfABoard(t *testing.T) {
	world.ForEachStoragePair(t, func(t *testing.T, options world.NodeOptions) {
		options.ManualStepping = true
		n := world.StartNode(t, options)
		const most, shows = 2000, 60
		hosts := make([]string, most)
		for i := range hosts {
			hosts[i] = fmt.Sprint("host", i)
		}
		followees := n.EnsureUserIDs(hosts...)
		for i := range shows {
			host := hosts[i%10]
			show := n.ScheduleShow(host, fmt.Sprint("show ", i), n.Clock.Now().Add(time.Hour))
			if i%3 > 0 {
				n.MutateShow(host, "startShow", show)
			}
			if i%3 > 1 {
				n.MutateShow(host, "endShow", show)
			}
		}
		n.RunJobs()
		if err := n.Live.Memory.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		for _, count := range []int{0, 10, 200, most} {
			t.Run(fmt.Sprint("followed ", count), func(t *testing.T) {
				key := fmt.Sprint("reader", count)
				reader := n.EnsureUserIDs(key)[0]
				edges := make([]services.FollowEdge, count)
				for i := range edges {
					edges[i] = services.FollowEdge{Follower: reader, Followee: followees[i]}
				}
				if err := n.DB.Write(t.Context(), func(tx *sql.Tx) error {
					_, err := people.ImportFollows(t.Context(), tx, edges)
					return err
				}); err != nil {
					t.Fatal(err)
				}
				n.ReadBoardPage(key, 100, world.BoardPageStart{}) // makes the viewer active, with a list of replays
				world.CheckBoardRedisRoundTrips(t, n, reader, map[bool]int{true: shows}[count > 0])
			})
		}
	})
}
