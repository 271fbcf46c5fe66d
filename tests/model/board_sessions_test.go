package model

import (
	"context"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/live"
	"tidings/services/node"
	"tidings/services/positions"
	"tidings/services/projector"
	"tidings/services/redis/redistest"
	"tidings/services/sql/sqltest"
	"tidings/tests/world"
)

// startBoardNode starts a node with a reader who follows a host of three shows. sessions is the value of live.Settings.SessionScope
// (--board-sessions): "request", "device" or "user".
func startBoardNode(t *testing.T, redis, sessions string) (n *world.Node, reader services.UserID) {
	t.Helper()
	return startBoardNodeWith(t, world.NodeOptions{Database: sqltest.SQLite(t), Redis: redis, ManualStepping: true, ChangeConfig: func(cfg *node.Config) { cfg.Live.SessionScope = sessions }})
}

// startBoardNodeWith starts a node with these options and a reader who follows a host of three shows.
func startBoardNodeWith(t *testing.T, options world.NodeOptions) (n *world.Node, reader services.UserID) {
	t.Helper()
	n = world.StartNode(t, options)
	n.Follow("reader", "host")
	for i := range 3 {
		n.ScheduleShow("host", "show", n.Clock.Now().Add(time.Duration(i+1)*24*time.Hour))
	}
	n.RunJobs()
	if err := n.Live.Memory.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	return n, n.EnsureUserIDs("reader")[0]
}

// If the settings allow a device or a user only one session of the board, a read of the first page ends the former session.
func TestANewSessionEndsTheFormerOne(t *testing.T) {
	for _, sessions := range []string{"request", "device", "user"} {
		t.Run(sessions, func(t *testing.T) {
			n, reader := startBoardNode(t, redistest.Redis(t), sessions)
			open := func(device string) live.Session {
				t.Helper()
				return n.ReadOneShowBoardPage(reader, live.BoardRequest{Device: device}).Session
			}
			ended := func(session live.Session) bool {
				t.Helper()
				text := session.String()
				return n.ReadOneShowBoardPage(reader, live.BoardRequest{Session: &text}).SessionReplaced
			}
			old, phone, tablet, nameless, last := open("phone"), open("phone"), open("tablet"), open(""), open("")
			for _, c := range []struct {
				what    string
				session live.Session
				ended   map[string]bool
			}{
				{"the last", last, nil},
				{"one without a device", nameless, map[string]bool{"user": true}},
				{"another device's", tablet, map[string]bool{"user": true}},
				{"the phone's", phone, map[string]bool{"user": true}},
				{"the phone's former one", old, map[string]bool{"device": true, "user": true}},
			} {
				if got := ended(c.session); got != c.ended[sessions] {
					t.Errorf("%s has ended: %t", c.what, got)
				}
			}
		})
	}
}

// A session of the board lives for 30 minutes after each read, but 12 hours at most. A read after its end does not revive it.
func TestBoardSessionsEndAfter30MinutesIdleOr12Hours(t *testing.T) {
	for name, redis := range map[string]func(*testing.T) string{
		"embedded": func(*testing.T) string { return "embedded" },
		"redis":    func(t *testing.T) string { return redistest.Redis(t) },
	} {
		t.Run(name, func(t *testing.T) {
			n, reader := startBoardNode(t, redis(t), "request")
			idle, used := n.ReadOneShowBoardPage(reader, live.BoardRequest{}), n.ReadOneShowBoardPage(reader, live.BoardRequest{})
			turn := func(page live.Board) live.Board {
				t.Helper()
				cursor := live.CursorText(page.Session, page.Items[0].Position)
				return n.ReadOneShowBoardPage(reader, live.BoardRequest{After: &cursor})
			}
			for passed := time.Duration(0); passed < 12*time.Hour-30*time.Minute; passed += 29 * time.Minute {
				if next := turn(used); next.SessionReplaced || next.Session != used.Session {
					t.Fatalf("after %s a session that is read is over", passed)
				}
				n.Clock.Advance(29 * time.Minute)
			}
			n.Clock.Advance(time.Hour)
			for what, page := range map[string]live.Board{"nobody read": idle, "is 12 hours old": used} {
				next := turn(page)
				if !next.SessionReplaced || next.Session == page.Session || !page.Items[0].Position.Before(next.Items[0].Position) {
					t.Errorf("a session that %s goes on: %+v", what, next)
				}
				if again := turn(page); !again.SessionReplaced || again.Session == next.Session {
					t.Errorf("a session that is over came back: %+v", again)
				}
			}
		})
	}
}

// The lifetime of sessions of the board is a setting. Nodes and the database keep the former positions of shows for that long, and not
// much longer. Later pages of a session need them, even on a node that has just started.
func TestTheHistoryOfShowsIsKeptForTheLifeOfASession(t *testing.T) {
	on := func(lives time.Duration) world.NodeOptions {
		return world.NodeOptions{Database: sqltest.SQLite(t), Redis: redistest.Redis(t), ManualStepping: true, ChangeConfig: func(cfg *node.Config) { cfg.Live.SessionIdleTime = lives }}
	}
	// moved returns the first page of a board, and the show that was last on the board and moved to the top after the session began.
	moved := func(t *testing.T, options world.NodeOptions) (n *world.Node, reader services.UserID, top live.Board, last services.ShowID) {
		t.Helper()
		n, reader = startBoardNodeWith(t, options)
		top = n.ReadOneShowBoardPage(reader, live.BoardRequest{})
		shows := n.ReadBoardPage("reader", 3, world.BoardPageStart{}).Ids()
		n.MutateShow("host", "startShow", shows[2])
		last, err := live.ParseShowID("id", shows[2])
		if err != nil {
			t.Fatal(err)
		}
		return n, reader, top, last
	}
	clean := func(t *testing.T, n *world.Node) {
		t.Helper()
		if _, err := projector.NewJanitor(n.Projector).RunOnce(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := n.Live.Memory.Refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	t.Run("no less", func(t *testing.T) {
		options := on(time.Hour)
		n, reader, top, last := moved(t, options)
		cursor := live.CursorText(top.Session, top.Items[0].Position)
		var second live.Board
		for range 24 { // 23 h 12 min in all
			if second = n.ReadOneShowBoardPage(reader, live.BoardRequest{After: &cursor}); second.SessionReplaced {
				t.Fatal("a session that is read is over")
			}
			n.Clock.Advance(58 * time.Minute)
		}
		cursor = live.CursorText(top.Session, second.Items[0].Position)
		third := func(what string, n *world.Node) {
			t.Helper()
			clean(t, n)
			page := n.ReadOneShowBoardPage(reader, live.BoardRequest{After: &cursor})
			if got := page.Items[0].Show; page.SessionReplaced || page.Session != top.Session || got.ID != last {
				t.Errorf("%s shows %+v after the second show, want %s", what, got, last)
			}
		}
		third("the node", n)
		n.Stop()
		again := world.StartNode(t, options)
		again.Clock.Advance(time.Duration(n.Clock.OffsetNanos.Load()))
		third("one that has just started", again)
	})
	t.Run("not much more", func(t *testing.T) {
		n, _, top, last := moved(t, on(5*time.Minute))
		n.Clock.Advance(2*time.Hour + 2*time.Hour)
		clean(t, n)
		if kept, err := sqltest.QueryLines(t.Context(), n.DB, "SELECT show FROM show_history"); err != nil || len(kept) > 0 {
			t.Errorf("the database has %+v, %v", kept, err)
		}
		if show, _, there := n.Live.Memory.ShowAt(last, top.Session.Version); there {
			t.Errorf("memory has %+v", show)
		}
	})
}

// A session of the board lives while a subscription to it is open. When the session is 12 hours old, the subscription begins a new one.
func TestAnOpenBoardKeepsItsSession(t *testing.T) {
	n, reader := startBoardNode(t, redistest.Redis(t), "request")
	page := n.ReadOneShowBoardPage(reader, live.BoardRequest{})
	text := page.Session.String()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	badges := make(chan *services.Badges, 1)
	badges <- &services.Badges{}
	changes, err := n.Live.Watch(ctx, reader, &text, "", badges)
	if err != nil {
		t.Fatal(err)
	}
	next := func() live.BoardChange {
		t.Helper()
		select {
		case change := <-changes:
			return change
		case <-time.After(world.RedisLossRecoveryTimeout):
			t.Fatal("nothing is pushed")
		}
		return live.BoardChange{}
	}
	if change := next(); !change.Unchanged() || change.Session != page.Session {
		t.Fatalf("the first event: %+v", change)
	}
	for i := 1; i <= 3; i++ {
		n.Clock.Advance(20 * time.Minute)
		n.ScheduleShow("host", "a show above", n.Clock.Now().Add(time.Hour))
		if change := next(); change.NewAboveCount != i || change.SessionReplaced || change.Session != page.Session {
			t.Fatalf("after %d shows: %+v", i, change)
		}
	}
	if next := n.ReadOneShowBoardPage(reader, live.BoardRequest{Session: &text}); next.SessionReplaced {
		t.Error("a session that is watched is over")
	}
	n.Clock.Advance(12 * time.Hour)
	n.ScheduleShow("host", "the newest", n.Clock.Now().Add(time.Minute))
	if change := next(); !change.SessionReplaced || change.Session == page.Session || change.NewAboveCount != 0 {
		t.Errorf("after 12 hours: %+v", change)
	}
	if next := n.ReadOneShowBoardPage(reader, live.BoardRequest{Session: &text}); !next.SessionReplaced {
		t.Error("a session of more than 12 hours goes on")
	}
	cancel()
	for range changes { // until the channel is closed
	}
}

// An event of the host application marks a user's board as seen: as it was when a session began, or as it is now.
func TestAnEventMarksTheBoardAsSeen(t *testing.T) {
	n, reader := startBoardNode(t, "embedded", "request")
	session := n.ReadOneShowBoardPage(reader, live.BoardRequest{}).Session
	n.ScheduleShow("host", "one more", n.Clock.Now().Add(time.Hour))
	for _, step := range []struct {
		event map[string]any
		want  uint64
	}{
		{map[string]any{"sessionId": session.String()}, session.Version},
		{map[string]any{"idempotencyKey": "now"}, session.Version + 1},
	} {
		var data struct {
			Ingest struct {
				Results []struct{ Error *struct{ Message string } }
			}
		}
		n.MustAsk("host:ingest", `mutation($e:[IngestEvent!]!){ingest(events:$e){results{error{message}}}}`,
			map[string]any{"e": []any{map[string]any{"as": "user:reader", "do": map[string]any{"markLiveBoardSeen": step.event}}}}, &data)
		if got := data.Ingest.Results; len(got) != 1 || got[0].Error != nil {
			t.Fatalf("%v: %+v", step.event, got)
		}
		if seen, err := positions.Of[uint64](t.Context(), n.DB, reader, positions.LiveBoardView); err != nil || seen != step.want {
			t.Errorf("%v: seen up to %d, want %d, %v", step.event, seen, step.want, err)
		}
	}
}
