package resolvers

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"tidings/services"
)

// createConversation makes a conversation of its creator and some other users, and returns its ID.
func (a *testAPI) createConversation(kind, creator string, others ...string) string {
	a.t.Helper()
	a.MakeNamedUsers(others...)
	ids := []string{}
	for _, other := range others {
		ids = append(ids, "user:"+other)
	}
	got := a.must(creator, `mutation($kind: ConversationKind!, $ids: [ID!]!) { createConversation(input: {kind: $kind, memberIds: $ids}) { conversation { id } } }`,
		map[string]any{"kind": kind, "ids": ids})
	id, _ := got.valueAt("createConversation", "conversation", "id").(string)
	return id
}

const sendMessageMutation = `mutation($c: ID!, $m: [ID!], $b: String!) { sendMessage(input: {conversationId: $c, body: $b, mentionIds: $m}) {
	message { id body author { key } mentions { key } recalled } conversation { id unread { value } } badges { conversations { total { value } } } } }`

// sendMessage sends a message, runs the jobs that it causes, and returns its ID.
func (a *testAPI) sendMessage(key, conversation string, mentions ...string) string {
	a.t.Helper()
	got := a.must(key, sendMessageMutation, map[string]any{"c": conversation, "b": "hello", "m": mentions})
	a.RunDueJobs(a.Fanout)
	a.Clock.Advance(200 * time.Millisecond)
	a.RunDueJobs(a.Fanout)
	id, _ := got.valueAt("sendMessage", "message", "id").(string)
	return id
}

// markConversationRead marks a conversation as read: up to the message upTo or, if upTo is "", all of it.
func (a *testAPI) markConversationRead(key, conversation, upTo string) apiAnswer {
	a.t.Helper()
	variables := map[string]any{"c": conversation}
	if upTo != "" {
		variables["u"] = upTo
	}
	return a.askAs(key, `mutation($c: ID!, $u: ID) { markConversationRead(input: {conversationId: $c, upTo: $u}) { badges { version conversations { total { value } } } } }`, variables)
}

// unreadMessageCounts returns a user's counts of unread messages and mentions in the badges, as text. They must equal the sums over
// the list of conversations.
func (a *testAPI) unreadMessageCounts(key string) string {
	a.t.Helper()
	got := a.must(key, `{ viewer { badges { total { value } conversations { total { value precision } mentions { value } } }
		conversations(first: 100) { edges { node { unread { value inTotal } mentions { value inTotal } } } } } }`, nil)
	var unread, mentions float64
	edges, _ := got.valueAt("viewer", "conversations", "edges").([]any)
	for i := range edges {
		at := func(count, field string) any {
			return got.valueAt("viewer", "conversations", "edges", i, "node", count, field)
		}
		for _, count := range []string{"unread", "mentions"} {
			if at(count, "inTotal") == true {
				unread += at(count, "value").(float64)
			}
		}
		mentions += at("mentions", "value").(float64)
	}
	badge := func(path ...any) float64 {
		value, _ := got.valueAt(append([]any{"viewer", "badges"}, path...)...).(float64)
		return value
	}
	if badge("conversations", "total", "value") != unread || badge("conversations", "mentions", "value") != mentions || badge("total", "value") != unread {
		a.t.Errorf("%s: the list makes %v and %v mentions, the badge is %v", key, unread, mentions, got.valueAt("viewer", "badges"))
	}
	return fmt.Sprint(unread, "+", mentions)
}

// wantUnreadMessageCounts fails the test if the unreadMessageCounts of a user are not the wanted ones.
func (a *testAPI) wantUnreadMessageCounts(what, key, want string) {
	a.t.Helper()
	if got := a.unreadMessageCounts(key); got != want {
		a.t.Errorf("%s: %s waits for %s, want %s", what, got, key, want)
	}
}

// Two unread messages from one conversation and three from another are five; after the first conversation is read, three remain.
func TestUnreadIsSummedOverConversations(t *testing.T) {
	a := newAPI(t)
	b, c := a.createConversation("DIRECT", "a", "b"), a.createConversation("DIRECT", "c", "a")
	a.wantUnreadMessageCounts("at first", "a", "0+0")
	for range 2 {
		a.sendMessage("b", b)
	}
	for range 3 {
		a.sendMessage("c", c)
	}
	a.wantUnreadMessageCounts("before", "a", "5+0")
	if got := a.markConversationRead("a", b, ""); got.valueAt("markConversationRead", "badges", "conversations", "total", "value") != 3.0 {
		t.Errorf("after reading: %+v", got)
	}
	a.wantUnreadMessageCounts("after", "a", "3+0")
	a.wantUnreadMessageCounts("nobody else's reading changes mine", "b", "0+0")
}

func TestMutesRecallsAndMarksChangeUnreadCounts(t *testing.T) {
	a := newAPI(t)
	group := a.createConversation("GROUP", "a", "b", "c")
	a.MakeNamedUsers("stranger")
	first := a.sendMessage("b", group, "user:a", "user:stranger")
	second := a.sendMessage("b", group)
	a.wantUnreadMessageCounts("two, one mentions", "a", "2+1")
	mute := func(verb string, changed bool) {
		t.Helper()
		got := a.must("a", `mutation($c: ID!) { `+verb+`(input: {conversationId: $c}) { changed conversation { muted } } }`, map[string]any{"c": group})
		if got.valueAt(verb, "changed") != changed || got.valueAt(verb, "conversation", "muted") != (verb == "muteConversation") {
			t.Errorf("%s: %+v, want changed %t", verb, got.Data, changed)
		}
	}
	mute("muteConversation", true)
	mute("muteConversation", false)
	a.wantUnreadMessageCounts("muted: mentions stay", "a", "1+1")
	mute("unmuteConversation", true)
	mute("unmuteConversation", false)
	token, _ := a.must("a", `query($id: ID!) { node(id: $id) { ... on Conversation { readToken } } }`, map[string]any{"id": group}).valueAt("node", "readToken").(string)
	a.must("b", `mutation($m: ID!) { recallMessage(input: {messageId: $m}) { message { recalled body } } }`, map[string]any{"m": first})
	a.Clock.Advance(200 * time.Millisecond)
	a.RunDueJobs(a.Fanout)
	a.wantUnreadMessageCounts("recalled", "a", "1+0")
	a.markConversationRead("a", group, second)
	a.wantUnreadMessageCounts("read", "a", "0+0")
	a.must("a", `mutation($m: ID!) { markConversationUnread(input: {fromMessageId: $m}) { badges { total { value } } } }`, map[string]any{"m": first})
	a.wantUnreadMessageCounts("unread again", "a", "1+0")
	late := a.must("a", `mutation($c: ID!, $t: String!) { markConversationRead(input: {conversationId: $c, readToken: $t}) { conversation { unread { value } readToken } } }`, map[string]any{"c": group, "t": token})
	if late.valueAt("markConversationRead", "conversation", "unread", "value") != 1.0 {
		t.Errorf("a late mark of another device: %+v", late)
	}
	token, _ = late.valueAt("markConversationRead", "conversation", "readToken").(string)
	third := a.sendMessage("c", group)
	a.must("a", `mutation($c: ID!, $t: String!) { markConversationRead(input: {conversationId: $c, readToken: $t}) { badges { version } } }`, map[string]any{"c": group, "t": token})
	a.wantUnreadMessageCounts("what came after it was shown still counts", "a", "1+0")
	if got := a.must("c", `query($id: ID!) { node(id: $id) { ... on Message { body author { key } recalled conversationId } } }`, map[string]any{"id": third}); got.valueAt("node", "author", "key") != "c" {
		t.Errorf("%+v", got)
	}
}

func TestAnEnteredConversationDoesNotCount(t *testing.T) {
	a := newAPI(t)
	group := a.createConversation("GROUP", "a", "b")
	a.sendMessage("b", group)
	enter := `mutation($c: ID!) { enterConversation(input: {conversationId: $c}) { until badges { conversations { total { value } } } } }`
	leave := `mutation($c: ID!) { leaveConversation(input: {conversationId: $c}) { badges { conversations { total { value } } } } }`
	if got := a.must("a", enter, map[string]any{"c": group}); got.valueAt("enterConversation", "badges", "conversations", "total", "value") != 0.0 {
		t.Errorf("entered: %+v", got)
	}
	a.sendMessage("b", group, "user:a")
	a.wantUnreadMessageCounts("inside", "a", "0+0")
	a.must("a", leave, map[string]any{"c": group})
	a.sendMessage("b", group)
	a.wantUnreadMessageCounts("outside", "a", "1+0")
	a.must("a", enter, map[string]any{"c": group})
	a.Clock.Advance(61 * time.Second)
	a.RunDueJobs(a.Fanout)
	a.sendMessage("b", group, "user:a")
	a.wantUnreadMessageCounts("the lease is over", "a", "1+1")
}

func TestOnlyMembersReadAConversation(t *testing.T) {
	a := newAPI(t)
	group, room := a.createConversation("GROUP", "a", "b"), a.createConversation("ROOM", "a")
	message := a.sendMessage("a", group)
	for _, id := range []string{group, message, room} {
		if got := a.must("c", `query($id: ID!) { node(id: $id) { id } }`, map[string]any{"id": id}); got.valueAt("node") != nil {
			t.Errorf("a stranger reads %s: %+v", id, got)
		}
		if got := a.must("a", `query($id: ID!) { node(id: $id) { id } }`, map[string]any{"id": id}); got.valueAt("node", "id") != id {
			t.Errorf("a member reads %s: %+v", id, got)
		}
	}
	a.must("c", `mutation($c: ID!) { joinConversation(input: {conversationId: $c}) { conversation { memberCount } } }`, map[string]any{"c": room})
	a.sendMessage("a", room)
	a.wantUnreadMessageCounts("joined", "c", "1+0")
	a.must("c", `mutation($c: ID!) { quitConversation(input: {conversationId: $c}) { conversationId badges { total { value } } } }`, map[string]any{"c": room})
	a.wantUnreadMessageCounts("quit", "c", "0+0")
	a.must("a", `mutation($c: ID!) { addMembers(input: {conversationId: $c, userIds: ["user:c", "user:b"]}) { conversation { memberCount members { edges { node { key } } } } } }`, map[string]any{"c": group})
	a.sendMessage("b", group)
	a.wantUnreadMessageCounts("added", "c", "1+0")
	a.wantCanRemoveMembers(map[string]bool{"a": true, "b": false, "c": false}, group)
	a.wantCanRemoveMembers(map[string]bool{"a": false, "b": false}, a.createConversation("DIRECT", "a", "b"))
	a.must("a", `mutation($c: ID!) { removeMembers(input: {conversationId: $c, userIds: ["user:c"]}) { conversation { memberCount } } }`, map[string]any{"c": group})
	a.Clock.Advance(200 * time.Millisecond)
	a.RunDueJobs(a.Fanout)
	a.wantUnreadMessageCounts("removed", "c", "0+0")
}

// wantCanRemoveMembers checks who may remove members of a conversation. viewerCanRemoveMembers has to say so, both in node and in
// the list of conversations, and removeMembers has to act accordingly.
func (a *testAPI) wantCanRemoveMembers(want map[string]bool, id string) {
	a.t.Helper()
	a.MakeNamedUsers("d") // no member
	for key, may := range want {
		got := a.must(key, `query($id: ID!) { node(id: $id) { ... on Conversation { viewerCanRemoveMembers } } viewer { conversations { nodes { id viewerCanRemoveMembers } } } }`, map[string]any{"id": id})
		listed := slices.ContainsFunc(got.valueAt("viewer", "conversations", "nodes").([]any), func(node any) bool {
			one := node.(map[string]any)
			return one["id"] == id && one["viewerCanRemoveMembers"] == may
		})
		if got.valueAt("node", "viewerCanRemoveMembers") != may || !listed {
			a.t.Errorf("%s can remove members of %s: %+v, want %v", key, id, got.Data, may)
		}
		removed := a.askAs(key, `mutation($c: ID!) { removeMembers(input: {conversationId: $c, userIds: ["user:d"]}) { conversation { id } } }`, map[string]any{"c": id})
		if allowed := removed.code() == ""; allowed != may {
			a.t.Errorf("%s removes members of %s: %q", key, id, removed.code())
		}
	}
}

// Every invalid input gets its code and a message with the reason, and changes nothing.
func TestBadInputInConversations(t *testing.T) {
	a := newAPI(t)
	a.MakeNamedUsers("d", "e", "f")
	group, direct, room := a.createConversation("GROUP", "a", "b", "c"), a.createConversation("DIRECT", "a", "b"), a.createConversation("ROOM", "a")
	message, elsewhere := a.sendMessage("a", group), a.sendMessage("a", room)
	a.must("c", `mutation($c: ID!) { quitConversation(input: {conversationId: $c}) { conversationId } }`, map[string]any{"c": group})
	a.RunDueJobs(a.Fanout)
	beyond := "message:" + services.NewMessageID(1, 99).String()
	token, _ := a.must("b", `query($id: ID!) { node(id: $id) { ... on Conversation { readToken } } }`, map[string]any{"id": direct}).valueAt("node", "readToken").(string)
	mutation := func(text string, arguments ...any) string {
		return "mutation { " + fmt.Sprintf(text, arguments...) + " }"
	}
	for _, bad := range []struct {
		what, key, query string
		code             services.Code
		says             string // a part of the error's message
	}{
		{"a message to what one has left", "c", mutation(`sendMessage(input: {conversationId: %q, body: "x"}) { message { id } }`, group), services.Conflict, "left"},
		{"a message to a stranger's", "d", mutation(`sendMessage(input: {conversationId: %q, body: "x"}) { message { id } }`, group), services.NotFound, group},
		{"no text", "a", mutation(`sendMessage(input: {conversationId: %q, body: ""}) { message { id } }`, group), services.Invalid, "body"},
		{"a long text", "a", mutation(`sendMessage(input: {conversationId: %q, body: %q}) { message { id } }`, group, strings.Repeat("x", 5001)), services.Invalid, "5000"},
		{"a mark beyond the end", "a", mutation(`markConversationRead(input: {conversationId: %q, upTo: %q}) { badges { version } }`, group, beyond), services.Invalid, "beyond the newest"},
		{"a mark of another conversation", "a", mutation(`markConversationRead(input: {conversationId: %q, upTo: %q}) { badges { version } }`, group, elsewhere), services.Invalid, "not of"},
		{"another conversation's token", "b", mutation(`markConversationRead(input: {conversationId: %q, readToken: %q}) { badges { version } }`, group, token), services.Invalid, "another conversation"},
		{"another's token", "a", mutation(`markConversationRead(input: {conversationId: %q, readToken: %q}) { badges { version } }`, direct, token), services.Invalid, "another member"},
		{"a broken token", "a", mutation(`markConversationRead(input: {conversationId: %q, readToken: "zz"}) { badges { version } }`, direct), services.Invalid, "readToken"},
		{"both", "b", mutation(`markConversationRead(input: {conversationId: %q, readToken: %q, upTo: %q}) { badges { version } }`, direct, token, message), services.Invalid, "only one"},
		{"a fifth other", "a", mutation(`createConversation(input: {kind: GROUP, memberIds: ["user:b", "user:c", "user:d", "user:e", "user:f"]}) { badges { version } }`), services.Invalid, "5 members"},
		{"one more than a group has", "a", mutation(`addMembers(input: {conversationId: %q, userIds: ["user:c", "user:d", "user:e", "user:f"]}) { badges { version } }`, group), services.Conflict, "up to 5"},
		{"alone", "a", mutation(`createConversation(input: {kind: DIRECT, memberIds: ["user:a"]}) { badges { version } }`), services.Invalid, "one other member"},
		{"a third", "a", mutation(`addMembers(input: {conversationId: %q, userIds: ["user:c"]}) { badges { version } }`, direct), services.Conflict, "DIRECT"},
		{"leaving the other alone", "a", mutation(`quitConversation(input: {conversationId: %q}) { conversationId }`, direct), services.Conflict, "mute"},
		{"taken out by another", "b", mutation(`removeMembers(input: {conversationId: %q, userIds: ["user:a"]}) { badges { version } }`, group), services.Forbidden, "only the creator"},
		{"taken out by themselves", "a", mutation(`removeMembers(input: {conversationId: %q, userIds: ["user:b", "user:a"]}) { badges { version } }`, group), services.Invalid, "quitConversation"},
		{"a title for two", "a", mutation(`createConversation(input: {kind: DIRECT, title: "x", memberIds: ["user:b"]}) { badges { version } }`), services.Invalid, "title: a DIRECT conversation has none"},
		{"joining a group", "d", mutation(`joinConversation(input: {conversationId: %q}) { badges { version } }`, group), services.NotFound, group},
		{"another's message", "b", mutation(`recallMessage(input: {messageId: %q}) { message { id } }`, message), services.Forbidden, "not your"},
		{"no id", "a", mutation(`enterConversation(input: {conversationId: "post:1"}) { until }`), services.Invalid, "conversationId"},
		{"a message that is none", "a", mutation(`markConversationUnread(input: {fromMessageId: %q}) { badges { version } }`, beyond), services.Invalid, "beyond"},
		{"another list's cursor", "a", `{ viewer { conversations(after: "AAAA") { edges { cursor } } } }`, services.Invalid, "after"},
		{"no conversations at once", "a", `{ viewer { conversations(first: 0) { edges { cursor } } } }`, services.Invalid, "1 to 100"},
	} {
		got := a.askAs(bad.key, bad.query, nil)
		if got.code() != bad.code || !strings.Contains(got.Errors[0].Message, bad.says) {
			t.Errorf("%s: %+v, want %s about %q", bad.what, got.Errors, bad.code, bad.says)
		}
	}
	a.RunDueJobs(a.Fanout)
	a.wantUnreadMessageCounts("nothing is half-done", "b", "1+0")
}

func TestListsOfConversationsArePaged(t *testing.T) {
	a := newAPI(t)
	want := []string{}
	for i := range 5 {
		id := a.createConversation("GROUP", "a", fmt.Sprint("u", i))
		a.sendMessage("a", id)
		want = append([]string{id}, want...)
	}
	var got []string
	after := any(nil)
	for {
		page := a.must("a", `query($a: String) { viewer { conversations(first: 2, after: $a) { edges { node { id lastMessage { body } } } pageInfo { hasNextPage endCursor } } } }`, map[string]any{"a": after})
		edges, _ := page.valueAt("viewer", "conversations", "edges").([]any)
		for i := range edges {
			id, _ := page.valueAt("viewer", "conversations", "edges", i, "node", "id").(string)
			got = append(got, id)
		}
		if page.valueAt("viewer", "conversations", "pageInfo", "hasNextPage") != true {
			break
		}
		after = page.valueAt("viewer", "conversations", "pageInfo", "endCursor")
	}
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got %v, want %v", got, want)
	}
	for range 4 {
		a.sendMessage("u4", want[0])
	}
	messages := a.must("a", `query($id: ID!) { node(id: $id) { ... on Conversation { messages(first: 3) { edges { node { author { key } } } pageInfo { hasNextPage endCursor } } members { edges { node { key } } } } } }`, map[string]any{"id": want[0]})
	if messages.valueAt("node", "messages", "pageInfo", "hasNextPage") != true || messages.valueAt("node", "members", "edges", 1, "node", "key") != "u4" {
		t.Errorf("%+v", messages)
	}
	rest := a.must("a", `query($id: ID!, $a: String) { node(id: $id) { ... on Conversation { messages(first: 3, after: $a) { edges { node { author { key } } } pageInfo { hasNextPage } } } } }`,
		map[string]any{"id": want[0], "a": messages.valueAt("node", "messages", "pageInfo", "endCursor")})
	if rest.valueAt("node", "messages", "pageInfo", "hasNextPage") != false || rest.valueAt("node", "messages", "edges", 1, "node", "author", "key") != "a" {
		t.Errorf("%+v", rest)
	}
}
