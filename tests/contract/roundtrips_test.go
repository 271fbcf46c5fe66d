package contract

import (
	"fmt"
	"testing"

	"tidings/services"
	"tidings/services/people"
	"tidings/services/sql"
	"tidings/tests/world"
)

// The badges take one round trip to Redis. A page of the home feed takes at most two, for any size and any number of followed authors,
// and one if the node has its posts in memory. A push to 100 users takes one.
func TestRoundTrips(t *testing.T) {
	world.ForEachStoragePair(t, func(t *testing.T, options world.NodeOptions) {
		options.ManualStepping = true
		n := world.StartNode(t, options)
		const most = 2000
		authors := make([]string, most)
		for i := range authors {
			authors[i] = fmt.Sprint("author", i)
		}
		followees := n.EnsureUserIDs(authors...)
		n.MakeAuthorsHuge(authors[:5]...) // and the others' posts are pushed
		followed := []int{0, 10, 200, most}
		var readers []services.UserID
		for _, count := range followed {
			reader := n.EnsureUserIDs(fmt.Sprint("reader", count))[0]
			readers = append(readers, reader)
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
			n.Badges(fmt.Sprint("reader", count)) // makes the reader active
		}
		for i := range 120 {
			n.Publish(authors[i%10], fmt.Sprint(i))
		}
		n.SettleJobsAndCaches()
		for i, reader := range readers {
			t.Run(fmt.Sprint("followed ", followed[i]), func(t *testing.T) { world.CheckFeedRedisRoundTrips(t, n, reader, followed[i]) })
		}
		t.Run("a push to 100", func(t *testing.T) { world.CheckPushRedisRoundTrips(t, n) })
	})
}
