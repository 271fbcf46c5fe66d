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
	"tidings/services/changelog"
	"tidings/services/live"
	"tidings/services/node"
	"tidings/services/redis/redistest"
	"tidings/services/sql"
	"tidings/services/sql/sqltest"
	"tidings/tests/histories"
	"tidings/tests/world"
)

// actions returns the random actions of a history, by name. "again" only makes an action more frequent.
func (b *boardsModel) actions() map[string]func(*rapid.T) {
	actions := map[string]func(*rapid.T){
		"schedule": b.scheduleShow, "schedule again": b.scheduleShow, "start": b.startShow, "start again": b.startShow, "end": b.endShow, "end again": b.endShow,
		"reschedule": b.rescheduleShow, "cancel": b.cancelShow, "follow": b.changeFollowOrMute, "follow again": b.changeFollowOrMute, "mode": b.setFollowMode,
		"open": b.openSession, "open again": b.openSession, "go on": b.continueSession, "go on again": b.continueSession, "go on once more": b.continueSession, "later": b.letTimePass, "watch": b.compareFirstEvent,
		"work": func(t *rapid.T) {
			n := b.drawNode(t)
			n.RunWorkerOnce(rapid.SampledFrom(n.Workers).Draw(t, "worker"))
		},
		"tail": func(t *rapid.T) {
			if _, err := b.drawNode(t).Caches.Changelog.RunOnce(t.Context()); err != nil {
				t.Fatal(err)
			}
		},
		"load anew": b.reloadShows, "pin": b.pinHostMode,
	}
	if b.flushRedis != nil {
		actions["flush"] = b.emptyRedis
	}
	return actions
}

// pinHostMode pins a host's mode of fan-out. The mode decides whether a board reads the host's replays from the reader's own list in
// Redis or from the node cache.
func (b *boardsModel) pinHostMode(t *rapid.T) {
	host := rapid.SampledFrom(b.hosts).Draw(t, "host")
	if !slices.ContainsFunc(b.shows, func(s *showModel) bool { return s.host == host }) {
		return // no request has named the host yet
	}
	mode := rapid.SampledFrom([]string{"SMALL", "BIG", "HUGE", "HUGE"}).Draw(t, "mode")
	b.drawNode(t).MustAsk("operator:admin", fmt.Sprintf(`mutation{pinAuthorMode(input:{userId:"user:%s",mode:%s}){author{mode}}}`, host, mode), nil, nil)
	b.runDueJobs()
}

// reloadShows makes every node reload all shows, as a starting node does.
func (b *boardsModel) reloadShows(t *rapid.T) {
	if err := b.nodes[0].DB.Write(t.Context(), func(tx *sql.Tx) error {
		_, err := changelog.AppendLog(t.Context(), tx, live.ChangelogKind, "", nil)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	b.recordShowsAtVersion()
}

// hasHostOnBoard reports whether the host's shows are now on the session's board: they were when the session began, the reader's follow of
// that time still exists, whatever time it was reported with, and the reader does not mute the host.
func (b *boardsModel) hasHostOnBoard(s *sessionModel, host string) bool {
	p := relation{s.reader, host}
	had, onBoard := s.followSteps[host]
	step, follows := b.followSteps[p]
	return onBoard && follows && step == had && !b.mutes[p]
}

// compareFirstEvent subscribes to the board of a random session that is not over, and compares the first event with the model.
func (b *boardsModel) compareFirstEvent(t *rapid.T) {
	var living []*sessionModel
	for _, s := range b.sessions {
		if b.isReadable(s) {
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
	changes, err := n.Live.Watch(ctx, n.EnsureUserIDs(s.reader)[0], &s.id, "", shown)
	if err != nil {
		t.Fatal(err)
	}
	change := <-changes
	s.leaseEndsAt = b.now().Add(30 * time.Minute)
	if change.SessionReplaced || change.Session.String() != s.id {
		t.Fatalf("the session of %s is replaced: %+v", s.reader, change)
	}
	b.compareChange(t, s, change)
}

// followLate lets the host application report a follow with a past time. want says whether it changes anything.
func (b *boardsModel) followLate(t *rapid.T, p relation, at time.Time, want bool) {
	var data struct {
		Ingest struct {
			Results []struct {
				Changed bool
				Error   *struct{ Message string }
			}
		}
	}
	event := map[string]any{"as": "user:" + p.who, "at": at.Format(time.RFC3339Nano), "do": map[string]any{"follow": map[string]any{"userId": "user:" + p.whom}}}
	b.drawNode(t).MustAsk("host:ingest", `mutation($e:[IngestEvent!]!){ingest(events:$e){results{changed error{message}}}}`, map[string]any{"e": []any{event}}, &data)
	if result := data.Ingest.Results[0]; result.Error != nil || result.Changed != want {
		t.Fatalf("follow %v at %s: %+v, want changed %t", p, at, result, want)
	}
}

// setFollowMode changes the mode of a reader's follow of a host. The mode of a follow changes no board.
func (b *boardsModel) setFollowMode(t *rapid.T) {
	p := relation{rapid.SampledFrom(b.readers).Draw(t, "reader"), rapid.SampledFrom(b.hosts).Draw(t, "host")}
	mode := rapid.SampledFrom([]string{"NONE", "LIVE_ONLY", "ALL"}).Draw(t, "mode")
	got := b.drawNode(t).Ask(p.who, fmt.Sprintf(`mutation{setFollowMode(input:{userId:"user:%s",mode:%s}){changed badges{version}}}`, p.whom, mode), nil)
	_, follows := b.followSteps[p]
	if want := map[bool]string{false: "CONFLICT"}[follows]; got.ErrorCode() != want {
		t.Fatalf("mode %s of %v: code %q, want %q", mode, p, got.ErrorCode(), want)
	}
}

// compareChange compares an event of a session's board, which has all changes since the session began, with the model.
func (b *boardsModel) compareChange(t *rapid.T, s *sessionModel, change live.BoardChange) {
	was := map[string]showModel{}
	top := -1 // the position of the session's first show
	for i, show := range b.showsAtVersion[s.changelogVersion] {
		if was[show.id] = show; top < 0 && b.hasHostOnBoard(s, show.host) {
			top = i
		}
	}
	want := map[string][]string{}
	above := 0
	for _, is := range b.shows {
		_, follows := b.followSteps[relation{s.reader, is.host}]
		if !follows || b.mutes[relation{s.reader, is.host}] {
			continue
		}
		if is.status != "CANCELLED" && (top < 0 || is.isAbove(b.showsAtVersion[s.changelogVersion][top])) {
			above++
		}
		then := was[is.id]
		if !b.hasHostOnBoard(s, is.host) && then.status != "REPLAY" {
			then = showModel{} // the host was followed later, so all live, upcoming and recently ended shows are new
		}
		switch {
		case then.id == "" && is.status == "UPCOMING":
			want["new"] = append(want["new"], is.id)
		case then.id == "" && is.status == "CANCELLED" || then.status == is.status && (is.status != "UPCOMING" || then.plannedAt.Equal(is.plannedAt)):
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
	if change.NewAboveCount != above {
		t.Fatalf("%s: %d stand above, want %d", s.reader, change.NewAboveCount, above)
	}
}

// isAbove reports whether b stands above another show on a board.
func (b showModel) isAbove(other showModel) bool {
	section, score := b.rank()
	section2, score2 := other.rank()
	return cmp.Or(cmp.Compare(section, section2), cmp.Compare(score, score2), cmp.Compare(other.id, b.id)) < 0
}

// In random histories hosts, shows and readers change, Redis or nodes lose their data, and nodes lag behind the changelog. Every page
// of every session, and every first event of a board's subscription, equals the model, which keeps the shows in a sorted list.
func TestBoardsEqualTheModel(t *testing.T) {
	check := func(t *testing.T, nodes []*world.Node, flush func()) {
		histories.ReduceRapidChecks(t, 4)
		rapid.Check(t, func(t *rapid.T) {
			b := newBoardsModel(nodes, flush)
			t.Repeat(b.actions())
			for range 5 {
				b.openSession(t)
				b.continueSession(t)
			}
		})
	}
	late := func(cfg *node.Config) { // no job closes a show
		cfg.Live.Limits = live.ShowLimits{CloseUnstartedAfter: 7 * 24 * time.Hour, CloseLiveAfter: 7 * 24 * time.Hour}
	}
	t.Run("sqlite-embedded", func(t *testing.T) {
		check(t, []*world.Node{world.StartNode(t, world.NodeOptions{Database: sqltest.SQLite(t), Redis: "embedded", ManualStepping: true, ChangeConfig: late})}, nil)
	})
	t.Run("postgres-redis, two nodes", func(t *testing.T) {
		server, database := redistest.NewServer(t), sqltest.Postgres(t)
		var nodes []*world.Node
		for _, name := range []string{"a", "b"} {
			nodes = append(nodes, world.StartNode(t, world.NodeOptions{Database: database, Redis: server.URL(), ManualStepping: true, ChangeConfig: func(cfg *node.Config) {
				cfg.Node = name
				late(cfg)
			}}))
		}
		check(t, nodes, func() { server.Flush() })
	})
}
