package resolvers

import (
	"fmt"
	"strings"
	"testing"

	"tidings/services"

	"github.com/google/go-cmp/cmp"
)

// askAsHost sends a request as the host application acting for a user.
func (a *testAPI) askAsHost(key, query string, variables map[string]any) apiAnswer {
	a.t.Helper()
	return a.ask(key, []services.Scope{services.ScopeViewer, services.ScopeIngest}, query, variables)
}

// mustAsHost is askAsHost for an operation that must succeed.
func (a *testAPI) mustAsHost(key, query string, variables map[string]any) apiAnswer {
	a.t.Helper()
	got := a.askAsHost(key, query, variables)
	if len(got.Errors) > 0 {
		a.t.Fatalf("%s answered %+v", query, got.Errors)
	}
	return got
}

// createMutations are the mutations that create an object with a ref. kind is the type of the object, name the mutation, input its
// fields, and object the field of the payload.
var createMutations = []struct {
	kind, name, input, object string
	reader                    string        // a user who can read the object afterwards
	again                     services.Code // the error if another user creates with the same ref
}{
	{services.PostType, "publishPost", `body: "hello"`, "post", "bob", services.Conflict},
	{services.ShowType, "scheduleShow", `title: "evening", plannedAt: $at`, "show", "bob", services.Conflict},
	{services.ConversationType, "createConversation", `kind: GROUP, memberIds: ["user:bob"]`, "conversation", "bob", services.Conflict},
	{services.SiteMessageType, "sendSiteMessage", `title: "news", to: ["user:bob"]`, "message", "bob", ""},
	{services.AnnouncementType, "publishAnnouncement", `title: "news"`, "announcement", "bob", ""},
	{services.MessageType, "sendMessage", `conversationId: "conversation:ref:conversation%2F1", body: "hello"`, "message", "bob", services.Conflict},
}

// createLabelledObject creates an object of a type with a ref, an address and data.
func (a *testAPI) createLabelledObject(user, kind, ref string) apiAnswer {
	for _, c := range createMutations {
		if c.kind != kind {
			continue
		}
		at, variables := "", map[string]any{}
		if strings.Contains(c.input, "$at") {
			at, variables = "($at: Time!)", map[string]any{"at": a.Clock.Now().Add(3600e9)}
		}
		query := fmt.Sprintf(`mutation%s { %s(input: {%s, ref: %q, url: "https://example.com/%s", data: {b: 1.50, a: ["x", null], c: {d: true}}}) { created %s { id ref url data } } }`, at, c.name, c.input, ref, ref, c.object)
		return a.askAsHost(user, query, variables)
	}
	a.t.Fatal(kind)
	return apiAnswer{}
}

// labelFields selects the label of an object of any type.
const labelFields = `... on Post { ref url data } ... on Show { ref url data } ... on Conversation { ref url data }
	... on Message { ref url data } ... on SiteMessage { ref url data } ... on Announcement { ref url data }`

// An object of each type takes a ref once, is found by the ref, and shows its label to everyone who may see it. Creating with
// the ref again returns the first object. For another user it is refused; only site messages and announcements belong to no user.
func TestObjectsHaveRefs(t *testing.T) {
	a := newAPI(t)
	for _, c := range createMutations {
		ref := c.kind + "/1"
		first := a.createLabelledObject("alice", c.kind, ref)
		if len(first.Errors) > 0 {
			t.Fatalf("%s: %+v", c.kind, first.Errors)
		}
		a.RunAllJobs(a.Fanout)
		id, _ := first.valueAt(c.name, c.object, "id").(string)
		want := map[string]any{"ref": ref, "url": "https://example.com/" + ref, "data": map[string]any{"a": []any{"x", nil}, "b": 1.5, "c": map[string]any{"d": true}}}
		shown, _ := first.valueAt(c.name, c.object).(map[string]any)
		delete(shown, "id")
		if first.valueAt(c.name, "created") != true {
			t.Errorf("%s: created %v", c.kind, first.valueAt(c.name, "created"))
		}
		wantLabel(t, c.kind+" in its payload", shown, want)

		byRef := services.Ref{Type: c.kind, Text: ref}.GlobalID()
		got := a.must(c.reader, `query($ids: [ID!]!) { nodes(ids: $ids) { id `+labelFields+` } node(id: "`+byRef+`") { id } }`, map[string]any{"ids": []string{byRef, nodeIDOfPayloadID(c.kind, id), byRef + "x"}})
		for i := range 2 {
			node, _ := got.valueAt("nodes", i).(map[string]any)
			if node["id"] != nodeIDOfPayloadID(c.kind, id) {
				t.Errorf("%s: node %d of %s is %v, want %s", c.kind, i, byRef, node, id)
			}
			delete(node, "id")
			wantLabel(t, c.kind+" as a node", node, want)
		}
		if got.valueAt("nodes", 2) != nil || got.valueAt("node", "id") != nodeIDOfPayloadID(c.kind, id) {
			t.Errorf("%s: %v, %v", c.kind, got.valueAt("nodes", 2), got.valueAt("node"))
		}

		second := a.createLabelledObject("alice", c.kind, ref)
		if second.valueAt(c.name, "created") != false || second.valueAt(c.name, c.object, "id") != id {
			t.Errorf("%s again: %+v %+v", c.kind, second.Data, second.Errors)
		}
		if other := a.createLabelledObject("bob", c.kind, ref); other.code() != c.again {
			t.Errorf("%s with another's ref: %+v %+v", c.kind, other.Data, other.Errors)
		} else if c.again != "" && (strings.Contains(other.Errors[0].Message, id) || strings.Contains(other.Errors[0].Message, "alice")) {
			t.Errorf("%s with another's ref tells %s", c.kind, other.Errors[0].Message)
		}
		if third := a.createLabelledObject("alice", c.kind, ref+" two"); third.valueAt(c.name, "created") != true || third.valueAt(c.name, c.object, "id") == id {
			t.Errorf("%s with another ref: %+v %+v", c.kind, third.Data, third.Errors)
		}
	}
}

// nodeIDOfPayloadID is the ID of an object from the ID in a payload. They differ for a site message: its sender's payload has its
// report.
func nodeIDOfPayloadID(kind, id string) string {
	return strings.Replace(id, "siteMessageReport:", services.SiteMessageType+":", 1)
}

// wantLabel compares the labels of an object.
func wantLabel(t *testing.T, what string, got, want map[string]any) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// Only the host application sets refs, addresses and data.
func TestUsersSetNoLabels(t *testing.T) {
	a := newAPI(t)
	post := a.publishPost("alice")
	for _, query := range []string{
		`mutation { publishPost(input: {body: "b", ref: "1"}) { created } }`,
		`mutation { publishPost(input: {body: "b", url: "https://example.com"}) { created } }`,
		`mutation { publishPost(input: {body: "b", data: {a: 1}}) { created } }`,
		`mutation { createConversation(input: {kind: ROOM, memberIds: [], ref: "1"}) { created } }`,
		`mutation { editPost(input: {postId: "` + post + `", body: "b", data: null}) { badges { version } } }`,
	} {
		if got := a.askAs("alice", query, nil); got.code() != services.Forbidden || !strings.Contains(got.Errors[0].Message, "scope ingest") {
			t.Errorf("%s: %+v", query, got.Errors)
		}
	}
	for input, want := range map[string]string{
		`ref: ""`: "1 to 128", `ref: " 1"`: "space", `ref: "` + strings.Repeat("x", 129) + `"`: "got 129", `ref: "a\u0301"`: "normal form C", `ref: "a\u0007"`: "printable",
		`url: "ftp://x"`: "http", `data: [1]`: "object", `data: "x"`: "object", `data: {a: "` + strings.Repeat("x", 4096-8) + `y"}`: "4096 bytes",
	} {
		if got := a.askAsHost("alice", `mutation { publishPost(input: {body: "b", `+input+`}) { created } }`, nil); got.code() != services.Invalid || !strings.Contains(got.Errors[0].Message, want) {
			t.Errorf("%.40s: %+v", input, got.Errors)
		}
	}
	a.mustAsHost("alice", `mutation { publishPost(input: {body: "b", data: {a: "`+strings.Repeat("x", 4096-8)+`"}, ref: "`+strings.Repeat("é", 128)+`"}) { created } }`, nil)
}

// If a user may not see an object, its ref is answered like a ref without an object, in every argument.
func TestHiddenRefsReadAsAbsent(t *testing.T) {
	a := newAPI(t)
	a.must("alice", `mutation { hideFrom(input: {userId: "user:carol"}) { changed } }`, nil)
	for _, c := range createMutations {
		if got := a.createLabelledObject("alice", c.kind, c.kind+"/1"); len(got.Errors) > 0 {
			t.Fatalf("%s: %+v", c.kind, got.Errors)
		}
	}
	a.mustAsHost("", `mutation { publishAnnouncement(input: {title: "t", ref: "announcement/staff", segments: ["staff"]}) { announcement { id } } }`, nil)
	a.RunAllJobs(a.Fanout)
	queries := []struct{ kind, query string }{
		{"post", `mutation { likePost(input: {postId: "%s"}) { changed } }`},
		{"post", `mutation { unlikePost(input: {postId: "%s"}) { changed } }`},
		{"post", `mutation { publishPost(input: {body: "so", parentId: "%s"}) { post { id } } }`},
		{"post", `mutation { publishPost(input: {body: "", parentId: "%s"}) { post { id } } }`},
		{"post", `mutation { editPost(input: {postId: "%s", body: "mine"}) { post { id } } }`},
		{"post", `mutation { deletePost(input: {postId: "%s"}) { changed } }`},
		{"post", `mutation { markHomeFeedSeen(input: {upTo: "%s"}) { badges { total { value } } } }`},
		{"post", `{ viewer { homeFeed(lastId: "%s") { lastId } } }`},
		{"post", `{ viewer { homeFeed(newerThan: "%s") { lastId } } }`},
		{"post", `{ viewer { homeFeed(lastId: "%s") { nodes { parent { id } } } } }`},
		{"show", `mutation { remindMe(input: {showId: "%s"}) { changed } }`},
		{"show", `mutation { cancelShow(input: {showId: "%s"}) { changed } }`},
		{"conversation", `mutation { sendMessage(input: {conversationId: "%s", body: "let me in"}) { message { id } } }`},
		{"conversation", `mutation { sendMessage(input: {conversationId: "%s", body: ""}) { message { id } } }`},
		{"conversation", `mutation { joinConversation(input: {conversationId: "%s"}) { changed } }`},
		{"conversation", `mutation { enterConversation(input: {conversationId: "%s"}) { until } }`},
		{"message", `mutation { recallMessage(input: {messageId: "%s"}) { changed } }`},
		{"message", `mutation { markConversationUnread(input: {fromMessageId: "%s"}) { changed } }`},
		{"siteMessage", `mutation { markSiteMessagesRead(input: {ids: ["%s"]}) { badges { version } } }`},
		{"siteMessage", `mutation { markSiteMessagesUnread(input: {ids: ["%s"]}) { badges { version } } }`},
		{"siteMessage", `mutation { markSiteMessagesRead(input: {upTo: "%s"}) { badges { version } } }`},
		{"announcement", `mutation { markAnnouncementsRead(input: {upTo: "%s"}) { badges { version } } }`},
	}
	for _, q := range queries {
		hidden, absent := q.kind+":ref:"+q.kind+"%2F1", q.kind+":ref:"+q.kind+"%2F9"
		if q.kind == services.AnnouncementType {
			hidden = "announcement:ref:announcement%2Fstaff"
		}
		had, none := a.askAs("carol", fmt.Sprintf(q.query, hidden), nil), a.askAs("carol", fmt.Sprintf(q.query, absent), nil)
		if had.code() != services.NotFound {
			t.Errorf("%s of a hidden object: %+v %+v", q.query, had.Data, had.Errors)
			continue
		}
		if had.Errors[0].Message = strings.ReplaceAll(had.Errors[0].Message, hidden, absent); had.Errors[0].Message != none.Errors[0].Message {
			t.Errorf("%s: hidden %q, absent %q", q.query, had.Errors[0].Message, none.Errors[0].Message)
		}
	}
	for _, kind := range []string{"post", "show", "conversation", "message", "siteMessage"} {
		if got := a.must("carol", `{ node(id: "`+kind+`:ref:`+kind+`%2F1") { id } nodes(ids: ["`+kind+`:ref:`+kind+`%2F1"]) { id } }`, nil); got.valueAt("node") != nil || got.valueAt("nodes", 0) != nil {
			t.Errorf("carol sees the %s: %+v", kind, got.Data)
		}
	}
}

// An ID by ref is allowed wherever an ID is. It has one form: with a wrong escape it is INVALID.
func TestRefsNameObjects(t *testing.T) {
	a := newAPI(t)
	for _, c := range createMutations {
		a.createLabelledObject("alice", c.kind, c.kind+"/1")
	}
	a.RunAllJobs(a.Fanout)
	for _, query := range []string{
		`mutation { likePost(input: {postId: "post:ref:post%2F1"}) { changed } }`,
		`mutation { publishPost(input: {body: "so", parentId: "post:ref:post%2F1"}) { post { id } } }`,
		`mutation { markHomeFeedSeen(input: {upTo: "post:ref:post%2F1"}) { badges { version } } }`,
		`{ viewer { homeFeed(lastId: "post:ref:post%2F1") { lastId } } }`,
		`{ viewer { homeFeed(newerThan: "post:ref:post%2F1") { lastId } } }`,
		`mutation { remindMe(input: {showId: "show:ref:show%2F1"}) { changed } }`,
		`mutation { enterConversation(input: {conversationId: "conversation:ref:conversation%2F1"}) { until } }`,
		`mutation { sendMessage(input: {conversationId: "conversation:ref:conversation%2F1", body: "so"}) { message { id } } }`,
		`mutation { markConversationRead(input: {conversationId: "conversation:ref:conversation%2F1", upTo: "message:ref:message%2F1"}) { changed } }`,
		`mutation { markSiteMessagesRead(input: {ids: ["siteMessage:ref:siteMessage%2F1"]}) { siteMessages { id } } }`,
		`mutation { markAnnouncementsRead(input: {upTo: "announcement:ref:announcement%2F1"}) { badges { version } } }`,
	} {
		a.must("bob", query, nil)
	}
	got := a.must("bob", `mutation { markSiteMessagesRead(input: {ids: ["siteMessage:ref:siteMessage%2F1"]}) { siteMessages { ref readAt } } }`, nil)
	if got.valueAt("markSiteMessagesRead", "siteMessages", 0, "ref") != "siteMessage/1" || got.valueAt("markSiteMessagesRead", "siteMessages", 0, "readAt") == nil {
		t.Errorf("%+v", got.Data)
	}
	for _, id := range []string{"post:ref:", "post:ref:post/1", "post:ref:post%2f1", "post:ref:%", "post:ref:%20x", "post:ref:" + strings.Repeat("x", 129)} {
		if got := a.askAs("bob", `query($id: ID!) { node(id: $id) { id } }`, map[string]any{"id": id}); got.code() != services.Invalid {
			t.Errorf("node of %.30s: %+v", id, got)
		}
		if got := a.askAs("bob", `mutation($id: ID!) { likePost(input: {postId: $id}) { changed } }`, map[string]any{"id": id}); got.code() != services.Invalid {
			t.Errorf("like of %.30s: %+v", id, got)
		}
	}
	if got := a.askAs("bob", `mutation { likePost(input: {postId: "show:ref:show%2F1"}) { changed } }`, nil); got.code() != services.Invalid {
		t.Errorf("like of a show: %+v", got)
	}
}

// A deleted object keeps its ref: a create that is repeated late does not bring the object back.
func TestDeletedObjectsKeepTheirRefs(t *testing.T) {
	a := newAPI(t)
	id := a.createLabelledObject("alice", services.PostType, "p").valueAt("publishPost", "post", "id")
	for i, changed := range []bool{true, false} {
		if got := a.must("alice", `mutation { deletePost(input: {postId: "post:ref:p"}) { changed postId } }`, nil); got.valueAt("deletePost", "changed") != changed || got.valueAt("deletePost", "postId") != id {
			t.Errorf("deleted %d: %+v", i, got.Data)
		}
	}
	if got := a.createLabelledObject("alice", services.PostType, "p"); got.valueAt("publishPost", "created") != false || got.valueAt("publishPost", "post") != nil || len(got.Errors) > 0 {
		t.Errorf("created again: %+v %+v", got.Data, got.Errors)
	}
	if got := a.must("bob", `{ node(id: "post:ref:p") { id } }`, nil); got.valueAt("node") != nil {
		t.Errorf("bob sees %v", got.Data)
	}
}

// Edits change addresses and data, and never refs: an absent field stays, null removes.
func TestEditsChangeLabels(t *testing.T) {
	a := newAPI(t)
	for _, c := range createMutations {
		a.createLabelledObject("alice", c.kind, c.kind+"/1")
	}
	for kind, edit := range map[string]string{
		services.PostType:         `editPost(input: {postId: "post:ref:post%%2F1", body: "new", %s}) { badges { version } }`,
		services.ShowType:         `rescheduleShow(input: {showId: "show:ref:show%%2F1", %s}) { changed }`,
		services.SiteMessageType:  `editSiteMessage(input: {siteMessageId: "siteMessage:ref:siteMessage%%2F1", %s}) { message { id } }`,
		services.AnnouncementType: `editAnnouncement(input: {announcementId: "announcement:ref:announcement%%2F1", %s}) { announcement { id } }`,
	} {
		a.RunAllJobs(a.Fanout)
		url := any("https://example.com/" + kind + "/1")
		for _, step := range []struct {
			input     string
			url, data any
		}{
			{`data: {n: 1}`, url, map[string]any{"n": 1.0}},
			{`url: "https://example.com/2"`, "https://example.com/2", map[string]any{"n": 1.0}},
			{`url: null, data: {n: 2}`, nil, map[string]any{"n": 2.0}},
			{`data: null`, nil, nil},
			{`data: null, url: null`, nil, nil},
			{`url: "` + fmt.Sprint(url) + `"`, url, nil},
		} {
			a.mustAsHost("alice", "mutation { "+fmt.Sprintf(edit, step.input)+" }", nil)
			got := a.must("bob", `{ node(id: "`+kind+`:ref:`+kind+`%2F1") { `+labelFields+` } }`, nil)
			node, _ := got.valueAt("node").(map[string]any)
			wantLabel(t, kind+" after "+step.input, node, map[string]any{"ref": kind + "/1", "url": step.url, "data": step.data})
		}
	}
	got := a.mustAsHost("alice", `mutation { a: rescheduleShow(input: {showId: "show:ref:show%2F1", data: {x: 1}}) { changed } b: rescheduleShow(input: {showId: "show:ref:show%2F1", data: {x: 1}}) { changed } }`, nil)
	if got.valueAt("a", "changed") != true || got.valueAt("b", "changed") != false {
		t.Errorf("%+v", got.Data)
	}
	a.mustAsHost("alice", `mutation { recallMessage(input: {messageId: "message:ref:message%2F1"}) { changed } }`, nil)
	node := a.must("bob", `{ node(id: "message:ref:message%2F1") { `+labelFields+` } }`, nil).valueAt("node")
	wantLabel(t, "a recalled message", node.(map[string]any), map[string]any{"ref": "message/1", "url": nil, "data": nil})
}

// Two users have one DIRECT conversation: it takes a ref once.
func TestADirectConversationTakesARef(t *testing.T) {
	a := newAPI(t)
	create := func(ref string) apiAnswer {
		return a.askAsHost("alice", `mutation($ref: String) { createConversation(input: {kind: DIRECT, memberIds: ["user:bob"], ref: $ref}) { created conversation { id ref } } }`, map[string]any{"ref": ref})
	}
	id := a.must("bob", `mutation { createConversation(input: {kind: DIRECT, memberIds: ["user:alice"]}) { created conversation { id } } }`, nil).valueAt("createConversation", "conversation", "id")
	for range 2 {
		got := create("dm")
		if got.valueAt("createConversation", "created") != false || got.valueAt("createConversation", "conversation", "id") != id || got.valueAt("createConversation", "conversation", "ref") != "dm" {
			t.Errorf("%+v %+v", got.Data, got.Errors)
		}
	}
	if got := create("another"); got.code() != services.Conflict {
		t.Errorf("%+v %+v", got.Data, got.Errors)
	}
}

// The ref of a DIRECT conversation belongs to both users: if either creates the conversation again, the answer is the existing
// one, and it is open again after a block. The ref of a GROUP belongs to its creator.
func TestADirectConversationsRefBelongsToBothUsers(t *testing.T) {
	a := newAPI(t)
	create := func(as, kind, other, ref string) apiAnswer {
		return a.askAsHost(as, `mutation($kind: ConversationKind!, $other: [ID!]!, $ref: String) { createConversation(input: {kind: $kind, memberIds: $other, ref: $ref}) { created conversation { id memberCount } } }`,
			map[string]any{"kind": kind, "other": []string{"user:" + other}, "ref": ref})
	}
	id := create("alice", "DIRECT", "bob", "dm").valueAt("createConversation", "conversation", "id")
	again := func(as, other string) {
		t.Helper()
		got := create(as, "DIRECT", other, "dm")
		if got.valueAt("createConversation", "created") != false || got.valueAt("createConversation", "conversation", "id") != id || got.valueAt("createConversation", "conversation", "memberCount") != 2.0 {
			t.Errorf("%s creates %v again: %+v %+v", as, id, got.Data, got.Errors)
		}
	}
	again("alice", "bob")
	again("bob", "alice")
	for _, one := range []string{"bob", "alice"} {
		a.must("alice", `mutation { block(input: {userId: "user:bob"}) { changed } }`, nil)
		a.must("alice", `mutation { unblock(input: {userId: "user:bob"}) { changed } }`, nil)
		again(one, map[string]string{"alice": "bob", "bob": "alice"}[one])
		a.mustAsHost("bob", `mutation { sendMessage(input: {conversationId: "conversation:ref:dm", body: "hi"}) { message { id } } }`, nil)
	}
	if got := create("alice", "DIRECT", "carol", "dm"); got.valueAt("createConversation", "conversation", "id") != id {
		t.Errorf("the ref of alice's conversation: %+v %+v", got.Data, got.Errors)
	}
	if got := create("carol", "DIRECT", "alice", "dm"); got.code() != services.Conflict {
		t.Errorf("carol takes the ref: %+v %+v", got.Data, got.Errors)
	}
	create("alice", "GROUP", "bob", "group")
	if got := create("bob", "GROUP", "alice", "group"); got.code() != services.Conflict {
		t.Errorf("bob takes the ref of alice's group: %+v %+v", got.Data, got.Errors)
	}
}
