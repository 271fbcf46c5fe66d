package live

import (
	"testing"

	"tidings/services"
	"tidings/services/fanout/fanouttest"
)

// A viewer's list of replays can be ahead of a node's memory by more than a page: the node catches up, and gives no page that has
// nothing and yet a next one, from which nobody could go on.
func TestAPageOfANodeThatIsBehind(t *testing.T) {
	fanouttest.Each(t, nil, func(t *testing.T, w *fanouttest.World) {
		h := newHall(w, nil)
		behind := newHall(w.AnotherNode(), nil)
		viewer, host := w.Users(1)[0], w.Users(1)[0]
		w.Follow(host, viewer)
		want := []services.PostID{w.Replay(host)}
		h.later()
		h.Must(behind.Mirror.RefreshShows(t.Context()))
		former := behind.page(viewer, Ask{First: 2})
		for range 12 {
			want = append([]services.PostID{w.Replay(host)}, want...)
			h.later()
		}
		first := behind.page(viewer, Ask{First: 2})
		if len(first.Items) == 0 || !first.HasNext {
			t.Fatalf("the first page has %d shows, next %t", len(first.Items), first.HasNext)
		}
		if got, _ := behind.walk(viewer, first, 2); len(got) != len(want) {
			t.Errorf("the board is %v, want %v", got, want)
		}
		if got := behind.page(viewer, Ask{First: 2, Session: text(former.Session)}); len(got.Items) != 1 || got.HasNext || got.Replaced {
			t.Errorf("the session of before has %v, next %t", shown(got), got.HasNext)
		}
	})
}
