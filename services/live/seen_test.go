package live

import (
	"testing"
	"time"

	"tidings/services/fanout/fanouttest"
)

// Marking the board as seen moves the mark to the session's version, and never back.
func TestTheMarkOfABoardOnlyGrows(t *testing.T) {
	fanouttest.Each(t, nil, func(t *testing.T, w *fanouttest.World) {
		h := newHall(w, nil)
		viewer, host := w.Users(1)[0], w.Users(1)[0]
		w.Follow(host, viewer)
		one, two := plan(w, host, time.Hour), plan(w, host, time.Hour)
		h.later()
		start(w, one)
		h.later()
		session := h.page(viewer, Ask{}).Session
		text := session.String()
		start(w, two)
		h.later()
		for _, step := range []struct {
			text *string
			want uint64
		}{{&text, session.Version}, {nil, h.boards.Memory.Version()}, {&text, h.boards.Memory.Version()}} {
			cmd, err := h.boards.MarkSeen(t.Context(), viewer, step.text)
			h.Must(err)
			h.Must(h.Fanout.Commit(t.Context(), cmd)[0])
			if got := w.Document(viewer).LiveSeen; got != step.want {
				t.Errorf("after %v the mark is %d, want %d", step.text, got, step.want)
			}
		}
		if got := h.boards.Memory.liveSince(w.Document(viewer).Hosts, session.Version); len(got) != 1 || got[0].ID != two {
			t.Errorf("after the session's mark there would be %v", got)
		}
	})
}

// A node that has not loaded the shows yet loads them for a mark, or refuses it: it never accepts a mark that marks nothing.
func TestAMarkOnANodeThatHasNoShowsYet(t *testing.T) {
	fanouttest.Each(t, nil, func(t *testing.T, w *fanouttest.World) {
		h := newHall(w, nil)
		viewer, host := w.Users(1)[0], w.Users(1)[0]
		w.Follow(host, viewer)
		start(w, plan(w, host, time.Hour))
		h.later()
		late := newHall(w.AnotherNode(), nil)
		if late.boards.Memory.Loaded() {
			t.Fatal("the new node has loaded the shows already")
		}
		cmd, err := late.boards.MarkSeen(t.Context(), viewer, nil)
		h.Must(err)
		h.Must(h.Fanout.Commit(t.Context(), cmd)[0])
		if got, want := w.Document(viewer).LiveSeen, h.boards.Memory.Version(); got != want || want == 0 {
			t.Errorf("the mark is %d, want %d", got, want)
		}
	})
}
