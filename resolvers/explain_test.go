package resolvers

import (
	"maps"
	"strings"
	"testing"
	"time"

	"tidings/services"
)

func TestBadgesAreExplained(t *testing.T) {
	a := newAPI(t)
	a.must("bob", `mutation { follow(input: {userId: "user:alice"}) { user { id } } }`, nil)
	post := a.publishPost("alice")
	a.RunAllJobs(a.Fanout)
	got := a.must("bob", `{ viewer { badgeExplained { source part count { value } items { nodeId at count clearedBy } } } }`, nil)
	first := func(path ...any) any { return got.valueAt(append([]any{"viewer", "badgeExplained", 0}, path...)...) }
	if first("source") != "HOME_FEED" || first("part") != nil || first("count", "value") != 1.0 || first("items", 0, "nodeId") != post || first("items", 1) != nil {
		t.Fatalf("%+v", got)
	}
	// The mutation that the item has in clearedBy makes it count no longer.
	mutation, _ := first("items", 0, "clearedBy").(string)
	cleared := a.must("bob", mutation, nil)
	if cleared.valueAt("markHomeFeedSeen", "badges", "total", "value") != 0.0 {
		t.Errorf("%s left %+v", mutation, cleared)
	}
	if got := a.must("bob", `{ viewer { badgeExplained { source } } }`, nil); got.valueAt("viewer", "badgeExplained", 0) != nil {
		t.Errorf("nothing waits, and it is explained by %+v", got)
	}
}

// Each item behind a count has its object, and this is the same object as a query by its ID finds. All sources but the live board have
// items here.
func TestItemsOfTheBadgesAreNodes(t *testing.T) {
	a := newAPI(t)
	a.must("bob", `mutation { follow(input: {userId: "user:alice"}) { user { id } } }`, nil)
	a.publishPost("alice")
	a.publishPost("alice")
	own := a.publishPost("bob")
	a.must("alice", `mutation($id: ID!) { likePost(input: {postId: $id}) { changed } }`, map[string]any{"id": own})
	a.scheduleShow("alice", time.Hour)
	a.ingest(event{"sendSiteMessage": event{"title": "hello", "to": []string{"user:bob"}}}, event{"publishAnnouncement": event{"title": "news"}})
	group := a.must("alice", `mutation { createConversation(input: {kind: DIRECT, memberIds: ["user:bob"]}) { conversation { id } } }`, nil).valueAt("createConversation", "conversation", "id")
	a.must("alice", `mutation($id: ID!) { sendMessage(input: {conversationId: $id, body: "hi"}) { message { id } } }`, map[string]any{"id": group})
	a.must("bob", `mutation { touchView(input: {code: "news", key: "town"}) { view { id } } }`, nil)
	a.ingest(event{"addViewItem": event{"code": "news", "view": "town", "item": "a", "at": a.Clock.Now()}})
	a.RunAllJobs(a.Fanout)
	const query = `{ viewer { badgeExplained { source items { nodeId node { __typename id
		... on Post { body author { key } } ... on Notification { category causes { __typename } } ... on SiteMessage { title } ... on Announcement { unread }
		... on View { key newItems: unread { value } }
		... on Conversation { messages { nodes { body } } members { totalCount nodes { key } } lastMessage { body } } } } } } }`
	got := a.must("bob", query, nil)
	types := map[any]int{}
	explained, _ := got.valueAt("viewer", "badgeExplained").([]any)
	for i := range explained {
		items, _ := got.valueAt("viewer", "badgeExplained", i, "items").([]any)
		for k := range items {
			item := func(path ...any) any {
				return got.valueAt(append([]any{"viewer", "badgeExplained", i, "items", k}, path...)...)
			}
			again := a.must("bob", `query($id: ID!) { node(id: $id) { __typename id } }`, map[string]any{"id": item("nodeId")})
			if types[item("node", "__typename")]++; item("node", "id") != item("nodeId") || again.valueAt("node", "__typename") != item("node", "__typename") {
				t.Errorf("%v is about %v, read again it is %v", item("nodeId"), item("node"), again.valueAt("node"))
			}
			if item("node", "__typename") == "View" && (item("node", "key") != "town" || item("node", "newItems", "value") != 1.0) {
				t.Errorf("the view is %v", item("node"))
			}
			if item("node", "__typename") == "Conversation" && (item("node", "messages", "nodes", 0, "body") != "hi" || item("node", "members", "totalCount") != 2.0) {
				t.Errorf("the conversation is %v", item("node"))
			}
		}
	}
	if want := map[any]int{"Post": 2, "Notification": 1, "SiteMessage": 1, "Announcement": 1, "Conversation": 1, "View": 1}; !maps.Equal(types, want) {
		t.Errorf("the items are about %v, want %v: %v", types, want, got.Data)
	}
}

func TestAwayDigest(t *testing.T) {
	a := newAPI(t)
	a.must("bob", `mutation { follow(input: {userId: "user:alice"}) { user { id } } }`, nil)
	a.publishPost("alice")
	a.RunAllJobs(a.Fanout)
	const fields = `{ since parts { source part count { value } } authors { key } }`
	if got := a.must("bob", `{ viewer { awayDigest `+fields+` } }`, nil); got.valueAt("viewer", "awayDigest", "since") != nil || got.valueAt("viewer", "awayDigest", "parts", 0) != nil {
		t.Errorf("of a first visit: %+v", got)
	}
	got := a.must("bob", `{ viewer { awayDigest(since: "2026-01-01T00:00:00Z") `+fields+` } }`, nil)
	if got.valueAt("viewer", "awayDigest", "parts", 0, "source") != "HOME_FEED" || got.valueAt("viewer", "awayDigest", "parts", 0, "count", "value") != 1.0 ||
		got.valueAt("viewer", "awayDigest", "authors", 0, "key") != "alice" || !strings.HasPrefix(got.valueAt("viewer", "awayDigest", "since").(string), "2026-01-01T00:00:00") {
		t.Errorf("since new year: %+v", got)
	}
	for _, since := range []string{"2999-01-01T00:00:00Z", "yesterday"} {
		if got := a.askAs("bob", `{ viewer { awayDigest(since: "`+since+`") { since } } }`, nil); got.code() != services.Invalid {
			t.Errorf("since %s: %+v", since, got)
		}
	}
}
