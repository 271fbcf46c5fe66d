package badge

import (
	"testing"
	"time"

	"tidings/services"
	"tidings/services/fanout/fanouttest"
)

// A user who was idle sees the right count at the first read, whether big or small authors posted meanwhile, and fan-out
// pushes to them again from then on.
func TestTheCountOfAReturningUserIsRight(t *testing.T) {
	fanouttest.EachEnginePair(t, nil, func(t *testing.T, w *fanouttest.World) {
		n := newNode(w)
		users := n.MakeUsers(3)
		big, small, reader := users[0], users[1], users[2]
		n.Follow(big, reader)
		n.Follow(small, reader)
		n.SetMode(big, services.AuthorBig)
		n.RunAllJobs(n.World.Fanout)
		if got := n.read(reader).HomeFeed; got.Value != 0 {
			t.Fatalf("before anybody posts: %+v", got)
		}
		left := n.Clock.Now()
		for range 3 {
			n.Clock.Advance(3 * 24 * time.Hour)
			n.Post(big)
			n.Post(small)
			n.RunAllJobs(n.World.Fanout)
		}
		if document := n.Document(reader); document.FeedCount >= 6 {
			t.Fatalf("posts were pushed to an idle user: %d", document.FeedCount)
		}
		if got := n.read(reader).HomeFeed; got.Value != 6 || got.Precision != services.Exact {
			t.Errorf("a user who returns is shown %+v, want 6", got)
		}
		if !n.isActiveFollower(big, reader, left.Add(time.Hour)) {
			t.Error("the visit of a user who returned is not recorded")
		}
		n.Post(big)
		n.RunAllJobs(n.World.Fanout)
		if got := n.read(reader).HomeFeed; got.Value != 7 {
			t.Errorf("after one more: %+v, want 7", got)
		}
		n.CheckAgainstFacts(reader)
	})
}
