package live

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/fanout/fanouttest"
	"tidings/services/jobs"
	"tidings/services/redis"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
)

// readyFirstPage is a viewer's first page by ReadFirstPages; nil if it is not ready. boardNode.page compares it with Board's.
func (h boardNode) readyFirstPage(viewer services.UserID, ask BoardRequest) (page *Board) {
	h.TB.Helper()
	err := h.boards.ReadFirstPages(h.TB.Context(), []FirstPageRequest{{viewer, ask.First, ask.Device}}, func(_ int, board Board) { page = &board })
	if err != nil && (!services.IsUnavailable(err) || page != nil) {
		h.TB.Fatalf("%+v, %v", page, err)
	}
	return page
}

// newFullBoardViewer returns a new viewer whose board has a live show and upcoming ones, enough for pages of 5.
func (h boardNode) newFullBoardViewer() services.UserID {
	h.TB.Helper()
	users := h.MakeUsers(2)
	h.Follow(users[1], users[0])
	for i := range 6 {
		show := planShow(h.World, users[1], time.Duration(i+1)*time.Hour)
		h.advanceAndRefresh()
		if i == 3 {
			startShows(h.World, show)
		}
	}
	h.advanceAndRefresh()
	h.RunAllJobs(h.Fanout)
	h.page(users[0], BoardRequest{First: 5})
	return users[0]
}

// All ready pages together take one round trip and no statement, for viewers with pages of different sizes.
func TestFirstPagesAreOneRoundTrip(t *testing.T) {
	var statements atomic.Int64
	h := newBoardNode(fanouttest.New(t, fanouttest.Options{SQLURL: sqltest.SQLite(t), Trace: func(string) { statements.Add(1) }}), nil)
	viewer := h.newFullBoardViewer()
	alone, stranger := h.MakeUsers(1)[0], h.MakeNeverSeenUsers(1)[0]
	h.page(alone, BoardRequest{First: 5}) // follows nobody
	before := statements.Load()
	ctx, trips := redis.WithRoundTrips(t.Context())
	asked := []FirstPageRequest{{viewer, 5, ""}, {stranger, 5, ""}, {viewer, 2, "phone"}, {alone, 5, ""}, {viewer, 6, ""}}
	shown := map[int]int{}
	h.Must(h.boards.ReadFirstPages(ctx, asked, func(i int, board Board) {
		shown[i] = len(board.Items)
		if board.Session.Viewer != asked[i].Viewer || board.Session.DeviceHash != deviceHash(asked[i].Device) || board.HasNext != (asked[i].Viewer == viewer) {
			t.Errorf("page %d: %+v", i, board)
		}
	}))
	// A page of 6 may need replays, so it is left to Board.
	if len(shown) != 3 || shown[0] != 5 || shown[2] != 2 || shown[3] != 0 || trips.Count() != 1 || statements.Load() != before {
		t.Errorf("pages of %v shows, %d round trips and %d statements", shown, trips.Count(), statements.Load()-before)
	}
	h.Must(h.boards.ReadFirstPages(ctx, nil, func(int, Board) { t.Error("a page of nobody") }))
}

// wantFirstPageNotReady checks that a viewer's first page is not ready, and becomes ready by a call of Board.
func (h boardNode) wantFirstPageNotReady(what string, viewer services.UserID) {
	h.TB.Helper()
	for range 2 { // the second time too: ReadFirstPages does not make the page ready
		if page := h.readyFirstPage(viewer, BoardRequest{First: 5}); page != nil {
			h.TB.Errorf("%s: %v is ready", what, boardShowIDs(*page))
		}
	}
	if h.page(viewer, BoardRequest{First: 5}); h.readyFirstPage(viewer, BoardRequest{First: 5}) == nil {
		h.TB.Errorf("%s: nothing is ready after a read", what)
	}
}

// ReadFirstPages leaves out a page that only Board can make, and finds it once Board has read the missing data.
func TestReadFirstPagesLeavesIncompletePagesToBoard(t *testing.T) {
	h := newBoardNode(fanouttest.New(t, fanouttest.Options{}), nil)
	viewer := h.newFullBoardViewer()
	h.Caches.People.Clear()
	h.wantFirstPageNotReady("a host that this node has not read", viewer)
	h.Must(h.Redis.ResetUserData(t.Context(), viewer))
	h.wantFirstPageNotReady("a document that is lost", viewer)

	missed := errors.New("missed")
	apply := func(context.Context, *sql.Tx) ([]string, error) { return nil, nil }
	h.Must(h.Fanout.Commit(t.Context(), &jobs.Command{Actor: viewer, Name: "mark", Apply: apply, AfterCommit: func(context.Context) error { return missed }})[0])
	if page := h.readyFirstPage(viewer, BoardRequest{First: 5}); page != nil {
		t.Errorf("a board that lacks an update: %v is ready", boardShowIDs(*page))
	}
	missed = nil
	if left := h.Fanout.UpdateStaleProjections(t.Context()); left != 0 || h.readyFirstPage(viewer, BoardRequest{First: 5}) == nil {
		t.Errorf("after the update nothing is ready, %d users are owed one", left)
	}
	h.Clock.Advance(h.Projector.RedisKeyLifetime())
	if page := h.readyFirstPage(viewer, BoardRequest{First: 5}); page != nil {
		t.Errorf("a viewer who comes back after a long time: %v is ready", boardShowIDs(*page))
	}
	h.RedisServer.Kill()
	err := h.boards.ReadFirstPages(t.Context(), []FirstPageRequest{{viewer, 5, ""}}, func(int, Board) { t.Error("a page without Redis") })
	if !services.IsUnavailable(err) {
		t.Errorf("without Redis: %v", err)
	}
}

// The session of a first page that shares a slot with others (SessionScope) takes the slot in Redis, so the page is left to Board.
func TestFirstPagesThatShareASlot(t *testing.T) {
	for scope, ready := range map[SessionScope]map[string]bool{
		perRequest: {"": true, "phone": true}, perDevice: {"": true, "phone": false}, perUser: {"": false, "phone": false},
	} {
		t.Run(string(scope), func(t *testing.T) {
			h := newBoardNode(fanouttest.New(t, fanouttest.Options{}), func(cfg *Config) { cfg.SessionScope = string(scope) })
			viewer := h.newFullBoardViewer()
			for device, want := range ready {
				if got := h.readyFirstPage(viewer, BoardRequest{First: 5, Device: device}); (got != nil) != want {
					t.Errorf("of the device %q: %+v is ready", device, got)
				}
			}
		})
	}
}

// A node that has not loaded its shows serves no boards.
func TestNoFirstPageBeforeShowsAreLoaded(t *testing.T) {
	h := newBoardNode(fanouttest.New(t, fanouttest.Options{}), nil)
	viewer := h.newFullBoardViewer()
	other := newBoardNode(h.AnotherNode(), nil)
	if other.boards.Memory.Loaded() {
		t.Fatal("the other node has loaded its shows")
	}
	alone := h.MakeUsers(1)[0]
	h.page(alone, BoardRequest{First: 5})
	if page := other.readyFirstPage(alone, BoardRequest{First: 5}); page != nil {
		t.Errorf("the board of who follows nobody is ready: %+v", page)
	}
	other.wantFirstPageNotReady("a node that has loaded nothing", viewer)
}
