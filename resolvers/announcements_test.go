package resolvers

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"tidings/services"
)

// askWithHostToken sends a request as the host application and returns the answer.
func (a *testAPI) askWithHostToken(query string, variables map[string]any) apiAnswer {
	a.t.Helper()
	return a.ask("", []services.Scope{services.ScopeIngest}, query, variables)
}

// announce publishes an announcement with the fields of input, and returns its ID.
func (a *testAPI) announce(input string) string {
	a.t.Helper()
	got := a.askWithHostToken(`mutation { publishAnnouncement(input: `+input+`) { announcement { id unread } } }`, nil)
	id, ok := got.valueAt("publishAnnouncement", "announcement", "id").(string)
	if !ok || got.valueAt("publishAnnouncement", "announcement", "unread") != nil {
		a.t.Fatalf("%s: %+v", input, got)
	}
	return id
}

const announcementsQuery = `{ viewer { badges { announcements { value precision } dots { name lit } }
	announcements { edges { cursor node { id title unread } } pageInfo { hasNextPage endCursor } } } }`

// unreadAnnouncements reads a user's count and list of announcements, which must agree, and the lit dots. It returns the titles of
// the unread announcements.
func (a *testAPI) unreadAnnouncements(key string) (titles []string, lit map[string]bool) {
	a.t.Helper()
	got := a.must(key, announcementsQuery, nil)
	edges, _ := got.valueAt("viewer", "announcements", "edges").([]any)
	for i := range edges {
		if got.valueAt("viewer", "announcements", "edges", i, "node", "unread") == true {
			titles = append(titles, got.valueAt("viewer", "announcements", "edges", i, "node", "title").(string))
		}
	}
	if count := got.valueAt("viewer", "badges", "announcements", "value"); count != float64(len(titles)) {
		a.t.Errorf("%s has %v unread and is listed %v", key, count, titles)
	}
	lit = map[string]bool{}
	dots, _ := got.valueAt("viewer", "badges", "dots").([]any)
	for i := range dots {
		lit[got.valueAt("viewer", "badges", "dots", i, "name").(string)] = got.valueAt("viewer", "badges", "dots", i, "lit").(bool)
	}
	return titles, lit
}

// wantUnreadAnnouncements fails the test if the unread announcements of a user are not the wanted ones.
func (a *testAPI) wantUnreadAnnouncements(key, want string) {
	a.t.Helper()
	if titles, _ := a.unreadAnnouncements(key); strings.Join(titles, " ") != want {
		a.t.Errorf("%s has unread %v, want %q", key, titles, want)
	}
}

func TestAnnouncements(t *testing.T) {
	a := newAPI(t)
	a.announce(`{title: "before"}`)
	a.wantUnreadAnnouncements("bob", "") // for a new user, all earlier announcements count as read
	one, two := a.announce(`{title: "one", content: "text"}`), a.announce(`{title: "two"}`)
	a.wantUnreadAnnouncements("bob", "two one")
	a.wantUnreadAnnouncements("carol", "")
	marked := a.must("bob", `mutation($id: ID) { markAnnouncementsRead(input: {upTo: $id}) { badges { announcements { value } total { value } } } }`, map[string]any{"id": one})
	if marked.valueAt("markAnnouncementsRead", "badges", "total", "value") != 1.0 {
		t.Errorf("after the mark %+v", marked)
	}
	a.wantUnreadAnnouncements("bob", "two")
	shown := a.must("bob", announcementsQuery, nil)
	cursor := shown.valueAt("viewer", "announcements", "edges", 0, "cursor")
	if again := a.askWithHostToken(`mutation($id: ID!) { editAnnouncement(input: {announcementId: $id, title: "again", showAgain: true}) { announcement { title } } }`,
		map[string]any{"id": two}); again.valueAt("editAnnouncement", "announcement", "title") != "again" {
		t.Fatalf("%+v", again)
	}
	// Bob marks up to the former position of the announcement. At its new position it is unread.
	a.must("bob", `mutation($id: ID) { markAnnouncementsRead(input: {upTo: $id}) { badges { version } } }`, map[string]any{"id": cursor})
	a.wantUnreadAnnouncements("bob", "again")
	a.wantUnreadAnnouncements("carol", "again")
	if node := a.must("bob", `query($id: ID!) { node(id: $id) { id ... on Announcement { title unread endsAt } } }`, map[string]any{"id": two}); node.valueAt("node", "title") != "again" || node.valueAt("node", "unread") != true {
		t.Errorf("the node is %+v", node)
	}
	a.askWithHostToken(`mutation($id: ID!) { withdrawAnnouncement(input: {announcementId: $id}) { announcementId } }`, map[string]any{"id": two})
	a.wantUnreadAnnouncements("bob", "")
	if node := a.must("bob", `query($id: ID!) { node(id: $id) { id } }`, map[string]any{"id": two}); node.valueAt("node") != nil {
		t.Errorf("a withdrawn announcement is read: %+v", node)
	}
}

func TestAnnouncementsOfSegmentsAndTimes(t *testing.T) {
	a := newAPI(t)
	a.wantUnreadAnnouncements("bob", "")
	a.wantUnreadAnnouncements("carol", "")
	start, end := a.Clock.Now().Add(time.Hour).Format(time.RFC3339), a.Clock.Now().Add(2*time.Hour).Format(time.RFC3339)
	planned := a.announce(fmt.Sprintf(`{title: "planned", startsAt: %q, endsAt: %q, segments: ["beta"]}`, start, end))
	got := a.askWithHostToken(`mutation { setSegments(input: {userId: "user:bob", segments: ["beta", "beta", "staff"]}) { user { key } } }`, nil)
	if got.valueAt("setSegments", "user", "key") != "bob" {
		t.Fatalf("%+v", got)
	}
	a.wantUnreadAnnouncements("bob", "")
	if node := a.must("bob", `query($id: ID!) { node(id: $id) { id } }`, map[string]any{"id": planned}); node.valueAt("node") != nil {
		t.Errorf("what has not started is read: %+v", node)
	}
	a.Clock.Advance(time.Hour)
	a.RunDueJobs(a.Fanout)
	a.wantUnreadAnnouncements("bob", "planned")
	a.wantUnreadAnnouncements("carol", "")
	if node := a.must("carol", `query($id: ID!) { node(id: $id) { id } }`, map[string]any{"id": planned}); node.valueAt("node") != nil {
		t.Errorf("what is meant for others is read: %+v", node)
	}
	a.askWithHostToken(`mutation { setSegments(input: {userId: "user:carol", segments: ["beta"]}) { user { key } } }`, nil)
	a.wantUnreadAnnouncements("carol", "planned")
	a.askWithHostToken(`mutation { setSegments(input: {userId: "user:carol", segments: []}) { user { key } } }`, nil)
	a.wantUnreadAnnouncements("carol", "")
	a.Clock.Advance(time.Hour)
	a.wantUnreadAnnouncements("bob", "")
}

func TestDots(t *testing.T) {
	a := newAPI(t)
	raise := func(input string) {
		t.Helper()
		if got := a.askWithHostToken(`mutation { raiseDot(input: `+input+`) { name } }`, nil); len(got.Errors) > 0 {
			t.Fatalf("%+v", got)
		}
	}
	want := func(key string, shop, wallet bool) {
		t.Helper()
		if _, lit := a.unreadAnnouncements(key); lit["shop"] != shop || lit["wallet"] != wallet {
			t.Errorf("%s sees lit %v", key, lit)
		}
	}
	raise(`{name: "shop"}`)
	want("bob", false, false) // from before bob's first visit
	want("carol", false, false)
	raise(`{name: "shop"}`)
	raise(`{name: "wallet", segments: ["beta"]}`)
	want("bob", true, false)
	a.askWithHostToken(`mutation { setSegments(input: {userId: "user:bob", segments: ["beta"]}) { user { key } } }`, nil)
	want("bob", true, true)
	cleared := a.must("bob", `mutation { clearDot(input: {name: "shop"}) { badges { dots { name lit } } } }`, nil)
	if cleared.valueAt("clearDot", "badges", "dots", 0, "lit") != false || cleared.valueAt("clearDot", "badges", "dots", 1, "lit") != true {
		t.Errorf("the answer is %+v", cleared)
	}
	want("bob", false, true)
	want("carol", true, false)
	raise(`{name: "shop"}`)
	want("bob", true, true)
	if got := a.askAs("bob", `mutation { clearDot(input: {name: "nope"}) { badges { version } } }`, nil); got.code() != services.NotFound {
		t.Errorf("an unknown dot: %+v", got)
	}
}

func TestAnnouncementsArePaged(t *testing.T) {
	a := newAPI(t)
	for n := range 7 {
		a.announce(fmt.Sprintf(`{title: "%d"}`, n))
	}
	var titles []string
	var after any
	for range 10 {
		got := a.must("bob", `query($after: String) { viewer { announcements(first: 3, after: $after) { edges { node { title } } pageInfo { hasNextPage endCursor } } } }`,
			map[string]any{"after": after})
		edges, _ := got.valueAt("viewer", "announcements", "edges").([]any)
		for i := range edges {
			titles = append(titles, got.valueAt("viewer", "announcements", "edges", i, "node", "title").(string))
		}
		after = got.valueAt("viewer", "announcements", "pageInfo", "endCursor")
		if len(titles) == 3 { // an announcement that comes now is above the page that is read
			a.announce(`{title: "new"}`)
		}
		if got.valueAt("viewer", "announcements", "pageInfo", "hasNextPage") == false {
			break
		}
	}
	if strings.Join(titles, " ") != "6 5 4 3 2 1 0" {
		t.Errorf("the pages are %v", titles)
	}
	if got := a.askAs("carol", `query($after: String) { viewer { announcements(after: $after) { edges { cursor } } } }`, map[string]any{"after": after}); got.code() != services.Invalid {
		t.Errorf("a cursor of another user: %+v", got)
	}
}

func TestBadInputOfAnnouncements(t *testing.T) {
	a := newAPI(t)
	at := func(by time.Duration) string { return fmt.Sprintf("%q", a.Clock.Now().Add(by).Format(time.RFC3339)) }
	waiting := a.announce(`{title: "waiting", startsAt: ` + at(time.Hour) + `}`)
	running := a.announce(`{title: "running"}`)
	gone := a.announce(`{title: "gone"}`)
	a.askWithHostToken(`mutation { withdrawAnnouncement(input: {announcementId: "`+gone+`"}) { announcementId } }`, nil)
	a.unreadAnnouncements("bob")
	before := a.must("bob", announcementsQuery, nil)
	publish := func(input string) string {
		return `mutation { publishAnnouncement(input: ` + input + `) { announcement { id } } }`
	}
	edit := func(id, input string) string {
		return `mutation { editAnnouncement(input: {announcementId: "` + id + `", ` + input + `}) { announcement { id } } }`
	}
	mark := func(upTo string) string {
		return `mutation { markAnnouncementsRead(input: {upTo: "` + upTo + `"}) { badges { version } } }`
	}
	names := make([]string, 65)
	for n := range names {
		names[n] = fmt.Sprintf("%q", fmt.Sprint("segment", n))
	}
	for _, bad := range []struct {
		query, says string // says is a part of the error's message
		code        services.Code
	}{
		{publish(`{title: ""}`), "title: 1 to 255 characters are allowed, got 0", services.Invalid},
		{publish(`{title: "` + strings.Repeat("ä", 256) + `"}`), "got 256", services.Invalid},
		{publish(`{title: "t", content: "` + strings.Repeat("ä", 32769) + `"}`), "content: up to 65536 bytes are allowed, got 65538", services.Invalid},
		{publish(`{title: "t", startsAt: ` + at(2*time.Hour) + `, endsAt: ` + at(time.Hour) + `}`), "endsAt: ", services.Invalid},
		{publish(`{title: "t", startsAt: ` + at(time.Hour) + `, endsAt: ` + at(time.Hour) + `}`), "is not after the start", services.Invalid},
		{publish(`{title: "t", endsAt: ` + at(-time.Hour) + `}`), "is in the past", services.Invalid},
		{publish(`{title: "t", segments: []}`), "segments: name at least one", services.Invalid},
		{publish(`{title: "t", segments: ["Upper"]}`), `segments: "Upper"`, services.Invalid},
		{publish(`{title: "t", segments: [` + strings.Join(names, ",") + `]}`), `segments: "segment64" would be segment 65, up to 64 are allowed`, services.Conflict},
		{`mutation { setSegments(input: {userId: "user:bob", segments: [` + strings.Join(names, ",") + `]}) { user { id } } }`, "segment 65", services.Conflict},
		{`mutation { setSegments(input: {userId: "bob", segments: []}) { user { id } } }`, "userId: ", services.Invalid},
		{edit("announcement:0000000000000", `title: "t"`), "there is no announcement", services.NotFound},
		{edit("post:0000000000000", `title: "t"`), "announcementId: ", services.Invalid},
		{edit(gone, `title: "t"`), "was withdrawn", services.Conflict},
		{edit(running, `startsAt: `+at(time.Hour)), "has started", services.Conflict},
		{edit(running, `title: ""`), "title: ", services.Invalid},
		{edit(waiting, `endsAt: `+at(time.Minute)), "is not after the start", services.Invalid},
		{edit(waiting, `title: null`), "title: it cannot be null", services.Invalid},
		{edit(waiting, `startsAt: null`), "startsAt: it cannot be null", services.Invalid},
		{`mutation { raiseDot(input: {name: "no good"}) { name } }`, "name: ", services.Invalid},
		{`mutation { raiseDot(input: {name: ""}) { name } }`, "name: 1 to 64 characters are allowed, got 0", services.Invalid},
		{mark("announcement:7ZZZZZZZZZZZZ"), "there is no announcement", services.NotFound},
		{mark(waiting), "there is no announcement", services.NotFound},
		{mark("post:0000000000000"), "upTo: ", services.Invalid},
		{mark(announcementCursor.text(1, 1<<62)), "upTo: ", services.Invalid},
		{mark(feedCursor.text(1, 1)), "upTo: ", services.Invalid},
		{`{ viewer { announcements(first: 0) { edges { cursor } } } }`, "first: ", services.Invalid},
		{`{ viewer { announcements(after: "x") { edges { cursor } } } }`, "after: ", services.Invalid},
		{`{ node(id: "announcement:x") { id } }`, "id: ", services.Invalid},
	} {
		got := a.ask("bob", []services.Scope{services.ScopeViewer, services.ScopeAdmin}, bad.query, nil)
		if got.code() != bad.code || len(got.Errors) == 0 || !strings.Contains(got.Errors[0].Message, bad.says) {
			t.Errorf("%.200s: %+v, want %s: %s", bad.query, got.Errors, bad.code, bad.says)
		}
	}
	if after := a.must("bob", announcementsQuery, nil); fmt.Sprint(after) != fmt.Sprint(before) {
		t.Errorf("something was half-done: %+v after %+v", after, before)
	}
	for _, query := range []string{
		publish(`{title: "t"}`), edit(running, `title: "t"`), `mutation { raiseDot(input: {name: "shop"}) { name } }`,
		`mutation { setSegments(input: {userId: "user:bob", segments: ["staff"]}) { user { id } } }`,
		`mutation { withdrawAnnouncement(input: {announcementId: "` + running + `"}) { announcementId } }`,
	} {
		if got := a.askAs("bob", query, nil); got.code() != services.Forbidden {
			t.Errorf("a viewer may: %s: %+v", query, got)
		}
		if got := a.ask("", nil, query, nil); got.code() != services.Unauthenticated {
			t.Errorf("nobody may: %s: %+v", query, got)
		}
	}
}

func TestAnnouncementsAreIngested(t *testing.T) {
	a := newAPI(t)
	a.unreadAnnouncements("bob")
	got := a.ingest(
		map[string]any{"publishAnnouncement": map[string]any{"title": "news", "key": "k"}},
		map[string]any{"publishAnnouncement": map[string]any{"title": "news", "key": "k"}},
		map[string]any{"publishAnnouncement": map[string]any{"title": "other", "key": "k"}},
		map[string]any{"raiseDot": map[string]any{"name": "shop", "segments": []string{"beta"}}},
		map[string]any{"setSegments": map[string]any{"userId": "user:bob", "segments": []string{"beta"}}},
		map[string]any{"clearDot": map[string]any{"as": "user:bob", "name": "nope"}},
		map[string]any{"publishAnnouncement": map[string]any{"title": ""}},
	)
	results := got.valueAt("ingest", "results")
	id := got.valueAt("ingest", "results", 0, "id")
	if id == nil || got.valueAt("ingest", "results", 1, "id") != id || got.valueAt("ingest", "results", 2, "error", "code") != "CONFLICT" ||
		got.valueAt("ingest", "results", 3, "error") != nil || got.valueAt("ingest", "results", 4, "id") != "user:bob" ||
		got.valueAt("ingest", "results", 5, "error", "code") != "NOT_FOUND" || got.valueAt("ingest", "results", 6, "error", "code") != "INVALID" {
		t.Fatalf("the results are %+v", results)
	}
	a.wantUnreadAnnouncements("bob", "news")
	if _, lit := a.unreadAnnouncements("bob"); !lit["shop"] {
		t.Errorf("lit are %v", lit)
	}
	a.ingest(
		map[string]any{"markAnnouncementsRead": map[string]any{"as": "user:bob", "upTo": id}},
		map[string]any{"clearDot": map[string]any{"as": "user:bob", "name": "shop"}},
	)
	a.wantUnreadAnnouncements("bob", "")
	if _, lit := a.unreadAnnouncements("bob"); lit["shop"] {
		t.Errorf("lit are %v", lit)
	}
}
