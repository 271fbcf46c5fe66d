package resolvers

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"tidings/services"
)

const notificationsQuery = `query($first: Int, $after: String, $unseen: Boolean, $unread: Boolean, $categories: [NotificationCategory!]) { viewer {
	badges { total { value } homeFeed { value } notifications { newest total { value } like { value } comment { value } mention { value } follow { value }
		older { like comment mention follow } } }
	notifications(first: $first, after: $after, unseenOnly: $unseen, unreadOnly: $unread, categories: $categories) {
		readToken pageInfo { hasNextPage endCursor startCursor }
		edges { cursor node { id upTo category subject { id } actors { key } actorCount at seen read older } } } } }`

// notificationLines returns a user's list of notifications: a line for each, such as "LIKE 1" with its marks, and the IDs. It
// checks that the count agrees with the list.
func (a *testAPI) notificationLines(key string) (lines, ids []string) {
	a.t.Helper()
	a.RunAllJobs(a.Fanout)
	got := a.must(key, notificationsQuery, nil)
	edges, _ := got.valueAt("viewer", "notifications", "edges").([]any)
	for i := range edges {
		node := func(field string) any { return got.valueAt("viewer", "notifications", "edges", i, "node", field) }
		line := fmt.Sprintf("%v %v", node("category"), node("actorCount"))
		for _, mark := range []string{"seen", "read", "older"} {
			if node(mark) == true {
				line += " " + mark
			}
		}
		lines, ids = append(lines, line), append(ids, node("id").(string))
	}
	unseen := a.must(key, notificationsQuery, map[string]any{"unseen": true})
	listed, _ := unseen.valueAt("viewer", "notifications", "edges").([]any)
	if number := got.valueAt("viewer", "badges", "notifications", "total", "value"); number != float64(len(listed)) {
		a.t.Errorf("%s: the number is %v, and the list has %d", key, number, len(listed))
	}
	return lines, ids
}

// wantNotifications fails the test if the notificationLines of a user are not the wanted ones. It returns the IDs.
func (a *testAPI) wantNotifications(key, when string, want ...string) (ids []string) {
	a.t.Helper()
	lines, ids := a.notificationLines(key)
	if !slices.Equal(lines, want) {
		a.t.Errorf("%s: %s is listed %q, want %q", when, key, lines, want)
	}
	return ids
}

// notificationUpTos returns the upTo of each notification of a viewer, in the order of the list.
func (a *testAPI) notificationUpTos(key string) (list []string) {
	a.t.Helper()
	got := a.must(key, notificationsQuery, nil)
	edges, _ := got.valueAt("viewer", "notifications", "edges").([]any)
	for i := range edges {
		list = append(list, got.valueAt("viewer", "notifications", "edges", i, "node", "upTo").(string))
	}
	return list
}

// publishAnswerMentioning publishes an answer to a post, and returns the ID of the answer.
func (a *testAPI) publishAnswerMentioning(key, parent, body string, mentions ...string) string {
	a.t.Helper()
	a.Clock.Advance(time.Second)
	got := a.must(key, `mutation($i: PublishPostInput!) { publishPost(input: $i) { post { id kind parentId } } }`,
		map[string]any{"i": map[string]any{"body": body, "parentId": parent, "mentions": mentions}})
	if got.valueAt("publishPost", "post", "parentId") != parent {
		a.t.Errorf("the answer is %+v", got.Data)
	}
	return got.valueAt("publishPost", "post", "id").(string)
}

// notifyInEachCategory makes four notifications for alice: of a like, a follow, a comment and a mention. It returns the IDs of alice's
// post and of bob's comment on it.
func (a *testAPI) notifyInEachCategory() (post, comment string) {
	a.t.Helper()
	post = a.publishPost("alice")
	a.must("bob", `mutation($p: ID!) { likePost(input: {postId: $p}) { post { id } } }`, map[string]any{"p": post})
	a.RunAllJobs(a.Fanout)
	a.must("bob", `mutation { follow(input: {userId: "user:alice"}) { user { id } } }`, nil)
	a.RunAllJobs(a.Fanout)
	comment = a.publishAnswerMentioning("bob", post, "nice")
	a.RunAllJobs(a.Fanout)
	a.publishAnswerMentioning("carol", comment, "yes, @alice")
	a.RunAllJobs(a.Fanout)
	return post, comment
}

func TestEachCategoryIsListedAndFiltered(t *testing.T) {
	a := newAPI(t)
	post, comment := a.notifyInEachCategory()
	a.wantNotifications("alice", "four things", "MENTION 1", "COMMENT 1", "FOLLOW 1", "LIKE 1")
	a.wantNotifications("bob", "a reply to their comment", "COMMENT 1")
	a.wantNotifications("carol", "nothing")
	got := a.must("alice", notificationsQuery, map[string]any{"categories": []string{"LIKE"}})
	if got.valueAt("viewer", "notifications", "edges", 1) != nil || got.valueAt("viewer", "notifications", "edges", 0, "node", "subject", "id") != post ||
		got.valueAt("viewer", "notifications", "edges", 0, "node", "actors", 0, "key") != "bob" {
		t.Errorf("the likes are %+v", got.Data)
	}
	a.must("bob", `mutation($p: ID!) { deletePost(input: {postId: $p}) { postId } }`, map[string]any{"p": comment})
	a.must("bob", `mutation($p: ID!) { unlikePost(input: {postId: $p}) { post { id } } }`, map[string]any{"p": post})
	a.must("bob", `mutation { unfollow(input: {userId: "user:alice"}) { user { id } } }`, nil)
	a.wantNotifications("alice", "all undone but the mention", "MENTION 1")
	a.wantNotifications("bob", "what was replied to is gone")
}

// To mark the mentions as seen clears the mentions alone. A notification that was read does not count. When it is marked unread, it
// counts again.
func TestNotificationsMarkedSeenOrReadDoNotCount(t *testing.T) {
	a := newAPI(t)
	a.notifyInEachCategory()
	a.must("alice", `mutation { markNotificationsSeen(input: {categories: [MENTION]}) { badges { total { value } } } }`, nil)
	ids := a.wantNotifications("alice", "mentions seen", "MENTION 1 seen", "COMMENT 1", "FOLLOW 1", "LIKE 1")
	got := a.must("alice", `mutation($i: MarkNotificationsReadInput!) { markNotificationsRead(input: $i) { badges { notifications { total { value } } } } }`,
		map[string]any{"i": map[string]any{"ids": []string{ids[1], ids[0]}}})
	if got.valueAt("markNotificationsRead", "badges", "notifications", "total", "value") != 2.0 {
		t.Errorf("the answer's badges are %+v", got.Data)
	}
	a.wantNotifications("alice", "two read", "MENTION 1 seen read", "COMMENT 1 seen read", "FOLLOW 1", "LIKE 1")
	got = a.must("alice", `mutation($n: ID!) { markNotificationUnread(input: {id: $n}) { notification { id read } badges { notifications { total { value } } } } }`, map[string]any{"n": ids[0]})
	if got.valueAt("markNotificationUnread", "notification", "read") != false || got.valueAt("markNotificationUnread", "notification", "id") != ids[0] {
		t.Errorf("unread again: %+v", got.Data)
	}
	a.wantNotifications("alice", "the mention is unread, and was seen", "MENTION 1 seen", "COMMENT 1 seen read", "FOLLOW 1", "LIKE 1")
	a.must("alice", `mutation($n: ID!) { markNotificationsRead(input: {upTo: $n}) { badges { version } } }`, map[string]any{"n": a.notificationUpTos("alice")[2]})
	a.wantNotifications("alice", "read up to the follower", "MENTION 1 seen", "COMMENT 1 seen read", "FOLLOW 1 seen read", "LIKE 1 seen read")
}

// A mark with the read token of an old list does not change a notification that another device has marked unread since.
func TestALateMarkKeepsItemsMarkedUnread(t *testing.T) {
	a := newAPI(t)
	a.notifyInEachCategory()
	ids := a.wantNotifications("alice", "before", "MENTION 1", "COMMENT 1", "FOLLOW 1", "LIKE 1")
	token := a.must("alice", notificationsQuery, nil).valueAt("viewer", "notifications", "readToken")
	a.must("alice", `mutation($n: ID!) { markNotificationUnread(input: {id: $n}) { badges { version } } }`, map[string]any{"n": ids[3]})
	late := `mutation($t: String) { markNotificationsRead(input: {all: true, readToken: $t}) { badges { version } } }`
	a.must("alice", late, map[string]any{"t": token})
	a.wantNotifications("alice", "a late mark", "MENTION 1 seen read", "COMMENT 1 seen read", "FOLLOW 1 seen read", "LIKE 1")
	a.must("alice", late, nil)
	a.wantNotifications("alice", "a mark of now", "MENTION 1 seen read", "COMMENT 1 seen read", "FOLLOW 1 seen read", "LIKE 1 seen read")
}

func TestMarkAllReadAndItsUndo(t *testing.T) {
	a := newAPI(t)
	a.notifyInEachCategory()
	all := `mutation { markAllRead(input: {idempotencyKey: "k"}) { undoUntil badges { notifications { total { value } } } } }`
	undo := `mutation { undoMarkAllRead(input: {}) { badges { notifications { total { value } } } } }`
	if got := a.askAs("alice", undo, nil); got.code() != services.Conflict {
		t.Errorf("nothing to undo: %+v", got)
	}
	first, again := a.must("alice", all, nil), a.must("alice", all, nil)
	until := first.valueAt("markAllRead", "undoUntil")
	if until == nil || until != again.valueAt("markAllRead", "undoUntil") || first.valueAt("markAllRead", "badges", "notifications", "total", "value") != 0.0 {
		t.Errorf("all read: %+v, and again %+v", first.Data, again.Data)
	}
	a.Clock.Advance(30 * time.Second)
	if got := a.must("alice", undo, nil); got.valueAt("undoMarkAllRead", "badges", "notifications", "total", "value") != 4.0 {
		t.Errorf("undone: %+v", got.Data)
	}
	a.wantNotifications("alice", "undone", "MENTION 1", "COMMENT 1", "FOLLOW 1", "LIKE 1")
	a.must("alice", `mutation { markAllRead(input: {}) { undoUntil } }`, nil)
	a.Clock.Advance(31 * time.Second)
	got := a.askAs("alice", undo, nil)
	if got.code() != services.Conflict || !strings.Contains(got.Errors[0].Message, "30 s") {
		t.Errorf("too late: %+v", got)
	}
	a.wantNotifications("alice", "too late", "MENTION 1 seen read", "COMMENT 1 seen read", "FOLLOW 1 seen read", "LIKE 1 seen read")
	if got := a.must("alice", `mutation { markAllRead(input: {}) { undoUntil } }`, nil); got.valueAt("markAllRead", "undoUntil") != nil {
		t.Errorf("nothing was read: %+v", got.Data)
	}
}

// Unseen notifications leave the count after the days of the expiry, and stay in the list.
func TestExpiredNotificationsStayInTheList(t *testing.T) {
	a := newAPI(t)
	a.notifyInEachCategory()
	a.Clock.Advance(8 * 24 * time.Hour)
	a.wantNotifications("alice", "after eight days", "MENTION 1 older", "COMMENT 1 older", "FOLLOW 1 older", "LIKE 1 older")
	got := a.must("alice", notificationsQuery, nil)
	for _, category := range []string{"like", "comment", "mention", "follow"} {
		if got.valueAt("viewer", "badges", "notifications", "older", category) != 1.0 {
			t.Errorf("%s: %+v", category, got.valueAt("viewer", "badges", "notifications"))
		}
	}
}

func TestPagesOfNotifications(t *testing.T) {
	a := newAPI(t)
	a.notifyInEachCategory()
	_, want := a.notificationLines("alice")
	var walked []string
	var after any
	for range 10 {
		got := a.must("alice", notificationsQuery, map[string]any{"first": 1, "after": after})
		walked = append(walked, got.valueAt("viewer", "notifications", "edges", 0, "node", "id").(string))
		after = got.valueAt("viewer", "notifications", "pageInfo", "endCursor")
		if got.valueAt("viewer", "notifications", "pageInfo", "hasNextPage") == false {
			break
		}
	}
	if !slices.Equal(walked, want) {
		t.Errorf("one by one they are %v, at once %v", walked, want)
	}
	if got := a.askAs("bob", notificationsQuery, map[string]any{"after": after}); got.code() != services.Invalid {
		t.Errorf("another's cursor: %+v", got)
	}
	feed := a.must("alice", `{ viewer { homeFeed { pageInfo { endCursor } } } }`, nil).valueAt("viewer", "homeFeed", "pageInfo", "endCursor")
	if got := a.askAs("alice", notificationsQuery, map[string]any{"after": feed}); got.code() != services.Invalid {
		t.Errorf("a feed's cursor: %+v", got)
	}
}

// A notification is a node for its recipient alone. It keeps its ID when more actors join. Its upTo is for the state that was shown: a
// mark with it does not cover actors who joined since. A mark with the ID does.
func TestANotificationKeepsItsID(t *testing.T) {
	a := newAPI(t)
	post, _ := a.notifyInEachCategory()
	_, before := a.notificationLines("alice")
	like, shown := before[3], a.notificationUpTos("alice")[3]
	join := func(key string) string {
		t.Helper()
		a.must(key, `mutation($p: ID!) { likePost(input: {postId: $p}) { post { id } } }`, map[string]any{"p": post})
		_, after := a.notificationLines("alice")
		if after[0] != like || a.notificationUpTos("alice")[0] == shown {
			t.Fatalf("%s was shown as %s; with %s it is %s, shown as %s", like, shown, key, after[0], a.notificationUpTos("alice")[0])
		}
		return a.notificationUpTos("alice")[0]
	}
	later := join("carol")
	query := `query($ids: [ID!]!) { nodes(ids: $ids) { id ... on Notification { actorCount upTo } } }`
	position := "notification:" + strings.TrimPrefix(later, "notificationUpTo:")[:13]
	got := a.must("alice", query, map[string]any{"ids": []string{like, post, position, "notification:0000000000009"}})
	if got.valueAt("nodes", 0, "id") != like || got.valueAt("nodes", 0, "actorCount") != 2.0 || got.valueAt("nodes", 1, "id") != post || got.valueAt("nodes", 2) != nil || got.valueAt("nodes", 3) != nil {
		t.Errorf("the nodes are %+v", got.Data)
	}
	if got := a.askAs("alice", query, map[string]any{"ids": []string{later}}); got.code() != services.Invalid {
		t.Errorf("what was shown is no object, and is fetched as %+v", got)
	}
	if got := a.must("bob", query, map[string]any{"ids": []string{like, before[0]}}); got.valueAt("nodes", 0) != nil || got.valueAt("nodes", 1) != nil {
		t.Errorf("another reads them: %+v", got.Data)
	}
	read := func(id string, want bool) {
		t.Helper()
		got := a.must("alice", `mutation($id: ID!) { markNotificationsRead(input: {ids: [$id]}) { notifications { id read } } }`, map[string]any{"id": id})
		if got.valueAt("markNotificationsRead", "notifications", 0, "id") != like || got.valueAt("markNotificationsRead", "notifications", 0, "read") != want {
			t.Errorf("read by %s: %+v", id, got.Data)
		}
	}
	read(shown, false)
	read(later, true)
	a.MakeNamedUsers("dave")
	last := join("dave")
	read(later, false)
	read(like, true)
	if got := a.askAs("alice", `mutation($id: ID!) { markNotificationsSeen(input: {upTo: $id}) { badges { version } } }`, map[string]any{"id": like}); got.code() != services.Invalid || !strings.Contains(got.Errors[0].Message, "upTo") {
		t.Errorf("seen up to an id: %+v", got)
	}
	a.must("bob", `mutation($p: ID!) { unlikePost(input: {postId: $p}) { post { id } } }`, map[string]any{"p": post})
	if _, after := a.notificationLines("alice"); after[0] != like || a.notificationUpTos("alice")[0] != last {
		t.Errorf("without the first of it %s is %s, shown as %s", like, after[0], a.notificationUpTos("alice")[0])
	}
}

func TestMarksThatAreRefused(t *testing.T) {
	a := newAPI(t)
	post, _ := a.notifyInEachCategory()
	_, mine := a.notificationLines("alice")
	shown := a.notificationUpTos("alice")[0]
	_, bobs := a.notificationLines("bob")
	read := func(input string) string {
		return `mutation { markNotificationsRead(input: {` + input + `}) { badges { version } } }`
	}
	many := strings.Repeat(`"`+mine[0]+`",`, 501)
	for what, bad := range map[string]struct {
		query string
		code  services.Code
		says  string // a part of the error's message
	}{
		"nothing named":         {read(``), services.Invalid, "ids, upTo, categories or all"},
		"ids and a range":       {read(`ids: ["` + mine[0] + `"], categories: [LIKE]`), services.Invalid, "ids, all"},
		"all and a range":       {read(`all: true, upTo: "` + shown + `"`), services.Invalid, "ids, all"},
		"too many ids":          {read(`ids: [` + many + `]`), services.Invalid, "1 to 500"},
		"an id of another list": {read(`ids: ["` + post + `"]`), services.Invalid, "notification"},
		"another's id":          {read(`ids: ["` + mine[0] + `", "` + bobs[0] + `"]`), services.NotFound, "not a notification of yours"},
		"up to a post":          {read(`upTo: "` + post + `"`), services.Invalid, "upTo"},
		"up to an id":           {read(`upTo: "` + mine[0] + `"`), services.Invalid, "send its upTo"},
		"another's as shown":    {read(`ids: ["` + a.notificationUpTos("bob")[0] + `"]`), services.NotFound, "not of a notification of yours"},
		"up to the beginning":   {read(`upTo: "notificationUpTo:0000000000000"`), services.NotFound, "upTo"},
		"beyond the end":        {read(`upTo: "notificationUpTo:7ZZZZZZZZZZZZ"`), services.Invalid, "beyond the newest"},
		"a broken token":        {read(`all: true, readToken: "7"`), services.Invalid, "readToken"},
		"an unknown category":   {read(`categories: [SHOE]`), services.Invalid, "SHOE"},
		"seen beyond the end":   {`mutation { markNotificationsSeen(input: {upTo: "notificationUpTo:7ZZZZZZZZZZZZ"}) { badges { version } } }`, services.Invalid, "beyond the newest"},
		"all beyond the end":    {`mutation { markAllRead(input: {upTo: "notificationUpTo:7ZZZZZZZZZZZZ"}) { badges { version } } }`, services.Invalid, "beyond the newest"},
		"unread another's":      {`mutation { markNotificationUnread(input: {id: "notification:0000000000007"}) { badges { version } } }`, services.NotFound, "not a notification of yours"},
		"unread a post":         {`mutation { markNotificationUnread(input: {id: "` + post + `"}) { badges { version } } }`, services.Invalid, "id"},
	} {
		if got := a.askAs("alice", bad.query, nil); got.code() != bad.code || !strings.Contains(got.Errors[0].Message, bad.says) {
			t.Errorf("%s: %+v", what, got)
		}
	}
	a.wantNotifications("alice", "after what was refused", "MENTION 1", "COMMENT 1", "FOLLOW 1", "LIKE 1")
}

// The host application can mark for its users. The posts that it publishes for them can answer and mention.
func TestNotificationEvents(t *testing.T) {
	a := newAPI(t)
	post, _ := a.notifyInEachCategory()
	ids := a.wantNotifications("alice", "before", "MENTION 1", "COMMENT 1", "FOLLOW 1", "LIKE 1")
	got := a.ingest(
		event{"publishPost": event{"as": "user:dora", "body": "hello", "parentId": post, "mentions": []string{"user:bob"}}},
		event{"publishPost": event{"as": "user:dora", "body": "hello", "parentId": "post:0000000000001"}},
		event{"markNotificationsRead": event{"as": "user:alice", "ids": []string{ids[0]}}},
		event{"markNotificationUnread": event{"as": "user:alice", "id": ids[0]}},
		event{"markAllRead": event{"as": "user:alice"}},
		event{"undoMarkAllRead": event{"as": "user:alice"}},
		event{"undoMarkAllRead": event{"as": "user:alice"}},
		event{"markNotificationsRead": event{"as": "user:alice", "categories": []string{"LIKE"}}},
	)
	for i, code := range []any{nil, "NOT_FOUND", nil, nil, nil, nil, "CONFLICT", nil} {
		if is := got.valueAt("ingest", "results", i, "error", "code"); is != code {
			t.Errorf("event %d: %v, want %v", i, got.valueAt("ingest", "results", i), code)
		}
	}
	a.wantNotifications("alice", "after the events", "COMMENT 2", "MENTION 1", "FOLLOW 1", "LIKE 1 seen read")
	a.wantNotifications("bob", "mentioned", "MENTION 1", "COMMENT 1")
}

// The likes of one post within one half day are one notification, and so are follows. When another user likes or follows, the
// notification counts again. If a user takes a like or follow back and repeats it, the notification does not change. The descriptions
// in the schema say the same.
func TestASecondLikeOrFollowWithinHalfADay(t *testing.T) {
	for name, acts := range map[string]func(a *testAPI) (again, undo func(key string)){
		"LIKE": func(a *testAPI) (again, undo func(key string)) {
			post := a.publishPost("alice")
			return func(key string) {
					a.must(key, `mutation($id: ID!) { likePost(input: {postId: $id}) { badges { version } } }`, map[string]any{"id": post})
				}, func(key string) {
					a.must(key, `mutation($id: ID!) { unlikePost(input: {postId: $id}) { badges { version } } }`, map[string]any{"id": post})
				}
		},
		"FOLLOW": func(a *testAPI) (again, undo func(key string)) {
			return func(key string) {
					a.must(key, `mutation { follow(input: {userId: "user:alice"}) { badges { version } } }`, nil)
				}, func(key string) {
					a.must(key, `mutation { unfollow(input: {userId: "user:alice"}) { badges { version } } }`, nil)
				}
		},
	} {
		t.Run(name, func(t *testing.T) {
			a := newAPI(t)
			a.must("alice", `{ viewer { badges { version } } }`, nil)
			again, undo := acts(a)
			seen := func() {
				a.must("alice", `mutation { markNotificationsSeen(input: {}) { badges { version } } }`, nil)
			}
			again("bob")
			first := a.wantNotifications("alice", "once", name+" 1")
			seen()
			a.Clock.Advance(time.Hour)
			undo("bob")
			a.wantNotifications("alice", "taken back")
			again("bob")
			if same := a.wantNotifications("alice", "again", name+" 1 seen"); !slices.Equal(same, first) {
				t.Errorf("again it is %s, and was %s", same, first)
			}
			a.Clock.Advance(time.Minute)
			again("carol")
			a.wantNotifications("alice", "another person", name+" 2")
			undo("bob")
			again("bob")
			a.wantNotifications("alice", "again while it waits", name+" 2")
			seen()
			a.Clock.Advance(12 * time.Hour)
			undo("bob")
			a.wantNotifications("alice", "taken back in another half day", name+" 1 seen")
			again("bob")
			a.wantNotifications("alice", "again in another half day", name+" 2 seen")
			again("dave")
			a.wantNotifications("alice", "another person in another half day", name+" 1", name+" 2 seen")
		})
	}
}
