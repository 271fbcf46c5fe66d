package resolvers

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"tidings/services"
)

const showFields = `{ id host { key } title coverUrl status plannedAt startedAt endedAt cancelledAt replayUrl late viewerHasReminder }`

const (
	scheduleMutation   = `mutation($i: ScheduleShowInput!) { scheduleShow(input: $i) { show ` + showFields + ` badges { version } } }`
	rescheduleMutation = `mutation($i: RescheduleShowInput!) { rescheduleShow(input: $i) { show ` + showFields + ` badges { version } } }`
	startMutation      = `mutation($i: StartShowInput!) { startShow(input: $i) { show ` + showFields + ` badges { version } } }`
	endMutation        = `mutation($i: EndShowInput!) { endShow(input: $i) { show ` + showFields + ` badges { version } } }`
	cancelMutation     = `mutation($i: CancelShowInput!) { cancelShow(input: $i) { show ` + showFields + ` badges { version } } }`
	replayMutation     = `mutation($i: SetReplayInput!) { setReplay(input: $i) { show ` + showFields + ` badges { version } } }`
	remindMutation     = `mutation($i: RemindMeInput!) { remindMe(input: $i) { show ` + showFields + ` badges { version } } }`
)

// timeText is a moment as the API shows it.
func timeText(at time.Time) string { return at.UTC().Format("2006-01-02T15:04:05.000Z") }

// scheduleShow schedules a show of a user for some time from now, runs the jobs, and returns its ID.
func (a *testAPI) scheduleShow(key string, in time.Duration) string {
	a.t.Helper()
	a.Clock.Advance(time.Second)
	got := a.must(key, scheduleMutation, map[string]any{"i": event{"title": "Evening", "plannedAt": timeText(a.Clock.Now().Add(in))}})
	a.RunDueJobs(a.Fanout)
	id, _ := got.valueAt("scheduleShow", "show", "id").(string)
	return id
}

// In each phase of a show, every answer and node() return the show as it is at that time, for its host and for others.
func TestAShowThroughItsLife(t *testing.T) {
	a := newAPI(t)
	planned := a.Clock.Now().Add(time.Hour)
	later, started := planned.Add(time.Hour), a.Clock.Now().Add(2*time.Second)
	want := map[string]any{
		"host": map[string]any{"key": "alice"}, "title": "Evening", "coverUrl": "https://example.com/c", "status": "UPCOMING", "plannedAt": timeText(planned),
		"startedAt": nil, "endedAt": nil, "cancelledAt": nil, "replayUrl": nil, "late": false, "viewerHasReminder": false,
	}
	for _, step := range []struct {
		mutation, name string
		input          event
		changes        event // changes of the show
	}{
		{scheduleMutation, "scheduleShow", event{"title": "Evening", "plannedAt": timeText(planned), "coverUrl": "https://example.com/c"}, nil},
		{rescheduleMutation, "rescheduleShow", event{"plannedAt": timeText(later)}, event{"plannedAt": timeText(later)}},
		{rescheduleMutation, "rescheduleShow", event{"title": "Late evening", "coverUrl": ""}, event{"title": "Late evening", "coverUrl": nil}},
		{startMutation, "startShow", event{"at": timeText(started)}, event{"status": "LIVE", "startedAt": timeText(started)}},
		{startMutation, "startShow", event{}, nil},
		{endMutation, "endShow", event{"at": timeText(started.Add(time.Second))}, event{"status": "REPLAY", "endedAt": timeText(started.Add(time.Second))}},
		{replayMutation, "setReplay", event{"replayUrl": "https://example.com/r"}, event{"replayUrl": "https://example.com/r"}},
		{replayMutation, "setReplay", event{"replayUrl": ""}, event{"replayUrl": nil}},
		{endMutation, "endShow", event{"replayUrl": "https://example.com/s"}, event{"replayUrl": "https://example.com/s"}},
	} {
		a.Clock.Advance(time.Second)
		if id := want["id"]; id != nil {
			step.input["showId"] = id
		}
		got := a.must("alice", step.mutation, map[string]any{"i": step.input})
		if want["id"] == nil {
			want["id"] = got.valueAt(step.name, "show", "id")
			a.RunDueJobs(a.Fanout)
		}
		for field, value := range step.changes {
			want[field] = value
		}
		if show := got.valueAt(step.name, "show"); fmt.Sprint(show) != fmt.Sprint(want) {
			t.Errorf("%s %v answers\n%v, want\n%v", step.name, step.input, show, want)
		}
		if version, _ := got.valueAt(step.name, "badges", "version").(string); version == "" {
			t.Errorf("%s answers no badges", step.name)
		}
		node := a.must("bob", `query($id: ID!) { node(id: $id) { ... on Show `+showFields+` } }`, map[string]any{"id": want["id"]})
		if fmt.Sprint(node.valueAt("node")) != fmt.Sprint(want) {
			t.Errorf("after %s node() has\n%v, want\n%v", step.name, node.valueAt("node"), want)
		}
	}
	cancelled := a.scheduleShow("alice", time.Minute)
	a.Clock.Advance(2 * time.Minute)
	node := a.must("bob", nodesQueryOfShows, map[string]any{"ids": []string{cancelled, "show:0000000000001", want["id"].(string)}})
	if node.valueAt("nodes", 0, "late") != true || node.valueAt("nodes", 1) != nil || node.valueAt("nodes", 2, "status") != "REPLAY" {
		t.Errorf("nodes: %+v", node.Data)
	}
	got := a.must("alice", cancelMutation, map[string]any{"i": event{"showId": cancelled}})
	if got.valueAt("cancelShow", "show", "status") != "CANCELLED" || got.valueAt("cancelShow", "show", "cancelledAt") == nil || got.valueAt("cancelShow", "show", "late") != false {
		t.Errorf("cancelled: %+v", got.Data)
	}
}

// nodesQueryOfShows reads shows by ID, with remindsMe, the deprecated name of viewerHasReminder.
const nodesQueryOfShows = `query($ids: [ID!]!) { nodes(ids: $ids) { id ... on Show { status late remindsMe } } }`

// A user who asked for a reminder is notified once, when the show starts; the notification contains the show.
func TestAReminderIsANotification(t *testing.T) {
	a := newAPI(t)
	show, other := a.scheduleShow("alice", time.Hour), a.scheduleShow("alice", 2*time.Hour)
	for range 2 {
		got := a.must("bob", remindMutation, map[string]any{"i": event{"showId": show}})
		if got.valueAt("remindMe", "show", "viewerHasReminder") != true {
			t.Errorf("bob is not reminded: %+v", got.Data)
		}
	}
	a.must("bob", remindMutation, map[string]any{"i": event{"showId": other}})
	if got := a.must("bob", `mutation($i: CancelReminderInput!) { cancelReminder(input: $i) { show `+showFields+` } }`, map[string]any{"i": event{"showId": other}}); got.valueAt("cancelReminder", "show", "viewerHasReminder") != false {
		t.Errorf("bob is reminded still: %+v", got.Data)
	}
	for key, want := range map[string]bool{"bob": true, "carol": false, "alice": false} {
		got := a.must(key, nodesQueryOfShows, map[string]any{"ids": []string{show, other}})
		if got.valueAt("nodes", 0, "remindsMe") != want || got.valueAt("nodes", 1, "remindsMe") != false {
			t.Errorf("%s: %+v", key, got.Data)
		}
	}
	a.wantNotifications("bob", "before the start")
	a.must("alice", startMutation, map[string]any{"i": event{"showId": show}})
	a.must("alice", startMutation, map[string]any{"i": event{"showId": show}})
	a.must("alice", startMutation, map[string]any{"i": event{"showId": other}})
	ids := a.wantNotifications("bob", "after the start", "REMINDER 1")
	a.wantNotifications("carol", "after the start")
	a.wantNotifications("alice", "after the start")
	got := a.must("bob", `{ viewer {
		badges { total { value } notifications { reminder { value } older { reminder } newest } }
		notifications { edges { node { category show { id status host { key } remindsMe } subject { id } actors { key } } } }
		badgeExplained { part count { value } items { nodeId clearedBy } } } }`, nil)
	node := func(path ...any) any {
		return got.valueAt(append([]any{"viewer", "notifications", "edges", 0, "node"}, path...)...)
	}
	if node("category") != "REMINDER" || node("show", "id") != show || node("show", "status") != "LIVE" || node("show", "host", "key") != "alice" ||
		node("show", "remindsMe") != true || node("subject") != nil || node("actors", 0, "key") != "alice" {
		t.Errorf("the notification is %+v", node())
	}
	if got.valueAt("viewer", "badges", "notifications", "reminder", "value") != 1.0 || got.valueAt("viewer", "badges", "total", "value") != 1.0 || got.valueAt("viewer", "badges", "notifications", "newest") != a.notificationUpTos("bob")[0] {
		t.Errorf("the badges are %+v", got.valueAt("viewer", "badges"))
	}
	if text := fmt.Sprint(got.valueAt("viewer", "badgeExplained")); !strings.Contains(text, ids[0]) || !strings.Contains(text, "part:REMINDER") {
		t.Errorf("explained: %s", text)
	}
	digest := a.must("bob", `query($s: Time!) { viewer { awayDigest(since: $s) { parts { part count { value } } } } }`, map[string]any{"s": timeText(a.Clock.Now().Add(-time.Hour))})
	if text := fmt.Sprint(digest.valueAt("viewer", "awayDigest", "parts")); !strings.Contains(text, "map[count:map[value:1] part:REMINDER]") {
		t.Errorf("the digest is %s", text)
	}
	a.must("bob", `mutation { markNotificationsSeen(input: {categories: [REMINDER]}) { badges { total { value } } } }`, nil)
	a.wantNotifications("bob", "seen", "REMINDER 1 seen")
	// A reminder that is cancelled stops counting, even after the start.
	a.must("bob", `mutation($i: CancelReminderInput!) { cancelReminder(input: $i) { changed } }`, map[string]any{"i": event{"showId": show}})
	a.wantNotifications("bob", "not reminded any more")
}

// A user who blocks a host gets no reminders of their shows. After the block they get them again.
func TestRemindersOfABlockedHost(t *testing.T) {
	a := newAPI(t)
	show := a.scheduleShow("alice", time.Hour)
	a.must("bob", remindMutation, map[string]any{"i": event{"showId": show}})
	a.must("alice", startMutation, map[string]any{"i": event{"showId": show}})
	a.wantNotifications("bob", "after the start", "REMINDER 1")
	a.must("bob", `mutation { block(input: {userId: "user:alice"}) { user { id } } }`, nil)
	a.wantNotifications("bob", "blocking the host")
	a.must("bob", `mutation { unblock(input: {userId: "user:alice"}) { user { id } } }`, nil)
	a.wantNotifications("bob", "unblocking them", "REMINDER 1")
}

// A batch reports shows in any order, with duplicates and impossible events. Each event has its result, and the shows end up in
// the reported states.
func TestIngestOfShows(t *testing.T) {
	a := newAPI(t)
	show, second, others := a.scheduleShow("alice", time.Hour), a.scheduleShow("alice", time.Hour), a.scheduleShow("carol", time.Hour)
	a.Clock.Advance(time.Minute)
	start, end := timeText(a.Clock.Now().Add(-30*time.Second)), timeText(a.Clock.Now().Add(-10*time.Second))
	events := []event{
		{"endShow": event{"as": "user:alice", "showId": show, "at": end, "replayUrl": "https://example.com/r"}},
		{"remindMe": event{"as": "user:bob", "showId": show}},
		{"startShow": event{"as": "user:alice", "showId": show, "at": start}},
		{"endShow": event{"as": "user:alice", "showId": show, "at": end}},
		{"startShow": event{"as": "user:alice", "showId": show, "at": start}},
		{"cancelShow": event{"as": "user:alice", "showId": show}},
		{"startShow": event{"as": "user:alice", "showId": others}},
		{"scheduleShow": event{"as": "user:dora", "title": "First", "plannedAt": timeText(a.Clock.Now().Add(time.Hour))}},
		{"scheduleShow": event{"as": "user:dora", "title": "", "plannedAt": timeText(a.Clock.Now().Add(time.Hour))}},
		{"rescheduleShow": event{"as": "user:alice", "showId": second, "title": "Second"}},
		{"rescheduleShow": event{"as": "user:alice", "showId": second}},
		{"cancelShow": event{"as": "user:alice", "showId": second}},
		{"startShow": event{"as": "user:alice", "showId": second}},
		{"setReplay": event{"as": "user:alice", "showId": show, "replayUrl": "https://example.com/s"}},
		{"remindMe": event{"as": "user:bob", "showId": "show:0000000000001"}},
		{"remindMe": event{"as": "user:bob", "showId": "post:0000000000001"}},
		{"cancelReminder": event{"as": "user:bob", "showId": others}},
	}
	want := []struct {
		id   any
		code services.Code
	}{
		{show, ""}, {show, ""}, {show, ""}, {show, ""}, {show, ""}, {nil, services.Conflict}, {nil, services.Forbidden}, {"show:", ""}, {nil, services.Invalid},
		{second, ""}, {nil, services.Invalid}, {second, ""}, {nil, services.Conflict}, {show, ""}, {nil, services.NotFound}, {nil, services.Invalid}, {others, ""},
	}
	got := a.ingest(events...)
	if len(got.Errors) > 0 {
		t.Fatalf("%+v", got.Errors)
	}
	for i, want := range want {
		id, code := got.valueAt("ingest", "results", i, "id"), got.valueAt("ingest", "results", i, "error", "code")
		if want.id == "show:" && strings.HasPrefix(fmt.Sprint(id), "show:") {
			id = want.id
		}
		if id != want.id || (want.code == "") != (code == nil) || code != nil && code != string(want.code) {
			t.Errorf("event %d %v: id %v, error %v; want %+v", i, events[i], id, got.valueAt("ingest", "results", i, "error"), want)
		}
	}
	node := a.must("bob", `query($id: ID!) { node(id: $id) { ... on Show `+showFields+` } }`, map[string]any{"id": show})
	wantFields := event{"status": "REPLAY", "startedAt": start, "endedAt": end, "replayUrl": "https://example.com/s", "viewerHasReminder": true}
	for field, want := range wantFields {
		if node.valueAt("node", field) != want {
			t.Errorf("%s is %v, want %v", field, node.valueAt("node", field), want)
		}
	}
	lines, _ := a.notificationLines("bob")
	if !slices.Equal(lines, []string{"REMINDER 1"}) {
		t.Errorf("bob, who was early enough for a start that came late, gets %q", lines)
	}
}

// A session freezes a show's status and times on the edge. The node of the edge is the show as it is now, equal to node() by its
// ID. Both hold with and without the fields of reminders.
func TestASessionFreezesTheEdgeButNotItsNode(t *testing.T) {
	a := newAPI(t)
	a.must("bob", `mutation { follow(input: {userId: "user:alice"}) { user { id } } }`, nil)
	began := a.Clock.Now()
	runs, starts, moves, goes, ended := a.scheduleShow("alice", time.Minute), a.scheduleShow("alice", time.Hour), a.scheduleShow("alice", 2*time.Hour), a.scheduleShow("alice", 3*time.Hour), a.scheduleShow("alice", 4*time.Hour)
	does := func(mutation string, input event) {
		a.t.Helper()
		a.Clock.Advance(time.Second)
		a.must("alice", mutation, map[string]any{"i": input})
		a.RunDueJobs(a.Fanout)
	}
	does(startMutation, event{"showId": runs})
	const edge = "status plannedAt startedAt endedAt"
	first := a.must("bob", `{ viewer { liveBoard { sessionId edges { `+edge+` node { id `+edge+` } } } } }`, nil)
	does(endMutation, event{"showId": runs})
	does(startMutation, event{"showId": starts})
	does(rescheduleMutation, event{"showId": moves, "title": "Later", "plannedAt": timeText(began.Add(24 * time.Hour))})
	does(cancelMutation, event{"showId": goes})
	does(endMutation, event{"showId": ended}) // reported before its start, so it does not show
	want := map[string]string{runs: "REPLAY", starts: "LIVE", moves: "UPCOMING", goes: "CANCELLED", ended: "UPCOMING"}
	for _, more := range []string{"", " viewerHasReminder remindsMe"} {
		got := a.must("bob", `query($s: String!) { viewer { liveBoard(sessionId: $s) { newSession edges { `+edge+` node { id title cancelledAt late `+edge+more+` } } } } }`,
			map[string]any{"s": first.valueAt("viewer", "liveBoard", "sessionId")})
		edges, _ := got.valueAt("viewer", "liveBoard", "edges").([]any)
		if len(edges) != len(want) || got.valueAt("viewer", "liveBoard", "newSession") != false {
			t.Fatalf("the session has %v", edges)
		}
		for i, edge := range edges {
			edge := edge.(map[string]any)
			was := first.valueAt("viewer", "liveBoard", "edges", i).(map[string]any)
			node := edge["node"].(map[string]any)
			id := node["id"].(string)
			for field, value := range edge {
				if field != "node" && value != was[field] {
					t.Errorf("%s of %s was frozen as %v, and is %v", field, id, was[field], value)
				}
			}
			now := a.must("bob", `query($id: ID!) { node(id: $id) { id ... on Show { title cancelledAt late status plannedAt startedAt endedAt`+more+` } } }`, map[string]any{"id": id})
			if fmt.Sprint(now.valueAt("node")) != fmt.Sprint(node) || node["status"] != want[id] {
				t.Errorf("on the board stands\n%v, by its id it is\n%v, want %s", node, now.valueAt("node"), want[id])
			}
			if id == ended && node["endedAt"] != nil {
				t.Errorf("a show is over before it starts: %v", node)
			}
		}
	}
}
