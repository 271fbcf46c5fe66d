package resolvers

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/fanout/fanouttest"
)

// A mutation whose effect exists already returns changed: false. A mutation that is repeated under its idempotency key gets its first
// answer again.
func TestMutationsAreIdempotent(t *testing.T) {
	fanouttest.EachEnginePair(t, nil, func(t *testing.T, w *fanouttest.World) {
		a := newAPIOn(t, w, 10, 5)
		a.MakeNamedUsers("bob")
		post := a.publishPost("bob")
		show := a.scheduleShow("bob", time.Hour)
		room := a.createConversation("ROOM", "bob", "carol")
		message := a.sendMessage("alice", a.createConversation("GROUP", "alice", "bob"))
		step := func(verb, field, id, shown string, changed bool) {
			t.Helper()
			input := fmt.Sprintf("%s: %q", field, id)
			query := func(more string) string {
				return fmt.Sprintf(`mutation { %s(input: {%s%s}) { changed badges { version } viewer { id } %s } }`, verb, input, more, shown)
			}
			if got := a.must("alice", query(""), nil); got.valueAt(verb, "changed") != changed || got.valueAt(verb, "viewer", "id") != "viewer:alice" {
				t.Errorf("%s: %+v, want changed %t", verb, got.Data, changed)
			}
			for range 2 {
				if got := a.must("alice", query(fmt.Sprintf(", idempotencyKey: %q", verb)), nil); got.valueAt(verb, "changed") != false {
					t.Errorf("%s again under a key: %+v", verb, got.Data)
				}
			}
			asEvent := event{verb: event{"as": "user:alice", field: id}}
			if got := a.ingest(asEvent); got.valueAt("ingest", "results", 0, "changed") != false || got.valueAt("ingest", "results", 0, "error") != nil {
				t.Errorf("%s as an event: %+v", verb, got.Data)
			}
		}
		// does and undoes are mutations, field is the field of their input that takes id, and shown is a selection of their payload.
		for _, of := range []struct{ does, undoes, field, id, shown string }{
			{"follow", "unfollow", "userId", "user:bob", "user { id }"},
			{"mute", "unmute", "userId", "user:bob", "user { id }"},
			{"hideFrom", "unhideFrom", "userId", "user:bob", "user { id }"},
			{"likePost", "unlikePost", "postId", post, "post { id }"},
			{"remindMe", "cancelReminder", "showId", show, "show { viewerHasReminder }"},
			{"joinConversation", "quitConversation", "conversationId", room, ""},
			{"block", "unblock", "userId", "user:bob", "user { id }"},
		} {
			if of.does != "joinConversation" { // a user who never was a member cannot leave
				step(of.undoes, of.field, of.id, of.shown, false)
			}
			step(of.does, of.field, of.id, of.shown, true)
			step(of.undoes, of.field, of.id, of.shown, true)
		}
		step("recallMessage", "messageId", message, "message { recalled }", true)
		step("deletePost", "postId", a.publishPost("alice"), "postId", true)
		step("cancelShow", "showId", a.scheduleShow("alice", time.Hour), "show { status }", true)
	})
}

// A request that changed something returns changed: true again when it is repeated under its idempotency key, although the effect
// exists by then.
func TestAKeyRemembersThatItChanged(t *testing.T) {
	a := newAPI(t)
	a.MakeNamedUsers("bob")
	for range 3 {
		got := a.must("alice", `mutation { follow(input: {userId: "user:bob", idempotencyKey: "k"}) { changed } }`, nil)
		if got.valueAt("follow", "changed") != true {
			t.Errorf("under its key: %+v", got.Data)
		}
	}
	if got := a.must("alice", `mutation { follow(input: {userId: "user:bob"}) { changed } }`, nil); got.valueAt("follow", "changed") != false {
		t.Errorf("without it: %+v", got.Data)
	}
}

// One refused field leaves the other mutations and lists of the answer as they are.
func TestARefusalDoesNotAffectOtherFields(t *testing.T) {
	a := newAPI(t)
	got := a.askAs("alice", `mutation {
		done: publishPost(input: {body: "hello"}) { post { id } edge { cursor node { id } } }
		refused: likePost(input: {postId: "post:0000000000001"}) { badges { version } }
	}`, nil)
	id := got.valueAt("done", "post", "id")
	if got.code() != services.NotFound || id == nil || got.valueAt("refused") != nil || got.valueAt("done", "edge", "node", "id") != id {
		t.Errorf("two mutations: %+v %+v", got.Data, got.Errors)
	}
	got = a.askAs("alice", `{ viewer { id badges { id total { value } } homeFeed(after: "old") { lastId } notifications(first: 0) { readToken } announcements { edges { cursor } } } }`, nil)
	if len(got.Errors) != 2 || got.valueAt("viewer", "badges", "total", "value") == nil || got.valueAt("viewer", "announcements") == nil || got.valueAt("viewer", "homeFeed") != nil {
		t.Errorf("two bad lists: %+v %+v", got.Data, got.Errors)
	}
	if got.valueAt("viewer", "id") != "viewer:alice" || got.valueAt("viewer", "badges", "id") != "badges:alice" {
		t.Errorf("the ids: %+v", got.Data)
	}
}

// The viewer and the badges can be fetched by their IDs, but only by their own user. A mutation returns the same badges in its
// payload and in the viewer of the payload.
func TestTheViewerAndTheBadgesAreNodes(t *testing.T) {
	a := newAPI(t)
	a.MakeNamedUsers("bob")
	const query = `{ nodes(ids: ["viewer:alice", "badges:alice"]) { __typename id ... on Viewer { badges { id } } ... on Badges { total { value } } } }`
	got := a.must("alice", query, nil)
	if got.valueAt("nodes", 0, "badges", "id") != "badges:alice" || got.valueAt("nodes", 1, "id") != "badges:alice" || got.valueAt("nodes", 1, "total", "value") == nil {
		t.Errorf("one's own: %+v", got.Data)
	}
	if got := a.must("bob", query, nil); got.valueAt("nodes", 0) != nil || got.valueAt("nodes", 1) != nil {
		t.Errorf("another's: %+v", got.Data)
	}
	got = a.must("alice", `mutation { follow(input: {userId: "user:bob"}) { badges { id version } viewer { id badges { id version } } } }`, nil)
	if version := got.valueAt("follow", "badges", "version"); version == nil || version != got.valueAt("follow", "viewer", "badges", "version") {
		t.Errorf("a mutation: %+v", got.Data)
	}
	got = a.ask("admin", []services.Scope{services.ScopeViewer, services.ScopeAdmin}, `mutation { recountBadges(input: {userId: "user:bob"}) { badges { id } } }`, nil)
	if got.valueAt("recountBadges", "badges", "id") != "badges:bob" {
		t.Errorf("another's, of an operator: %+v %+v", got.Data, got.Errors)
	}
}

// Mutations that mark notifications return the notifications that they marked, as they are after the mark.
func TestMarksReturnTheMarkedItems(t *testing.T) {
	a := newAPI(t)
	a.notifyInEachCategory()
	ids := a.wantNotifications("alice", "before", "MENTION 1", "COMMENT 1", "FOLLOW 1", "LIKE 1")
	mark := func(verb, input string) []any {
		t.Helper()
		got := a.must("alice", `mutation { `+verb+`(`+input+`) { notifications { id read seen } } }`, nil)
		list, _ := got.valueAt(verb, "notifications").([]any)
		return list
	}
	list := mark("markNotificationsRead", fmt.Sprintf("input: {ids: [%q, %q, %q]}", ids[2], ids[0], ids[2]))
	if len(list) != 2 {
		t.Errorf("two by their ids: %v", list)
	}
	for _, row := range list {
		if row := row.(map[string]any); row["read"] != true || !slices.Contains([]any{ids[0], ids[2]}, row["id"]) {
			t.Errorf("by its id: %v", row)
		}
	}
	if list := mark("markAllRead", "input: {}"); len(list) != 4 || list[1].(map[string]any)["read"] != true {
		t.Errorf("all: %v", list)
	}
	if list := mark("undoMarkAllRead", "input: {}"); len(list) != 4 || list[1].(map[string]any)["read"] != false {
		t.Errorf("undone: %v", list)
	}
	if list := mark("markNotificationsSeen", "input: {categories: [LIKE]}"); len(list) != 1 || list[0].(map[string]any)["seen"] != true {
		t.Errorf("seen: %v", list)
	}
}

// The schema names every code that an error can have, and no other.
func TestTheSchemaNamesEveryErrorCode(t *testing.T) {
	var named []services.Code
	for _, value := range schema.Types["ErrorCode"].EnumValues {
		named = append(named, services.Code(value.Name))
		if !isServiceCode(value.Name) {
			t.Errorf("%s is no code", value.Name)
		}
	}
	if !slices.Equal(named, services.Codes) {
		t.Errorf("the schema names %v, the codes are %v", named, services.Codes)
	}
}

// The schema itself has a description, and so have all its types and their fields, except the field id.
func TestEverythingIsDescribed(t *testing.T) {
	if schema.Description == "" {
		t.Error("the schema is not described")
	}
	for name, kind := range schema.Types {
		if kind.BuiltIn {
			continue
		}
		if kind.Description == "" {
			t.Errorf("%s is not described", name)
		}
		if name == "IngestAction" { // its fields are mutations, which are described
			continue
		}
		for _, field := range kind.Fields {
			if field.Description == "" && field.Name != "id" && field.Name[0] != '_' {
				t.Errorf("%s.%s is not described", name, field.Name)
			}
		}
	}
}

// A mutation in a conversation whose effect exists already returns changed: false.
func TestMarksOfConversationsSayWhetherTheyChanged(t *testing.T) {
	fanouttest.EachEnginePair(t, nil, func(t *testing.T, w *fanouttest.World) {
		a := newAPIOn(t, w, 10, 5)
		group := a.createConversation("GROUP", "alice", "bob")
		message := a.sendMessage("bob", group)
		steps := 0
		does := func(verb, input string, want bool) {
			t.Helper()
			steps++
			for range 2 { // under its key it answers as the first time
				got := a.must("alice", fmt.Sprintf(`mutation { r: %s(input: {%s, idempotencyKey: "%d"}) { changed conversation { id } } }`, verb, input, steps), nil)
				if got.valueAt("r", "changed") != want || got.valueAt("r", "conversation", "id") != group {
					t.Errorf("%s: %+v, want changed %t", verb, got.Data, want)
				}
			}
		}
		it := fmt.Sprintf("conversationId: %q", group)
		does("leaveConversation", it, true) // leaving reads the unread messages
		does("markConversationRead", it, false)
		does("markConversationUnread", fmt.Sprintf("fromMessageId: %q", message), true)
		does("markConversationRead", it, true)
		does("markConversationRead", fmt.Sprintf("%s, upTo: %q", it, message), false)
		a.must("alice", fmt.Sprintf(`mutation { enterConversation(input: {%s}) { until } }`, it), nil)
		does("leaveConversation", it, true)
		does("leaveConversation", it, false)
		asEvent := a.ingest(event{"markConversationRead": event{"as": "user:alice", "conversationId": group}})
		if asEvent.valueAt("ingest", "results", 0, "changed") != false {
			t.Errorf("as an event: %+v", asEvent.Data)
		}
	})
}

// If a profile is set again after the clock was set back, every node shows the last one.
func TestTheLastProfileIsShownAfterTheClockWasSetBack(t *testing.T) {
	fanouttest.EachEnginePair(t, nil, func(t *testing.T, w *fanouttest.World) {
		a := newAPIOn(t, w, 10, 5)
		b := newAPIOn(t, w.AnotherNode(), 10, 5)
		for _, name := range []string{"one", "two", "three"} {
			got := a.must("alice", fmt.Sprintf(`mutation { setProfile(input: {name: %q}) { user { name } } }`, name), nil)
			_, err := b.Caches.Changelog.RunOnce(t.Context())
			w.Must(err)
			there := b.must("bob", `{ node(id: "user:alice") { ... on User { name } } }`, nil)
			if got.valueAt("setProfile", "user", "name") != name || there.valueAt("node", "name") != name {
				t.Errorf("%s: here %v, on another node %v", name, got.Data, there.Data)
			}
			w.Clock.Advance(-time.Minute)
		}
	})
}

// In an operation with two mutations of one object, the payload of each shows the object as it was right after that mutation.
func TestAPayloadShowsWhatItsMutationChanged(t *testing.T) {
	a := newAPI(t)
	a.Clock.RunInRealTime()
	got := a.must("reader", `mutation {
		a: setProfile(input: {name: "before"}) { user { name } }
		b: setProfile(input: {name: "after"}) { user { name } }
	}`, nil)
	if got.valueAt("a", "user", "name") != "before" || got.valueAt("b", "user", "name") != "after" {
		t.Errorf("answered %v", got.Data)
	}
}
