package resolvers

import (
	"fmt"
	"testing"

	"tidings/services"
)

// Events can refer to objects of earlier events of the same request, and a repeated request changes nothing.
func TestEventsReferToEarlierEvents(t *testing.T) {
	a := newAPI(t)
	events := []event{
		{"publishPost": event{"as": "user:alice", "body": "hello", "ref": "p/1", "url": "https://example.com/1", "data": event{"n": 1}}},
		{"publishPost": event{"as": "user:bob", "body": "so", "ref": "p/2", "parentId": "post:ref:p%2F1"}},
		{"likePost": event{"as": "user:carol", "postId": "post:ref:p%2F2"}},
		{"publishPost": event{"as": "user:alice", "body": "again", "ref": "p/1"}},
		{"publishPost": event{"as": "user:bob", "body": "mine", "ref": "p/1"}},
		{"likePost": event{"as": "user:carol", "postId": "post:ref:p%2F9"}},
		{"publishPost": event{"as": "user:bob", "body": "", "ref": "p/3"}},
		{"likePost": event{"as": "user:carol", "postId": "post:ref:p%2F3"}},
		{"createConversation": event{"as": "user:alice", "kind": "GROUP", "memberIds": []string{"user:bob"}, "ref": "c"}},
		{"sendMessage": event{"as": "user:bob", "conversationId": "conversation:ref:c", "body": "hi", "ref": "m"}},
		{"markConversationRead": event{"as": "user:alice", "conversationId": "conversation:ref:c", "upTo": "message:ref:m"}},
		{"sendSiteMessage": event{"title": "t", "to": []string{"user:alice"}, "ref": "s"}},
		{"editSiteMessage": event{"siteMessageId": "siteMessage:ref:s", "title": "u"}},
		{"publishAnnouncement": event{"title": "t", "ref": "a"}},
		{"withdrawAnnouncement": event{"announcementId": "announcement:ref:a"}},
		{"scheduleShow": event{"as": "user:alice", "title": "t", "plannedAt": a.Clock.Now().Add(3600e9), "ref": "w"}},
		{"cancelShow": event{"as": "user:alice", "showId": "show:ref:w"}},
		{"deletePost": event{"as": "user:bob", "postId": "post:ref:p%2F2"}},
	}
	want := map[int]services.Code{4: services.Conflict, 5: services.NotFound, 6: services.Invalid, 7: services.NotFound}
	var ids [2][]any
	for round := range ids {
		got := a.ingest(events...)
		if len(got.Errors) > 0 {
			t.Fatal(got.Errors)
		}
		for i := range events {
			id, code := got.valueAt("ingest", "results", i, "id"), got.valueAt("ingest", "results", i, "error", "code")
			if ids[round] = append(ids[round], id); round == 1 {
				if i == 2 && code != string(services.NotFound) { // the comment is deleted
					t.Errorf("%v again: %v", events[i], got.valueAt("ingest", "results", i))
				}
				if i != 2 && fmt.Sprint(id) != fmt.Sprint(ids[0][i]) {
					t.Errorf("%v again: %v, it was %v", events[i], got.valueAt("ingest", "results", i), ids[0][i])
				}
				if i <= 1 || i == 3 || i == 8 || i == 9 || i == 11 || i == 13 || i == 15 {
					if got.valueAt("ingest", "results", i, "changed") != false {
						t.Errorf("%v again changed something", events[i])
					}
				}
				continue
			}
			if fmt.Sprint(code) != fmt.Sprint(codeOrNil(want[i])) || code == nil && id == nil {
				t.Errorf("%v: %v", events[i], got.valueAt("ingest", "results", i))
			}
		}
	}
	if ids[0][0] != ids[0][3] || ids[0][0] == ids[0][1] {
		t.Errorf("%v", ids[0])
	}
}

// codeOrNil is a code as it stands in a result: nil for no error.
func codeOrNil(code services.Code) any {
	if code == "" {
		return nil
	}
	return code
}

// In one request, an event that refers to the object of an earlier event is applied after it, also in a chain of such events.
func TestEventsAreAppliedAfterTheEventsTheyName(t *testing.T) {
	set := func(ref, parent string) event {
		input := event{"as": "user:alice", "body": "b", "ref": ref}
		if parent != "" {
			input["parentId"] = "post:ref:" + parent
		}
		return event{"publishPost": input}
	}
	a := newAPI(t)
	got := a.ingest(set("1", ""), set("2", ""), set("3", "1"), set("4", "2"), set("5", "3"), set("6", "9"), set("7", "5"))
	for i, kind := range []any{"POST", "POST", "COMMENT", "COMMENT", "REPLY", nil, "REPLY"} {
		id := got.valueAt("ingest", "results", i, "id")
		if kind == nil {
			if got.valueAt("ingest", "results", i, "error", "code") != string(services.NotFound) {
				t.Errorf("%d: %v", i, got.valueAt("ingest", "results", i))
			}
			continue
		}
		if node := a.must("bob", `query($id: ID!) { node(id: $id) { ... on Post { kind } } }`, map[string]any{"id": id}); node.valueAt("node", "kind") != kind {
			t.Errorf("%d: %v, want %v", i, node.Data, kind)
		}
	}
}
