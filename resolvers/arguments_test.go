package resolvers

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"tidings/services"
)

// An error about an argument names one that the client has sent, so that a front end can show the message beside its field.
func TestAnErrorNamesAnArgumentOfTheRequest(t *testing.T) {
	a := newAPI(t)
	conversation := a.createConversation("GROUP", "alice", "bob")
	message := a.sendMessage("alice", conversation)
	beyond := message[:len(message)-1] + "9"
	viewer, host := []services.Scope{services.ScopeViewer}, []services.Scope{services.ScopeIngest}
	const none = "0000000000ABC"
	for _, c := range []struct {
		key             string
		scopes          []services.Scope
		query, argument string // argument is the one that the error must name
		path            []any  // the path of the error
	}{
		{"alice", viewer, `mutation { mute(input: {userId: "user:bob", until: "soon"}) { changed } }`, "until", []any{"mute"}},
		{"alice", viewer, `mutation { mute(input: {userId: "user:bob", until: 5}) { changed } }`, "until", []any{"mute"}},
		{"alice", viewer, `{ me: viewer { away: awayDigest(since: "soon") { since } } }`, "since", []any{"me", "away"}},
		{"alice", host, `mutation { publishPost(input: {body: "a", data: [1]}) { created } }`, "data", []any{"publishPost"}},
		{"", host, `mutation { ingest(events: [{as: "user:bob", at: "soon", do: {likePost: {postId: "post:ref:a"}}}]) { results { id } } }`, "events[0].at", []any{"ingest"}},
		{"alice", viewer, `{ node(id: "nothing") { id } }`, "id", []any{"node"}},
		{"alice", viewer, `{ node(id: "post:x") { id } }`, "id", []any{"node"}},
		{"alice", viewer, `{ node(id: "post:ref:%") { id } }`, "id", []any{"node"}},
		{"alice", viewer, `{ nodes(ids: ["user:bob", "nothing"]) { id } }`, "ids", []any{"nodes"}},
		{"alice", viewer, `{ nodes(ids: ["post:x"]) { id } }`, "ids", []any{"nodes"}},
		{"alice", viewer, `{ nodes(ids: ["post:ref:%"]) { id } }`, "ids", []any{"nodes"}},
		{"alice", viewer, `mutation { markNotificationsRead(input: {ids: []}) { badges { version } } }`, "ids", []any{"markNotificationsRead"}},
		{"alice", viewer, `{ viewer { views(codes: ["topic", "A B"]) { nodes { id } } } }`, "codes", []any{"viewer", "views"}},
		{"", host, `{ users(keys: ["alice", ""]) { user { id } } }`, "keys", []any{"users"}},
		{"", host, `{ users(keys: ["a\nb"]) { user { id } } }`, "keys", []any{"users"}},
		{"carol", viewer, `mutation { recallMessage(input: {messageId: "` + message + `"}) { changed } }`, "messageId", []any{"recallMessage"}},
		{"carol", viewer, `mutation { recallMessage(input: {messageId: "message:0ZZZZZZ000001"}) { changed } }`, "messageId", []any{"recallMessage"}},
		{"carol", viewer, `mutation { markConversationUnread(input: {fromMessageId: "` + message + `"}) { changed } }`, "fromMessageId", []any{"markConversationUnread"}},
		{"bob", viewer, `mutation { markConversationUnread(input: {fromMessageId: "` + beyond + `"}) { changed } }`, "fromMessageId", []any{"markConversationUnread"}},
		{"", host, `mutation { editSiteMessage(input: {siteMessageId: "siteMessage:` + none + `", title: "a"}) { message { id } } }`, "siteMessageId", []any{"editSiteMessage"}},
		{"", host, `mutation { editSiteMessage(input: {siteMessageId: "siteMessage:` + none + `", url: null}) { message { id } } }`, "siteMessageId", []any{"editSiteMessage"}},
		{"", host, `mutation { editAnnouncement(input: {announcementId: "announcement:` + none + `", title: "a"}) { announcement { id } } }`, "announcementId", []any{"editAnnouncement"}},
		{"", host, `mutation { withdrawAnnouncement(input: {announcementId: "announcement:` + none + `"}) { changed } }`, "announcementId", []any{"withdrawAnnouncement"}},
	} {
		got := a.ask(c.key, c.scopes, c.query, nil)
		if len(got.Errors) != 1 {
			t.Errorf("%s: %+v", c.query, got)
			continue
		}
		fault := got.Errors[0]
		if fault.Extensions["argument"] != c.argument || !slices.Equal(fault.Path, c.path) {
			t.Errorf("%s: %q about %v at %v, want %s at %v", c.query, fault.Message, fault.Extensions["argument"], fault.Path, c.argument, c.path)
		}
		if !strings.HasPrefix(fault.Message, c.argument+": ") || strings.Contains(fault.Message, "interface") || strings.Contains(fault.Message, "int64") {
			t.Errorf("%s: the message is %q", c.query, fault.Message)
		}
	}
	got := a.ingestFullEvents(event{"as": "user:bob", "device": "", "do": event{"likePost": event{"postId": a.publishPost("alice")}}})
	if named := got.valueAt("ingest", "results", 0, "error", "argument"); named != "device" {
		t.Errorf("an event without a name of its device: %+v is about %v", got, named)
	}
}

// The error for a text that is too long has the limit in its extensions, like the errors of all other bounds.
func TestALongTextHasItsLimit(t *testing.T) {
	a := newAPI(t)
	for query, limit := range map[string]float64{
		`mutation { publishPost(input: {body: "` + strings.Repeat("a", 5001) + `"}) { created } }`:                    5000,
		`mutation { publishPost(input: {body: "a", idempotencyKey: "` + strings.Repeat("a", 65) + `"}) { created } }`: 64,
	} {
		got := a.askAs("alice", query, nil)
		if got.code() != services.Invalid || got.Errors[0].Extensions["limit"] != limit || got.Errors[0].Extensions["reason"] != "LIMIT" {
			t.Errorf("%.60s: %+v, want the limit %v", query, got, limit)
		}
	}
}

// No object has an ID with the number 0. Such an ID must not be taken for a missing one, which means the newest item or, as a parent,
// no post.
func TestNoObjectHasTheIDZero(t *testing.T) {
	a := newAPI(t)
	a.must("alice", `{ viewer { badges { version } } }`, nil)
	a.announce(`{title: "news"}`)
	a.RunAllJobs(a.Fanout)
	const zero = "0000000000000"
	session, _ := a.must("alice", `{ viewer { liveBoard { sessionId } } }`, nil).valueAt("viewer", "liveBoard", "sessionId").(string)
	for argument, query := range map[string]string{
		"parentId":          `mutation { publishPost(input: {body: "a", parentId: "post:` + zero + `"}) { created } }`,
		"upTo":              `mutation { markAnnouncementsRead(input: {upTo: "announcement:` + zero + `"}) { badges { version } } }`,
		"upTo of a feed":    `mutation { markHomeFeedSeen(input: {upTo: "post:` + zero + `"}) { badges { version } } }`,
		"upTo of letters":   `mutation { markSiteMessagesRead(input: {upTo: "siteMessage:` + zero + `"}) { badges { version } } }`,
		"lastId":            `{ viewer { homeFeed(lastId: "post:` + zero + `") { nodes { id } } } }`,
		"lastId of a board": fmt.Sprintf(`{ viewer { liveBoard(sessionId: %q, lastId: "show:%s") { nodes { id } } } }`, session, zero),
		"ids":               `mutation { markNotificationsRead(input: {ids: ["notification:` + zero + `"]}) { badges { version } } }`,
	} {
		argument, _, _ = strings.Cut(argument, " ")
		if got := a.askAs("alice", query, nil); got.code() != services.NotFound || got.Errors[0].Extensions["argument"] != argument {
			t.Errorf("%s: %+v", query, got)
		}
	}
	got := a.must("alice", `{ viewer { badges { announcements { value } } homeFeed(newerThan: "post:`+zero+`") { nodes { id } } } node(id: "post:`+zero+`") { id } }`, nil)
	if unread := got.valueAt("viewer", "badges", "announcements", "value"); unread != 1.0 {
		t.Errorf("%v announcements are unread, want the one", unread)
	}
	if posts, _ := got.valueAt("viewer", "homeFeed", "nodes").([]any); len(posts) != 0 || got.valueAt("node") != nil {
		t.Errorf("%+v", got)
	}
}

// The time of an event is cut to milliseconds. So two times in one millisecond count as equal when an event is repeated under its
// idempotency key.
func TestTheTimeOfAnEventIsCutToMilliseconds(t *testing.T) {
	a := newAPI(t)
	moment := a.Clock.Now().Add(-time.Hour).Truncate(time.Millisecond)
	at := func(moment time.Time) event {
		full := expandEvent(event{"publishPost": event{"as": "user:bob", "key": "once", "body": "a"}})
		full["at"] = moment.Format(time.RFC3339Nano)
		return full
	}
	first := a.ingestFullEvents(at(moment.Add(900 * time.Microsecond)))
	second := a.ingestFullEvents(at(moment), at(moment.In(time.FixedZone("", 3600))), at(moment.Add(time.Millisecond)))
	id := first.valueAt("ingest", "results", 0, "id")
	if id == nil || second.valueAt("ingest", "results", 0, "id") != id || second.valueAt("ingest", "results", 1, "id") != id {
		t.Errorf("%+v and %+v are two posts", first, second)
	}
	if code := second.valueAt("ingest", "results", 2, "error", "code"); code != "CONFLICT" {
		t.Errorf("a millisecond later: %v", code)
	}
}
