package model

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tidings/services"
	"tidings/services/live"
	"tidings/services/node"
	"tidings/services/redis/redistest"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
	"tidings/tests/histories"
	"tidings/tests/world"
)

func (b *boards) actions() map[string]func(*rapid.T) {
	actions := map[string]func(*rapid.T){
		"schedule": b.schedule, "schedule again": b.schedule, "start": b.start, "start again": b.start, "end": b.end, "end again": b.end,
		"reschedule": b.reschedule, "cancel": b.cancel, "follow": b.follow, "follow again": b.follow, "mode": b.setMode,
		"open": b.openSession, "open again": b.openSession, "go on": b.continueSession, "go on again": b.continueSession, "go on once more": b.continueSession, "later": b.letTimePass, "watch": b.watch,
		"work": func(t *rapid.T) {
			n := b.node(t)
			n.Work(rapid.SampledFrom(n.Workers).Draw(t, "worker"))
		},
		"tail": func(t *rapid.T) {
			if _, err := b.node(t).Caches.Changelog.RunOnce(t.Context()); err != nil {
				t.Fatal(err)
			}
		},
		"load anew": b.reload, "pin": b.pin,
	}
	if b.flush != nil {
		actions["flush"] = b.emptyRedis
	}
	return actions
}

// pin pins the mode of a host. The mode decides whether the host's replays come to boards from lists or from the node cache.
func (b *boards) pin(t *rapid.T) {
	host := rapid.SampledFrom(b.hosts).Draw(t, "host")
	if !slices.ContainsFunc(b.shows, func(s *boardModel) bool { return s.host == host }) {
		return // no request has named the host yet
	}
	mode := rapid.SampledFrom([]string{"SMALL", "BIG", "HUGE", "HUGE"}).Draw(t, "mode")
	b.node(t).Must("operator:admin", fmt.Sprintf(`mutation{pinAuthorMode(input:{userId:"user:%s",mode:%s}){author{mode}}}`, host, mode), nil, nil)
	b.runDue()
}

// reload makes every node reload all shows, as a starting node does.
func (b *boards) reload(t *rapid.T) {
	if err := b.nodes[0].Store.Write(t.Context(), func(tx *sql.Tx) error {
		_, err := live.AppendReload(t.Context(), tx)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	b.recordShows()
}

// has reports whether the host's shows are now on the session's board.
func (b *boards) has(s *sessionModel, host string) bool {
	p := relation{s.reader, host}
	follow, follows := b.follows[p]
	return follows && (follow.step <= s.step || s.recent[follow.step]) && !b.mutes[p]
}

// lastFollows looks at the hosts who are on a reader's board now, and at the steps in which the reader followed them. step is the last
// of these steps before since, 0 without one. recent are the steps from since on.
func (b *boards) lastFollows(reader string, since time.Time) (step int, recent map[int]bool) {
	recent = map[int]bool{}
	for _, show := range b.shows {
		p := relation{reader, show.host}
		switch follow, follows := b.follows[p]; {
		case !follows || b.mutes[p]:
		case follow.at.Before(since):
			step = max(step, follow.step)
		default:
			recent[follow.step] = true
		}
	}
	return step, recent
}

// watch opens a board's subscription and compares its first event with the model.
func (b *boards) watch(t *rapid.T) {
	var living []*sessionModel
	for _, s := range b.sessions {
		if b.lives(s) {
			living = append(living, s)
		}
	}
	if len(living) == 0 {
		return
	}
	s, n := rapid.SampledFrom(living).Draw(t, "session"), b.nodes[0]
	if err := n.Live.Memory.Refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	shown := make(chan *services.Badges, 1)
	shown <- &services.Badges{LiveSequence: 1 << 62} // these badges count every live show
	changes, err := n.Live.Watch(ctx, n.IDsOf(s.reader)[0], &s.id, "", shown)
	if err != nil {
		t.Fatal(err)
	}
	change := <-changes
	s.until = b.now().Add(30 * time.Minute)
	if change.Replaced || change.Session.String() != s.id {
		t.Fatalf("the session of %s is replaced: %+v", s.reader, change)
	}
	b.compareChange(t, s, change)
}

// setMode changes the mode of a reader's follow of a host. The mode of a follow changes no board.
func (b *boards) setMode(t *rapid.T) {
	p := relation{rapid.SampledFrom(b.readers).Draw(t, "reader"), rapid.SampledFrom(b.hosts).Draw(t, "host")}
	mode := rapid.SampledFrom([]string{"NONE", "LIVE_ONLY", "ALL"}).Draw(t, "mode")
	got := b.node(t).Ask(p.who, fmt.Sprintf(`mutation{setFollowMode(input:{userId:"user:%s",mode:%s}){changed badges{version}}}`, p.whom, mode), nil)
	_, follows := b.follows[p]
	if want := map[bool]string{false: "CONFLICT"}[follows]; got.ErrorCode() != want {
		t.Fatalf("mode %s of %v: code %q, want %q", mode, p, got.ErrorCode(), want)
	}
}

// compareChange compares the changes that a board reports with the model.
func (b *boards) compareChange(t *rapid.T, s *sessionModel, change live.Change) {
	was := map[string]boardModel{}
	top := -1 // the position of the session's first show
	for i, show := range b.shownAt[s.version] {
		if was[show.id] = show; top < 0 && b.has(s, show.host) {
			top = i
		}
	}
	want := map[string][]string{}
	above := 0
	for _, is := range b.shows {
		_, follows := b.follows[relation{s.reader, is.host}]
		if !follows || b.mutes[relation{s.reader, is.host}] {
			continue
		}
		if is.status != "CANCELLED" && (top < 0 || is.above(b.shownAt[s.version][top])) {
			above++
		}
		then := was[is.id]
		if !b.has(s, is.host) && then.status != "REPLAY" {
			then = boardModel{} // the host was followed later, so all live, upcoming and recently ended shows are new
		}
		switch {
		case then.id == "" && is.status == "UPCOMING":
			want["new"] = append(want["new"], is.id)
		case then.id == "" && is.status == "CANCELLED" || then.status == is.status && (is.status != "UPCOMING" || then.planned.Equal(is.planned)):
		default:
			want[is.status] = append(want[is.status], is.id)
		}
	}
	for status, got := range map[string][]live.Show{
		"LIVE": change.WentLive, "REPLAY": change.Ended, "new": change.Scheduled, "UPCOMING": change.Rescheduled, "CANCELLED": change.Cancelled,
	} {
		ids := []string{}
		for _, show := range got {
			ids = append(ids, show.GlobalID())
			if show.Status == live.ShowUpcoming && !show.EndedAt.IsZero() {
				t.Fatalf("%s: the end of %s is shown before its start", s.reader, show.GlobalID())
			}
		}
		slices.Sort(ids)
		slices.Sort(want[status])
		if !slices.Equal(ids, want[status]) {
			t.Fatalf("%s: now %s are %v, want %v", s.reader, status, ids, want[status])
		}
	}
	if change.NewAbove != above {
		t.Fatalf("%s: %d stand above, want %d", s.reader, change.NewAbove, above)
	}
}

// above reports whether b stands above another show on a board.
func (b boardModel) above(other boardModel) bool {
	section, score := b.rank()
	section2, score2 := other.rank()
	return cmp.Or(cmp.Compare(section, section2), cmp.Compare(score, score2), cmp.Compare(other.id, b.id)) < 0
}

// In random histories hosts, shows and readers change, Redis or nodes lose their data, and nodes lag behind the changelog. Every page
// of every session, and every event of an open board, equals the model, a sorted list.
func TestBoardsEqualTheModel(t *testing.T) {
	check := func(t *testing.T, nodes []*world.Node, flush func()) {
		histories.Reduce(t, 4)
		rapid.Check(t, func(t *rapid.T) {
			b := newBoards(nodes, flush)
			t.Repeat(b.actions())
			for range 5 {
				b.openSession(t)
				b.continueSession(t)
			}
		})
	}
	late := func(cfg *node.Config) { cfg.ShowLateAfter, cfg.ShowLongest = 7*24*time.Hour, 7*24*time.Hour } // no job closes a show
	t.Run("sqlite-embedded", func(t *testing.T) {
		check(t, []*world.Node{world.StartNode(t, world.NodeOptions{Database: sqltest.SQLite(t), Redis: "embedded", Manual: true, Change: late})}, nil)
	})
	t.Run("postgres-redis, two nodes", func(t *testing.T) {
		server, database := redistest.NewServer(t), sqltest.Postgres(t)
		var nodes []*world.Node
		for _, name := range []string{"a", "b"} {
			nodes = append(nodes, world.StartNode(t, world.NodeOptions{Database: database, Redis: server.URL(), Manual: true, Change: func(cfg *node.Config) {
				cfg.Node = name
				late(cfg)
			}}))
		}
		check(t, nodes, func() { server.Flush() })
	})
}
