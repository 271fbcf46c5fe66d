package resolvers

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"tidings/services"
)

const sendSiteMessageMutation = `mutation($to: [ID!]!, $title: String!, $content: String!, $type: String) {
	sendSiteMessage(input: {to: $to, title: $title, content: $content, type: $type}) { message { id: siteMessageId title recipients readCount } } }`

// sendSiteMessage sends a site message as the host application, and returns its ID when all recipients have it.
func (a *testAPI) sendSiteMessage(title string, to ...string) string {
	a.t.Helper()
	got := a.askWithHostToken(sendSiteMessageMutation, map[string]any{"to": to, "title": title, "content": "text"})
	id, ok := got.valueAt("sendSiteMessage", "message", "id").(string)
	if !ok {
		a.t.Fatalf("%s: %+v", title, got.Errors)
	}
	a.Clock.Advance(time.Second)
	a.RunAllJobs(a.Fanout)
	return id
}

// unreadSiteMessages returns the titles of a user's unread site messages. The count and the list must agree.
func (a *testAPI) unreadSiteMessages(key string) (titles string) {
	a.t.Helper()
	got := a.must(key, `{ viewer { badges { total { value } siteMessages { total { value } types { type count { value } } } }
		siteMessages(unreadOnly: true) { edges { node { title readAt } } } } }`, nil)
	edges, _ := got.valueAt("viewer", "siteMessages", "edges").([]any)
	for i := range edges {
		titles += got.valueAt("viewer", "siteMessages", "edges", i, "node", "title").(string) + " "
	}
	for _, path := range [][]any{{"total", "value"}, {"siteMessages", "total", "value"}, {"siteMessages", "types", 0, "count", "value"}} {
		if count := got.valueAt(append([]any{"viewer", "badges"}, path...)...); count != float64(len(edges)) {
			a.t.Errorf("%v of %s is %v, they are listed %q", path, key, count, titles)
		}
	}
	return strings.TrimSpace(titles)
}

// wantUnreadSiteMessages fails the test if the unread site messages of a user are not the wanted ones.
func (a *testAPI) wantUnreadSiteMessages(key, want string) {
	a.t.Helper()
	if got := a.unreadSiteMessages(key); got != want {
		a.t.Errorf("%s has unread %q, want %q", key, got, want)
	}
}

func TestSiteMessages(t *testing.T) {
	a := newAPI(t)
	a.wantUnreadSiteMessages("alice", "")
	first, second, third := a.sendSiteMessage("one", "user:alice", "user:bob", "user:alice"), a.sendSiteMessage("two", "user:alice"), a.sendSiteMessage("three", "user:alice", "user:bob")
	a.wantUnreadSiteMessages("alice", "three two one")
	a.wantUnreadSiteMessages("bob", "three one")
	read := func(input string) {
		t.Helper()
		a.must("alice", `mutation { markSiteMessagesRead(input: {`+input+`}) { badges { total { value } } } }`, nil)
	}
	read(fmt.Sprintf("upTo: %q", first))
	a.wantUnreadSiteMessages("alice", "three two")
	read(fmt.Sprintf("ids: [%q, %q]", second, second))
	a.wantUnreadSiteMessages("alice", "three")
	a.must("alice", fmt.Sprintf(`mutation { markSiteMessagesUnread(input: {ids: [%q]}) { badges { version } } }`, first), nil)
	a.wantUnreadSiteMessages("alice", "three one")
	read(`type: "general"`)
	a.wantUnreadSiteMessages("alice", "")
	a.wantUnreadSiteMessages("bob", "three one") // alice's marks change nothing for bob
	edited := a.askWithHostToken(fmt.Sprintf(`mutation { editSiteMessage(input: {siteMessageId: %q, title: "eins"}) { message { title content recipients readCount } } }`, first), nil)
	if edited.valueAt("editSiteMessage", "message", "title") != "eins" || edited.valueAt("editSiteMessage", "message", "recipients") != 2.0 || edited.valueAt("editSiteMessage", "message", "readCount") != 1.0 {
		t.Errorf("edited: %+v", edited)
	}
	a.wantUnreadSiteMessages("alice", "")
	a.wantUnreadSiteMessages("bob", "three eins")
	report := a.ask("root", []services.Scope{services.ScopeAdmin}, fmt.Sprintf(`{ admin { siteMessage(id: %q) { title recipients readCount } } }`, third), nil)
	if report.valueAt("admin", "siteMessage", "recipients") != 2.0 || report.valueAt("admin", "siteMessage", "readCount") != 1.0 {
		t.Errorf("the report: %+v", report)
	}
}

// A phone may report late that it has shown its list. This does not mark a message as read that another device has marked unread
// meanwhile.
func TestALateReadKeepsMessagesMarkedUnread(t *testing.T) {
	a := newAPI(t)
	first := a.sendSiteMessage("one", "user:alice")
	a.sendSiteMessage("two", "user:alice")
	token := a.must("alice", `{ viewer { siteMessages { readToken } } }`, nil).valueAt("viewer", "siteMessages", "readToken")
	a.must("alice", fmt.Sprintf(`mutation { markSiteMessagesUnread(input: {ids: [%q]}) { badges { version } } }`, first), nil)
	a.must("alice", fmt.Sprintf(`mutation { markSiteMessagesRead(input: {all: true, readToken: %q}) { badges { version } } }`, token), nil)
	a.wantUnreadSiteMessages("alice", "one")
	a.must("alice", fmt.Sprintf(`mutation { markSiteMessagesRead(input: {ids: [%q], readToken: %q}) { badges { version } } }`, first, token), nil)
	a.wantUnreadSiteMessages("alice", "one")
	for _, bad := range []string{"x", "g", "g01", "1"} {
		got := a.askAs("alice", fmt.Sprintf(`mutation { markSiteMessagesRead(input: {all: true, readToken: %q}) { badges { version } } }`, bad), nil)
		if got.code() != services.Invalid {
			t.Errorf("readToken %s: %+v", bad, got)
		}
	}
	a.must("alice", fmt.Sprintf(`mutation { markSiteMessagesRead(input: {ids: [%q]}) { badges { version } } }`, first), nil)
	a.wantUnreadSiteMessages("alice", "")
}

func TestPagesOfSiteMessages(t *testing.T) {
	a := newAPI(t)
	var want []string
	for i := range 5 {
		want = append([]string{fmt.Sprint("m", i)}, want...)
		a.sendSiteMessage(want[0], "user:alice")
	}
	var got []string
	after := any(nil)
	for {
		page := a.must("alice", `query($after: String) { viewer { siteMessages(first: 2, after: $after) { edges { cursor node { title } } pageInfo { hasNextPage endCursor } } } }`, map[string]any{"after": after})
		edges, _ := page.valueAt("viewer", "siteMessages", "edges").([]any)
		for i := range edges {
			got = append(got, page.valueAt("viewer", "siteMessages", "edges", i, "node", "title").(string))
		}
		after = page.valueAt("viewer", "siteMessages", "pageInfo", "endCursor")
		if page.valueAt("viewer", "siteMessages", "pageInfo", "hasNextPage") != true {
			break
		}
	}
	if strings.Join(got, " ") != strings.Join(want, " ") {
		t.Errorf("paged through %v, want %v", got, want)
	}
	other := a.askAs("bob", `query($after: String) { viewer { siteMessages(after: $after) { edges { cursor } } } }`, map[string]any{"after": after})
	if other.code() != services.Invalid {
		t.Errorf("with another's cursor: %+v", other)
	}
}

// Only recipients see a message, and only the host application sends one.
func TestOnlyRecipientsSeeASiteMessage(t *testing.T) {
	a := newAPI(t)
	mine, others := a.sendSiteMessage("mine", "user:alice"), a.sendSiteMessage("others", "user:bob")
	node := a.must("alice", `query($ids: [ID!]!) { nodes(ids: $ids) { id ... on SiteMessage { title } } }`, map[string]any{"ids": []string{mine, others}})
	if node.valueAt("nodes", 0, "title") != "mine" || node.valueAt("nodes", 1) != nil {
		t.Errorf("alice fetches %+v", node.Data)
	}
	for query, want := range map[string]services.Code{
		fmt.Sprintf(`mutation { markSiteMessagesRead(input: {ids: [%q, %q]}) { badges { version } } }`, mine, others): services.NotFound,
		fmt.Sprintf(`mutation { markSiteMessagesRead(input: {upTo: %q}) { badges { version } } }`, others):            services.NotFound,
		fmt.Sprintf(`mutation { markSiteMessagesUnread(input: {ids: [%q]}) { badges { version } } }`, others):         services.NotFound,
		fmt.Sprintf(`mutation { editSiteMessage(input: {siteMessageId: %q, title: "x"}) { message { id } } }`, mine):  services.Forbidden,
		`mutation { sendSiteMessage(input: {title: "x", to: ["user:alice"]}) { message { id } } }`:                    services.Forbidden,
		fmt.Sprintf(`{ admin { siteMessage(id: %q) { id } } }`, mine):                                                 services.Forbidden,
	} {
		if got := a.askAs("alice", query, nil); got.code() != want {
			t.Errorf("%s answers %+v, want %s", query, got, want)
		}
	}
	a.wantUnreadSiteMessages("alice", "mine")
	a.wantUnreadSiteMessages("bob", "others")
}

func TestBadSiteMessages(t *testing.T) {
	a := newAPI(t)
	id := a.sendSiteMessage("one", "user:alice")
	many := make([]string, 10_001)
	for i := range many {
		many[i] = fmt.Sprint("user:u", i)
	}
	send := func(to []string, title, content string, kind any) apiAnswer {
		return a.askWithHostToken(sendSiteMessageMutation, map[string]any{"to": to, "title": title, "content": content, "type": kind})
	}
	one := []string{"user:alice"}
	for what, got := range map[string]apiAnswer{
		"to: 1 to 10000 recipients are allowed, got 0":          send([]string{}, "t", "", nil),
		"to: 1 to 10000 recipients are allowed, got 10001":      send(many, "t", "", nil),
		`to: "alice" is not the id of a user`:                   send([]string{"alice"}, "t", "", nil),
		"title: 1 to 255 characters are allowed, got 0":         send(one, "", "", nil),
		"title: 1 to 255 characters are allowed, got 256":       send(one, strings.Repeat("t", 256), "", nil),
		"content: up to 65536 bytes are allowed, got 65537":     send(one, "t", strings.Repeat("c", 65537), nil),
		`type: "noise" is not a type of site messages: general`: send(one, "t", "", "noise"),
		"title, content, url and data: at least one":            a.askWithHostToken(`mutation($id: ID!) { editSiteMessage(input: {siteMessageId: $id}) { message { id } } }`, map[string]any{"id": id}),
		"ids: they exclude type, all and upTo":                  a.askAs("alice", `mutation($id: ID!) { markSiteMessagesRead(input: {ids: [$id], all: true}) { badges { version } } }`, map[string]any{"id": id}),
		"type and all: only one":                                a.askAs("alice", `mutation { markSiteMessagesRead(input: {type: "general", all: true}) { badges { version } } }`, nil),
		"ids, type, all or upTo: one of them is needed":         a.askAs("alice", `mutation { markSiteMessagesRead(input: {}) { badges { version } } }`, nil),
		"ids: 1 to 500 are allowed, got 0":                      a.askAs("alice", `mutation { markSiteMessagesRead(input: {ids: []}) { badges { version } } }`, nil),
		`ids: "post:1" is not the id of a siteMessage`:          a.askAs("alice", `mutation { markSiteMessagesUnread(input: {ids: ["post:1"]}) { badges { version } } }`, nil),
		`type: "none" is not a type`:                            a.askAs("alice", `{ viewer { siteMessages(type: "none") { edges { cursor } } } }`, nil),
		"first: 1 to 100":                                       a.askAs("alice", `{ viewer { siteMessages(first: 0) { edges { cursor } } } }`, nil),
	} {
		if got.code() != services.Invalid || !strings.Contains(got.Errors[0].Message, what) {
			t.Errorf("want INVALID %q, got %+v", what, got.Errors)
		}
	}
	if got := send(many[:10_000], strings.Repeat("名", 255), strings.Repeat("c", 65536), "general"); len(got.Errors) > 0 {
		t.Errorf("at the limits: %+v", got.Errors)
	}
	a.wantUnreadSiteMessages("alice", "one")
}

// Events about site messages and views have the effects of the mutations, once for each idempotency key.
func TestEventsOfSiteMessagesAndViews(t *testing.T) {
	a := newAPI(t)
	at := a.Clock.Now().Format(time.RFC3339)
	a.must("alice", `mutation { touchView(input: {code: "news", key: "town"}) { view { unread { value } } } }`, nil)
	a.Clock.Advance(time.Minute)
	later := a.Clock.Now().Format(time.RFC3339)
	events := []map[string]any{
		{"sendSiteMessage": map[string]any{"title": "hello", "to": []string{"user:alice"}, "key": "m"}},
		{"addViewItem": map[string]any{"code": "news", "view": "town", "item": "a", "at": later, "key": "v"}},
		{"addViewItem": map[string]any{"code": "news", "view": "town", "item": "b", "at": at}},
		{"addViewItem": map[string]any{"code": "home_page", "view": "x", "item": "b", "at": at}},
		{"removeViewItem": map[string]any{"code": "news", "view": "town", "item": "z"}},
	}
	for range 2 {
		got := a.ingest(events...)
		for i, code := range []any{nil, nil, nil, "INVALID", "NOT_FOUND"} {
			if got.valueAt("ingest", "results", i, "error", "code") != code {
				t.Errorf("event %d: %+v", i, got.valueAt("ingest", "results", i))
			}
		}
		a.RunAllJobs(a.Fanout)
		a.wantUnreadSiteMessages("alice", "hello")
		// Both items are new, whatever their times are: the view had no item yet when alice touched it.
		if got := a.newsViews("alice"); got != "news/town 2 EXACT" {
			t.Errorf("alice's views are %s, want 2 of news/town", got)
		}
	}
	marked := a.ingest(map[string]any{"markSiteMessagesRead": map[string]any{"as": "user:alice", "all": true}},
		map[string]any{"touchView": map[string]any{"as": "user:alice", "code": "news", "view": "town"}},
		map[string]any{"removeViewItem": map[string]any{"code": "news", "view": "town", "item": "a"}})
	a.RunAllJobs(a.Fanout)
	a.wantUnreadSiteMessages("alice", "")
	if got := a.newsViews("alice"); got != "news/town 0 EXACT" {
		t.Errorf("after %+v alice's views are %s", marked, got)
	}
}

// newsViews returns a user's views of the code news, as text.
func (a *testAPI) newsViews(key string) string {
	a.t.Helper()
	got := a.must(key, `{ viewer { badges { total { value } } views(codes: ["news"], first: 100) { edges { node { code key unread { value precision inTotal } } } } } }`, nil)
	var list []string
	edges, _ := got.valueAt("viewer", "views", "edges").([]any)
	for i := range edges {
		node := func(path ...any) any {
			return got.valueAt(append([]any{"viewer", "views", "edges", i, "node"}, path...)...)
		}
		list = append(list, fmt.Sprint(node("code"), "/", node("key"), " ", node("unread", "value"), " ", node("unread", "precision")))
		if node("unread", "inTotal") != false {
			a.t.Errorf("a view is in the total")
		}
	}
	return strings.Join(list, ", ")
}

func TestViewsArePagedAndBadArgumentsRefused(t *testing.T) {
	a := newAPI(t)
	for i := range 5 {
		a.must("alice", fmt.Sprintf(`mutation { touchView(input: {code: "news", key: "v%d"}) { view { upTo lastAccessAt } badges { version } } }`, i), nil)
	}
	page := a.must("alice", `{ viewer { views(codes: ["news", "topic"], first: 3) { edges { node { id } } pageInfo { hasNextPage endCursor } } } }`, nil)
	rest := a.must("alice", `query($after: String) { viewer { views(codes: ["news"], after: $after) { edges { node { id } } pageInfo { hasNextPage } } } }`,
		map[string]any{"after": page.valueAt("viewer", "views", "pageInfo", "endCursor")})
	if page.valueAt("viewer", "views", "pageInfo", "hasNextPage") != true || rest.valueAt("viewer", "views", "edges", 0, "node", "id") != "view:news/v3" ||
		rest.valueAt("viewer", "views", "edges", 2) != nil || rest.valueAt("viewer", "views", "pageInfo", "hasNextPage") != false {
		t.Errorf("pages: %+v, %+v", page.Data, rest.Data)
	}
	future := a.Clock.Now().Add(time.Hour).Format(time.RFC3339)
	for query, want := range map[string]string{
		`mutation { touchView(input: {code: "news", key: "v", upTo: "` + future + `"}) { view { id } } }`: "upTo",
		`mutation { touchView(input: {code: "News", key: "v"}) { view { id } } }`:                         "code",
		`mutation { touchView(input: {code: "news", key: ""}) { view { id } } }`:                          "key",
		`{ viewer { views(codes: ["home_page"]) { edges { cursor } } } }`:                                 "reserved",
		`{ viewer { views(codes: []) { edges { cursor } } } }`:                                            "codes",
		`{ viewer { views(codes: ["news"], after: "x") { edges { cursor } } } }`:                          "after",
	} {
		if got := a.askAs("alice", query, nil); got.code() != services.Invalid || !strings.Contains(got.Errors[0].Message, want) {
			t.Errorf("%s: want INVALID with %q, got %+v", query, want, got.Errors)
		}
	}
	add := `mutation { addViewItem(input: {code: "news", key: "v", item: "a", at: "2026-01-01T00:00:00Z"}) { item } }`
	if got := a.askAs("alice", add, nil); got.code() != services.Forbidden {
		t.Errorf("a viewer reports: %+v", got)
	}
	if got := a.askWithHostToken(add, nil); got.valueAt("addViewItem", "item") != "a" {
		t.Errorf("the host reports: %+v", got)
	}
}
