package badge

import (
	"testing"
	"time"

	"tidings/services"
	"tidings/services/fanout/fanouttest"
)

// Whoever was idle is shown the right number at his first look, whichever authors posted meanwhile, and is served again
// from then on.
func TestTheNumberOfOneWhoReturnsIsRight(t *testing.T) {
	fanouttest.Each(t, nil, func(t *testing.T, w *fanouttest.World) {
		n := newNode(w)
		users := n.Users(3)
		big, small, reader := users[0], users[1], users[2]
		n.Follow(big, reader)
		n.Follow(small, reader)
		n.SetMode(big, services.AuthorBig)
		n.Quiet(n.World.Fanout)
		if got := n.read(reader).HomeFeed; got.Value != 0 {
			t.Fatalf("before anybody posts: %+v", got)
		}
		left := n.Clock.Now()
		for range 3 {
			n.Clock.Advance(3 * 24 * time.Hour)
			n.Post(big)
			n.Post(small)
			n.Quiet(n.World.Fanout)
		}
		if document := n.Document(reader); document.FeedCount >= 6 {
			t.Fatalf("to somebody idle all was pushed: %d", document.FeedCount)
		}
		if got := n.read(reader).HomeFeed; got.Value != 6 || got.Precision != services.Exact {
			t.Errorf("who returns is shown %+v, want 6", got)
		}
		if !n.active(big, reader, left.Add(time.Hour)) {
			t.Error("who has returned is not noted as seen")
		}
		n.Post(big)
		n.Quiet(n.World.Fanout)
		if got := n.read(reader).HomeFeed; got.Value != 7 {
			t.Errorf("after one more: %+v, want 7", got)
		}
		n.Agree(reader)
	})
}
