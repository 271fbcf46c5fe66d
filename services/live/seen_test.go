package live

import (
	"testing"
	"time"

	"tidings/services/fanout/fanouttest"
)

// Marking the board as seen moves the seen position to the session's version, and never back.
func TestTheSeenPositionOfABoardOnlyRises(t *testing.T) {
	fanouttest.EachEnginePair(t, nil, func(t *testing.T, w *fanouttest.World) {
		h := newBoardNode(w, nil)
		viewer, host := w.MakeUsers(1)[0], w.MakeUsers(1)[0]
		w.Follow(host, viewer)
		one, two := planShow(w, host, time.Hour), planShow(w, host, time.Hour)
		h.advanceAndRefresh()
		startShows(w, one)
		h.advanceAndRefresh()
		session := h.page(viewer, BoardRequest{}).Session
		text := session.String()
		startShows(w, two)
		h.advanceAndRefresh()
		for _, step := range []struct {
			text *string
			want uint64
		}{{&text, session.Version}, {nil, h.boards.Memory.Version()}, {&text, h.boards.Memory.Version()}} {
			cmd, err := h.boards.MarkSeen(t.Context(), viewer, step.text)
			h.Must(err)
			h.Must(h.Fanout.Commit(t.Context(), cmd)[0])
			if got := w.Document(viewer).LiveSeenUpTo; got != step.want {
				t.Errorf("after %v the mark is %d, want %d", step.text, got, step.want)
			}
		}
		if got := h.boards.Memory.liveSince(w.Document(viewer).Hosts, session.Version); len(got) != 1 || got[0].ID != two {
			t.Errorf("after the session's mark there would be %v", got)
		}
	})
}

// A node that has not loaded the shows yet loads them for a mark, or refuses it: it never accepts a mark that marks nothing.
func TestANodeLoadsShowsBeforeItMarksABoardSeen(t *testing.T) {
	fanouttest.EachEnginePair(t, nil, func(t *testing.T, w *fanouttest.World) {
		h := newBoardNode(w, nil)
		viewer, host := w.MakeUsers(1)[0], w.MakeUsers(1)[0]
		w.Follow(host, viewer)
		startShows(w, planShow(w, host, time.Hour))
		h.advanceAndRefresh()
		late := newBoardNode(w.AnotherNode(), nil)
		if late.boards.Memory.Loaded() {
			t.Fatal("the new node has loaded the shows already")
		}
		cmd, err := late.boards.MarkSeen(t.Context(), viewer, nil)
		h.Must(err)
		h.Must(h.Fanout.Commit(t.Context(), cmd)[0])
		if got, want := w.Document(viewer).LiveSeenUpTo, h.boards.Memory.Version(); got != want || want == 0 {
			t.Errorf("the mark is %d, want %d", got, want)
		}
	})
}
