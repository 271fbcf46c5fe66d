package live

import (
	"context"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"tidings/services"
	"tidings/services/fanout/fanouttest"
	"tidings/services/projector"
	"tidings/services/rdb"
	"tidings/services/redis"
	"tidings/services/sql/sqltest"
)

// page reads a page, and fails the test on an error. It compares a new session's first page with ReadFirstPages's.
func (h boardNode) page(viewer services.UserID, ask BoardRequest) Board {
	h.TB.Helper()
	if ask.First == 0 {
		ask.First = 100
	}
	if ask.After != nil || ask.Session != nil || ask.LastID != nil {
		board, err := h.boards.Board(h.TB.Context(), viewer, ask)
		h.Must(err)
		return board
	}
	earlier := h.readyFirstPage(viewer, ask)
	board, err := h.boards.Board(h.TB.Context(), viewer, ask)
	h.Must(err)
	for when, ready := range map[string]*Board{"before": earlier, "after": h.readyFirstPage(viewer, ask)} {
		if ready == nil || when == "after" && board.ReplaysBeingBuilt { // the list of replays may be built by then
			continue
		}
		if ready.Session.CreationID <= 0 || ready.Session.CreationID == board.Session.CreationID {
			h.TB.Errorf("the session that is ready %s the page was made at %s, and that of the page at %s", when, ready.Session.CreationID, board.Session.CreationID)
		}
		ready.Session.CreationID = board.Session.CreationID // each page has a session of its own
		if diff := cmp.Diff(board, *ready); diff != "" {
			h.TB.Errorf("the board of %d, ready %s the page (-page +ready):\n%s", viewer, when, diff)
		}
	}
	return board
}

// advanceAndRefresh advances the clock, runs the due jobs, and refreshes this node's cache.
func (h boardNode) advanceAndRefresh() {
	h.TB.Helper()
	h.Clock.Advance(time.Second)
	h.RunDueJobs(h.Fanout)
	h.Must(h.boards.Memory.Refresh(h.TB.Context()))
}

// boardShowIDs returns the IDs of the shows on a page.
func boardShowIDs(board Board) (list []services.ShowID) {
	for _, item := range board.Items {
		list = append(list, item.Show.ID)
	}
	return list
}

// nextRequest is the request for the page after board: by a cursor, or by the session and the last show's ID.
func nextRequest(board Board, byCursor bool) BoardRequest {
	if len(board.Items) == 0 {
		session := board.Session.String()
		return BoardRequest{Session: &session}
	}
	last := board.Items[len(board.Items)-1]
	if byCursor {
		cursor := CursorText(board.Session, last.Position)
		return BoardRequest{After: &cursor}
	}
	session, id := board.Session.String(), last.Show.GlobalID()
	return BoardRequest{Session: &session, LastID: &id}
}

// sessionArgument returns the session as an argument of a request.
func sessionArgument(session Session) *string {
	text := session.String()
	return &text
}

// readRemainingPages returns the shows of a page and of all pages after it.
func (h boardNode) readRemainingPages(viewer services.UserID, board Board, first int) (list []services.ShowID, end services.FeedEnd) {
	h.TB.Helper()
	for turn := 0; ; turn++ {
		list = append(list, boardShowIDs(board)...)
		if !board.HasNext {
			return list, board.End
		}
		if len(board.Items) == 0 {
			h.TB.Fatalf("an empty page is followed, after %v", list)
		}
		ask := nextRequest(board, turn%2 == 0)
		ask.First = first
		session := board.Session
		if board = h.page(viewer, ask); board.Session != session || board.SessionReplaced {
			h.TB.Fatalf("session %+v became %+v", session, board.Session)
		}
	}
}

// Without Redis, and while the list of replays is missing, boards stay the same, and sessions continue.
func TestBoardsWithoutRedis(t *testing.T) {
	w := fanouttest.New(t, fanouttest.Options{})
	h := newBoardNode(w, nil)
	viewer, host := w.MakeUsers(1)[0], w.MakeUsers(1)[0]
	w.Follow(host, viewer)
	for range 6 {
		newReplay(w, host)
		h.advanceAndRefresh()
	}
	live, planned := planShow(w, host, time.Hour), planShow(w, host, 2*time.Hour)
	h.advanceAndRefresh()
	startShows(w, live)
	h.advanceAndRefresh()
	first := h.page(viewer, BoardRequest{First: 3})
	whole, end := h.readRemainingPages(viewer, h.page(viewer, BoardRequest{}), 3)
	if len(whole) != 8 || whole[0] != live || whole[1] != planned || end != services.EndOfFeed || first.ReplaysBeingBuilt {
		t.Fatalf("the board is %v, %q, building %t", whole, end, first.ReplaysBeingBuilt)
	}
	w.RedisServer.Kill()
	endShows(w, live)
	h.Clock.Advance(time.Second)
	h.Must(h.boards.Memory.Refresh(t.Context()))
	if got, end := h.readRemainingPages(viewer, h.page(viewer, BoardRequest{}), 3); !slices.Equal(got, append([]services.ShowID{planned, live}, whole[2:]...)) || end != services.EndOfFeed {
		t.Errorf("without Redis the board is %v, %q", got, end)
	}
	if got, _ := h.readRemainingPages(viewer, first, 2); !slices.Equal(got, whole) {
		t.Errorf("without Redis the session goes on with %v, want %v", got, whole)
	}
	w.RedisServer.Start()
	var back Board
	for range 100 {
		if back = h.page(viewer, BoardRequest{}); !back.ReplaysBeingBuilt {
			break
		}
	}
	if got := boardShowIDs(back); !slices.Equal(got, append([]services.ShowID{planned, live}, whole[2:]...)) || back.ReplaysBeingBuilt {
		t.Errorf("with an empty Redis the board is %v, building %t", got, back.ReplaysBeingBuilt)
	}
}

// A page does not wait long for a list of replays: the page is read from the facts and marked as building, and the list is built
// meanwhile.
func TestAPageDoesNotWaitForItsReplays(t *testing.T) {
	for name, pair := range map[string]fanouttest.Options{
		"embedded":   {SQLURL: sqltest.SQLite(t), RedisURL: "embedded"},
		"production": {SQLURL: sqltest.Postgres(t)},
	} {
		t.Run(name, func(t *testing.T) {
			var hold atomic.Bool // holds the next list that is made
			held, goOn := make(chan struct{}), make(chan struct{})
			pair.Trace = func(statement string) {
				if statement == "replays of followed hosts" && hold.CompareAndSwap(true, false) {
					close(held)
					<-goOn
				}
			}
			pair.Projector = func(cfg *projector.Config) { cfg.MaxParallelRebuilds = 1 }
			w := fanouttest.New(t, pair)
			h := newBoardNode(w, func(cfg *Config) { cfg.RebuildWait = time.Nanosecond })
			users := w.MakeUsers(3)
			viewer, other, host := users[0], users[1], users[2]
			w.Follow(host, viewer, other)
			replay := newReplay(w, host)
			h.advanceAndRefresh()
			hold.Store(true)
			made := make(chan error, 1)
			go func() { made <- showServiceOf(w).rebuildReplays(t.Context(), other) }()
			<-held // lists are made one at a time: the viewer's list comes after the held list
			board := h.page(viewer, BoardRequest{})
			if got := boardShowIDs(board); !slices.Equal(got, []services.ShowID{replay}) || !board.ReplaysBeingBuilt {
				t.Errorf("while the list is made the board is %v, building %t", got, board.ReplaysBeingBuilt)
			}
			close(goOn)
			w.Must(<-made)
			for deadline := time.Now().Add(time.Minute); board.ReplaysBeingBuilt; board = h.page(viewer, BoardRequest{}) {
				if time.Now().After(deadline) {
					t.Fatal("the list is not made")
				}
			}
			if got := boardShowIDs(board); !slices.Equal(got, []services.ShowID{replay}) {
				t.Errorf("then it is %v", got)
			}
		})
	}
}

// A node that is behind a session's version reads the log first, and a node that starts late shows the same board.
func TestANodeThatLagsCatchesUp(t *testing.T) {
	fanouttest.EachEnginePair(t, nil, func(t *testing.T, w *fanouttest.World) {
		h := newBoardNode(w, nil)
		viewer, host := w.MakeUsers(1)[0], w.MakeUsers(1)[0]
		w.Follow(host, viewer)
		one := planShow(w, host, time.Hour)
		h.advanceAndRefresh()
		behind := newBoardNode(w.AnotherNode(), nil)
		behind.page(viewer, BoardRequest{}) // it knows one show
		two := planShow(w, host, 30*time.Minute)
		h.advanceAndRefresh()
		first := h.page(viewer, BoardRequest{First: 1})
		startShows(w, one)
		h.advanceAndRefresh()
		if got := boardShowIDs(behind.page(viewer, BoardRequest{})); !slices.Equal(got, []services.ShowID{one}) {
			t.Errorf("a node that is behind makes sessions of what it knows: %v", got)
		}
		// The other node puts a replay into the viewer's list before this node reads of it in the log. The board that this node makes
		// now must not have that replay; later boards do.
		newReplay(w, host)
		h.advanceAndRefresh()
		h.page(viewer, BoardRequest{}) // makes the list
		newReplay(w, host)
		h.advanceAndRefresh()
		lags := behind.page(viewer, BoardRequest{})
		if got := boardShowIDs(lags); !slices.Equal(got, boardShowIDs(h.page(viewer, BoardRequest{Session: sessionArgument(lags.Session)}))) {
			t.Errorf("a node that is behind shows %v, and another one the same session otherwise", got)
		}
		starts := newBoardNode(w.AnotherNode(), nil)
		for _, node := range []boardNode{behind, starts} {
			next := node.page(viewer, nextRequest(first, true))
			if got := boardShowIDs(next); !slices.Equal(got, []services.ShowID{one}) || next.Items[0].Frozen.Status != ShowUpcoming || next.Items[0].Show.Status != ShowLive {
				t.Errorf("the second page is %v", next.Items)
			}
		}
		if got := boardShowIDs(first); !slices.Equal(got, []services.ShowID{two}) {
			t.Errorf("the first page was %v", got)
		}
	})
}

// Boards end after the newest 300 replays and report that end, for replays in lists and for those in nodes' caches.
func TestReplaysEndWithTheirRetention(t *testing.T) {
	for name, mode := range map[string]services.AuthorMode{"pushed": services.AuthorSmall, "pulled": services.AuthorHuge} {
		t.Run(name, func(t *testing.T) {
			w := fanouttest.New(t, fanouttest.Options{RedisURL: "embedded"})
			h := newBoardNode(w, nil)
			viewer, host := w.MakeUsers(1)[0], w.MakeUsers(1)[0]
			w.SetMode(host, mode)
			w.Follow(host, viewer)
			h.advanceAndRefresh()
			const many = services.FeedRetention + 20
			shows := make([]services.ShowID, many)
			for i := range shows {
				shows[i] = planShow(w, host, time.Hour)
			}
			h.advanceAndRefresh()
			for i := range 4 {
				part := shows[i*many/4 : (i+1)*many/4]
				startShows(w, part...)
				h.Clock.Advance(time.Millisecond)
				endShows(w, part...)
				h.advanceAndRefresh()
			}
			slices.Reverse(shows)
			got, end := h.readRemainingPages(viewer, h.page(viewer, BoardRequest{First: 70}), 70)
			if len(got) != services.FeedRetention || !slices.Equal(got, shows[:services.FeedRetention]) || end != services.EndOfRetention {
				t.Errorf("%d replays, from %v to %v, end %q", len(got), got[0], got[len(got)-1], end)
			}
		})
	}
}

// The show that a viewer saw last may have left the board: its host was unfollowed, or unfollowed and followed again. The
// next page still continues from the show's position.
func TestASessionContinuesAfterItsLastHostIsUnfollowed(t *testing.T) {
	fanouttest.EachEnginePair(t, nil, func(t *testing.T, w *fanouttest.World) {
		h := newBoardNode(w, nil)
		viewer := w.MakeUsers(1)[0]
		hosts := w.MakeUsers(3)
		var shows []services.ShowID
		for i := range 6 {
			if i < 3 {
				w.Follow(hosts[i], viewer)
			}
			shows = append(shows, planShow(w, hosts[i%3], time.Duration(i+1)*time.Hour))
			h.advanceAndRefresh()
		}
		page := h.page(viewer, BoardRequest{First: 2}) // hosts 0 and 1
		w.Unfollow(hosts[1], viewer)
		h.advanceAndRefresh()
		for _, byCursor := range []bool{true, false} {
			next := h.page(viewer, nextRequest(page, byCursor))
			if got := boardShowIDs(next); !slices.Equal(got, []services.ShowID{shows[2], shows[3], shows[5]}) || next.SessionReplaced {
				t.Errorf("after an unfollow: %v of %v", got, shows)
			}
		}
		w.Follow(hosts[1], viewer)
		h.advanceAndRefresh()
		if got := boardShowIDs(h.page(viewer, nextRequest(page, false))); !slices.Equal(got, []services.ShowID{shows[2], shows[3], shows[5]}) {
			t.Errorf("a host who is followed again waits for the next session: %v of %v", got, shows)
		}
		if got := boardShowIDs(h.page(viewer, BoardRequest{})); len(got) != 6 {
			t.Errorf("a new session has %v of %v", got, shows)
		}
	})
}

// A host who was followed after the session began has many newer replays. They do not displace the session's replays from the
// session's pages. A node whose cache of shows is older than the list of replays in Redis shows no empty page.
func TestNewerReplaysDoNotDisplaceThoseOfASession(t *testing.T) {
	fanouttest.EachEnginePair(t, nil, func(t *testing.T, w *fanouttest.World) {
		h := newBoardNode(w, nil)
		viewer, host, other := w.MakeUsers(1)[0], w.MakeUsers(1)[0], w.MakeUsers(1)[0]
		w.Follow(host, viewer)
		var old []services.ShowID
		for range 4 {
			old = append([]services.ShowID{newReplay(w, host)}, old...)
			h.advanceAndRefresh()
		}
		behind := newBoardNode(w.AnotherNode(), nil)
		behind.page(viewer, BoardRequest{})
		for range 8 {
			newReplay(w, other)
			newReplay(w, host)
			h.advanceAndRefresh()
		}
		lags := behind.page(viewer, BoardRequest{First: 1})
		if got, _ := behind.readRemainingPages(viewer, lags, 1); !slices.Equal(got, old) {
			t.Errorf("a node that is behind lists %v, want %v", got, old)
		}
		session := h.page(viewer, BoardRequest{First: 1})
		w.Follow(other, viewer)
		h.advanceAndRefresh()
		if got, _ := h.readRemainingPages(viewer, session, 1); len(got) != 12 || !slices.Equal(got[8:], old) {
			t.Errorf("the session lists %v, at its end %v", got, old)
		}
		if got, _ := h.readRemainingPages(viewer, h.page(viewer, BoardRequest{First: 3}), 3); len(got) != 20 {
			t.Errorf("a new one lists %v", got)
		}
	})
}

// A subscription whose session's slot (SessionScope) another session has taken continues with a new session, and does not end the session
// that has the slot.
func TestAnOpenBoardContinuesWhenItsSlotIsTaken(t *testing.T) {
	w := fanouttest.New(t, fanouttest.Options{})
	redis, err := rdb.Open(t.Context(), redis.Options{URL: w.RedisServer.URL(), NodeID: "clocked", Clock: w.Clock, Log: w.Log, DataDir: t.TempDir()}, rdb.DocumentShape{})
	w.Must(err)
	t.Cleanup(func() { w.Must(redis.Close()) })
	h := newBoardNode(w, func(cfg *Config) { cfg.Redis, cfg.SessionScope = redis, string(perUser) })
	viewer, host := w.MakeUsers(1)[0], w.MakeUsers(1)[0]
	w.Follow(host, viewer)
	show := planShow(w, host, time.Hour)
	h.advanceAndRefresh()
	first := h.page(viewer, BoardRequest{})
	badges := make(chan *services.Badges, 1)
	ctx, cancel := context.WithCancel(t.Context())
	changes, err := h.boards.Watch(ctx, viewer, sessionArgument(first.Session), "", badges)
	w.Must(err)
	badges <- &services.Badges{}
	if change := <-changes; change.SessionReplaced || change.Session != first.Session {
		t.Errorf("the first event: %+v", change)
	}
	h.Clock.Advance(time.Second)
	second := h.page(viewer, BoardRequest{})
	badges <- &services.Badges{Version: "2"}
	change := <-changes
	if !change.SessionReplaced || change.Session == first.Session || change.Session == second.Session {
		t.Errorf("after another first page: %+v", change)
	}
	if again := h.page(viewer, BoardRequest{Session: sessionArgument(second.Session)}); again.SessionReplaced {
		t.Error("the subscription has ended the session that took its room")
	}
	startShows(w, show)
	h.advanceAndRefresh()
	badges <- &services.Badges{Version: "3", LiveSequence: 1 << 62}
	if event := <-changes; event.Session != change.Session || len(event.WentLive) != 1 {
		t.Errorf("what went live after the new session: %+v", event)
	}
	cancel()
	for range changes { // until it is closed
	}
}
