package live

import (
	"slices"
	"testing"

	"tidings/services"
	"tidings/services/fanout/fanouttest"
)

// If the making of a board's list of replays panics, Board returns INTERNAL, and no board that hides the fault. When the fault is
// gone, the list is made.
func TestABoardWhoseReplaysPanicIsInternal(t *testing.T) {
	broken := false
	h := newBoardNode(fanouttest.New(t, fanouttest.Options{RedisURL: "embedded", Trace: func(statement string) {
		if broken && statement == "replays of followed hosts" {
			broken = false
			panic("while it makes the list")
		}
	}}), nil)
	users := h.MakeUsers(2)
	host, reader := users[0], users[1]
	h.Follow(host, reader)
	show := newReplay(h.World, host)
	h.RunAllJobs(h.Fanout)
	readOrRebuildBoard(h.World, reader)
	deleteReplayLists(h.World, reader)
	broken = true
	if board, err := h.boards.Board(t.Context(), reader, BoardRequest{First: 10}); !services.IsPanic(err) || services.CodeOf(err) != services.Internal {
		t.Errorf("the board is %v, %v", boardShowIDs(board), err)
	}
	if board, err := h.boards.Board(t.Context(), reader, BoardRequest{First: 10}); err != nil || !slices.Equal(boardShowIDs(board), []services.ShowID{show}) {
		t.Errorf("the board is %v, %v", boardShowIDs(board), err)
	}
	h.CheckAgainstFacts(users...)
}
