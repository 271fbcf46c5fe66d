package nodes

import (
	"testing"
	"time"

	"tidings/services/erasures"
	"tidings/services/jobs"
	"tidings/services/sql/sqltest"
	"tidings/tests/world"
)

// An author is erased while the fan-out of a post, in several chunks, has not ended. Afterwards the node has no post in flight, and no
// table, nor the changelog, has anything of the author from which another node could load such a post.
func TestErasureEndsFanouts(t *testing.T) {
	sqltest.EachURL(t, func(t *testing.T, url string) {
		n := world.StartNode(t, world.NodeOptions{Database: url, Redis: "embedded", ManualStepping: true})
		n.Fanout.ChunkSize = 2
		l := newRandomActors(n, 1, 5)
		for _, person := range l.userKeys[:5] {
			n.Follow(person, leaverKey)
		}
		n.SettleJobsAndCaches()
		n.Publish(leaverKey, "a post")
		n.RunWorkerOnce(n.Workers[0]) // splits the fan-out
		n.TailChangelog()
		if posts := n.Caches.InFlight.List(); len(posts) != 1 {
			t.Fatalf("in flight before: %v", posts)
		}
		eraseLeaver(n)
		claimed, err := jobs.Claim(t.Context(), n.DB, []string{erasures.JobKind}, 1, time.Minute, 0)
		if err != nil || len(claimed) != 1 {
			t.Fatal(claimed, err)
		}
		if err := n.Jobs.RunJobs(t.Context(), claimed); err != nil { // the first pass comes before the chunks
			t.Fatal(err)
		}
		n.SettleJobsAndCaches()
		if posts := n.Caches.InFlight.List(); len(posts) != 0 {
			t.Errorf("in flight: %v", posts)
		}
		for _, found := range findLeaverData(n, nil) {
			t.Errorf("left: %s", found)
		}
	})
}
