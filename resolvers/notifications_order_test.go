package resolvers

import (
	"strings"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/jobs"
)

// Notifications of one batch are listed in the order of their events, the last event first, whatever their categories are.
func TestNotificationsOfABatchAreInItsOrder(t *testing.T) {
	a := newAPI(t)
	posts := []string{a.publishPost("alice"), a.publishPost("alice")}
	got := a.ingest(
		event{"likePost": event{"as": "user:bob", "postId": posts[0]}},
		event{"publishPost": event{"as": "user:carol", "body": "well", "parentId": posts[0]}},
		event{"likePost": event{"as": "user:bob", "postId": posts[1]}},
		event{"follow": event{"as": "user:bob", "userId": "user:alice"}},
		event{"publishPost": event{"as": "user:carol", "body": "@alice"}},
	)
	for i := range 5 {
		if failed := got.valueAt("ingest", "results", i, "error"); failed != nil {
			t.Fatalf("event %d: %v", i, failed)
		}
	}
	a.wantNotifications("alice", "the batch", "MENTION 1", "FOLLOW 1", "LIKE 1", "COMMENT 1", "LIKE 1")
}

// A mark up to the upTo of the first notification of a list covers the whole list, also notifications that arrived later and are
// listed below it.
func TestAMarkUpToTheFirstItemCoversTheList(t *testing.T) {
	a := newAPI(t)
	posts := []string{a.publishPost("alice"), a.publishPost("alice")}
	a.RunAllJobs(a.Fanout)
	like := `mutation($p: ID!) { likePost(input: {postId: $p}) { post { id } } }`
	a.must("bob", like, map[string]any{"p": posts[0]})
	if held, err := jobs.Claim(t.Context(), a.DB, []string{"notify"}, 1, time.Minute, 0); err != nil || len(held) != 1 {
		t.Fatalf("held back are %v, %v", held, err)
	}
	a.Clock.Advance(time.Second)
	a.must("bob", like, map[string]any{"p": posts[1]})
	a.RunDueJobs(a.Fanout)
	alone, id := a.notificationUpTos("alice")[0], a.must("alice", notificationsQuery, nil).valueAt("viewer", "notifications", "edges", 0, "node", "id")
	ids := a.wantNotifications("alice", "both", "LIKE 1", "LIKE 1")
	both := a.notificationUpTos("alice")[0]
	if ids[0] != id || both == alone || !strings.HasPrefix(both, alone) {
		t.Errorf("the first is %s, shown as %s, and before the late one came it was %s, shown as %s", ids[0], both, id, alone)
	}
	seen := `mutation($n: ID!) { markNotificationsSeen(input: {upTo: $n}) { badges { total { value } } } }`
	if got := a.must("alice", seen, map[string]any{"n": alone}); got.valueAt("markNotificationsSeen", "badges", "total", "value") != 1.0 {
		t.Errorf("seen as it was shown before: %+v", got.Data)
	}
	a.wantNotifications("alice", "seen before the late one came", "LIKE 1 seen", "LIKE 1")
	if got := a.must("alice", seen, map[string]any{"n": both}); got.valueAt("markNotificationsSeen", "badges", "total", "value") != 0.0 {
		t.Errorf("seen as it is shown: %+v", got.Data)
	}
	a.must("alice", `mutation($n: ID!) { markNotificationsRead(input: {ids: [$n]}) { badges { version } } }`, map[string]any{"n": both})
	a.wantNotifications("alice", "the first read", "LIKE 1 seen read", "LIKE 1 seen")
	got := a.must("alice", `mutation($n: ID!) { markNotificationUnread(input: {id: $n}) { notification { id read } } }`, map[string]any{"n": ids[0]})
	if got.valueAt("markNotificationUnread", "notification", "id") != ids[0] || got.valueAt("markNotificationUnread", "notification", "read") != false {
		t.Errorf("unread: %+v", got.Data)
	}
	for _, bad := range []string{alone + "0000000000000", both + "0", alone + alone[len("notificationUpTo:"):], alone + "!!!!!!!!!!!!!"} {
		if got := a.askAs("alice", seen, map[string]any{"n": bad}); got.code() != services.Invalid {
			t.Errorf("%s: %+v", bad, got)
		}
	}
}
