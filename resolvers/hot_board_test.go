package resolvers

import (
	"encoding/json"
	"testing"
	"time"

	"pgregory.net/rapid"

	"tidings/services"
	"tidings/services/live"
)

// drawMoment draws a time, which may be the zero time.
func drawMoment(t *rapid.T, name string) time.Time {
	ms := rapid.Int64Range(-1, 1<<42).Draw(t, name)
	if ms < 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// drawBoard draws a page of a live board, with everything that a field of it can show.
func drawBoard(t *rapid.T) shownBoard {
	board := shownBoard{relations: drawRelations(t), labels: map[services.Object]services.Label{}, hasReminder: map[services.ShowID]bool{}, readAt: time.UnixMilli(rapid.Int64Range(0, 1<<42).Draw(t, "now"))}
	board.Session = live.Session{Version: rapid.Uint64Max(1<<40).Draw(t, "version"), CreationID: services.SortableID(drawPostID(t, "made")), Viewer: services.UserID(rapid.Uint32().Draw(t, "viewer"))}
	for range rapid.IntRange(0, 4).Draw(t, "shows") {
		show := live.Show{
			ID: services.ShowID(drawPostID(t, "id")), Title: drawText(t, "title"), Status: rapid.SampledFrom(live.ShowStatuses).Draw(t, "status"),
			CoverURL: rapid.SampledFrom([]string{"", "https://example.com/a.png?x=1&y=\"<>"}).Draw(t, "cover"), ReplayURL: drawText(t, "replay"),
			PlannedAt: time.UnixMilli(rapid.Int64Range(0, 1<<42).Draw(t, "planned")).UTC(), StartedAt: drawMoment(t, "started"),
			EndedAt: drawMoment(t, "ended"), CancelledAt: drawMoment(t, "cancelled"),
		}
		item := live.BoardItem{Position: show.Position(), Show: show, Host: services.User{ID: 1, Key: rapid.StringMatching(`[a-zA-Z0-9._-]{1,8}`).Draw(t, "key"), Name: drawText(t, "name")}}
		item.Frozen = live.FrozenShow{
			Status:    rapid.SampledFrom(live.ShowStatuses).Draw(t, "frozen status"),
			PlannedAt: time.UnixMilli(rapid.Int64Range(0, 1<<42).Draw(t, "frozen plan")).UTC(), StartedAt: drawMoment(t, "frozen start"), EndedAt: drawMoment(t, "frozen end"),
		}
		item.Position.Replay = rapid.Bool().Draw(t, "is a replay")
		board.labels[showObjectOf(show.ID)] = drawLabel(t)
		board.hasReminder[show.ID] = rapid.Bool().Draw(t, "reminds")
		board.Items = append(board.Items, item)
	}
	board.HasNext, board.ReplaysBeingBuilt, board.SessionReplaced = rapid.Bool().Draw(t, "more"), rapid.Bool().Draw(t, "building"), rapid.Bool().Draw(t, "replaced")
	board.End = rapid.SampledFrom([]services.FeedEnd{"", services.EndOfFeed, services.EndOfRetention}).Draw(t, "end")
	return board
}

// For any selection and any board the compiled selection gives the same answer as gqlgen's generated code, byte for byte.
func TestACompiledBoardEqualsTheExecutedOne(t *testing.T) {
	schema := hotSchema()
	rapid.Check(t, func(t *rapid.T) {
		query := "{ viewer { board: liveBoard " + drawSelection(t, schema, schema.Types["LiveBoardConnection"], 0) + " } }"
		shown := hotPartValue{board: drawBoard(t)}
		plan := hotPlanOf(parseQuery(t, query))
		if plan == nil {
			t.Fatalf("not compiled: %s", query)
		}
		if got, want := string(plan.response([]hotPartValue{shown}).Data), executedAnswer(t, shown, query); got != want {
			t.Fatalf("%s\ncompiled %s\nexecuted %s", query, got, want)
		}
	})
}

// The query of a board that @tidings/client sends is compiled, and tells for each show whether the viewer has a reminder.
func TestAHotBoardShowsReminders(t *testing.T) {
	s := newExecutorPair(t)
	var ids []string
	for _, host := range []string{"one", "two", "three"} {
		ids = append(ids, s.scheduleShow(host, time.Hour))
		s.must("watcher", `mutation($id: ID!) { follow(input: {userId: $id}) { changed } }`, map[string]any{"id": "user:" + host})
	}
	s.must("watcher", `mutation($id: ID!) { remindMe(input: {showId: $id}) { changed } }`, map[string]any{"id": ids[1]})
	s.RunAllJobs(s.Fanout)
	_, err := s.Caches.Changelog.RunOnce(t.Context())
	s.Must(err)
	query := `{ viewer { id liveBoard(first: 20) { edges { node { id host { id key name avatarUrl } title coverUrl status plannedAt startedAt endedAt replayUrl viewerHasReminder } } pageInfo { hasNextPage } } } }`
	for viewer, reminded := range map[string]string{"watcher": ids[1], "nobody yet": ""} {
		got := s.askBoth(t, viewer, query, nil)
		if !got.isCompiled || len(got.errors) > 0 {
			t.Fatalf("%s: hot %v, %s", viewer, got.isCompiled, got.errors)
		}
		type edge struct {
			Node struct {
				ID                string
				ViewerHasReminder bool
			}
		}
		var shown struct {
			Viewer struct{ LiveBoard struct{ Edges []edge } }
		}
		if err := json.Unmarshal([]byte(got.data), &shown); err != nil {
			t.Fatal(err)
		}
		if edges := shown.Viewer.LiveBoard.Edges; viewer == "watcher" && len(edges) != len(ids) {
			t.Fatalf("%d shows: %s", len(edges), got.data)
		}
		for _, edge := range shown.Viewer.LiveBoard.Edges {
			if edge.Node.ViewerHasReminder != (edge.Node.ID == reminded) {
				t.Errorf("%s: %s reminds %v", viewer, edge.Node.ID, edge.Node.ViewerHasReminder)
			}
		}
	}
}
