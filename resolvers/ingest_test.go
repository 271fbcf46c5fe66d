package resolvers

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"tidings/dataloader"
	"tidings/graph"
	"tidings/services"
	"tidings/services/erasures"
	"tidings/services/fanout/fanouttest"
	"tidings/services/sql/sqltest"

	"github.com/google/go-cmp/cmp"
)

// event is an event in the short form of testAPI.ingest: the name of an action with its input, in which the fields as, device and key
// may stand too.
type event = map[string]any

// helloPostEvent returns an event in which a user publishes a post.
func helloPostEvent(as string) event { return event{"publishPost": event{"as": as, "body": "hello"}} }

// Each event has a result at its own index, and an event that fails does not affect the others.
func TestIngestAnswersForEachEvent(t *testing.T) {
	a := newAPI(t)
	post := a.publishPost("alice")
	events := []event{
		{"follow": event{"as": "user:bob", "userId": "user:alice"}},
		{"follow": event{"as": "user:bob", "userId": "user:alice"}},
		helloPostEvent("user:carol"),
		{"publishPost": event{"as": "user:carol", "body": ""}},
		{"likePost": event{"as": "user:bob", "postId": post}},
		{"likePost": event{"as": "user:bob", "postId": "post:0000000000001"}},
		{"likePost": event{"as": "bob", "postId": post}},
		{"unlikePost": event{"as": "user:bob", "postId": post}},
		{"setProfile": event{"as": "user:dora", "name": "Dora"}},
		{"unfollow": event{"as": "user:bob", "userId": "user:nobody"}},
		{"deletePost": event{"as": "user:bob", "postId": post}},
		{"markHomeFeedSeen": event{"as": "user:bob"}},
		{"markNotificationsSeen": event{"as": "user:alice", "categories": []string{"LIKE"}}},
		{"deletePost": event{"as": "user:alice", "postId": post}},
	}
	want := []struct {
		id   any
		code services.Code
	}{
		{"user:alice", ""}, {"user:alice", ""}, {"post:", ""}, {nil, services.Invalid}, {post, ""}, {nil, services.NotFound},
		{nil, services.Invalid}, {post, ""}, {"user:dora", ""}, {"user:nobody", ""}, {nil, services.Forbidden}, {nil, ""}, {nil, ""}, {post, ""},
	}
	got := a.ingest(events...)
	if len(got.Errors) > 0 {
		t.Fatalf("%+v", got.Errors)
	}
	for i, want := range want {
		id, code := got.valueAt("ingest", "results", i, "id"), got.valueAt("ingest", "results", i, "error", "code")
		if want.id == "post:" && strings.HasPrefix(fmt.Sprint(id), "post:") {
			id = want.id
		}
		if id != want.id || (want.code == "") != (code == nil) || code != nil && code != string(want.code) {
			t.Errorf("event %d %v: id %v, error %v; want %+v", i, events[i], id, got.valueAt("ingest", "results", i, "error"), want)
		}
	}
	a.RunAllJobs(a.Fanout)
	if got := a.must("bob", `{ viewer { homeFeed { edges { node { id } } } } }`, nil); got.valueAt("viewer", "homeFeed", "edges", 0) != nil {
		t.Errorf("the deleted post is listed: %+v", got)
	}
	if got := a.must("dora", `{ viewer { user { name } } }`, nil); got.valueAt("viewer", "user", "name") != "Dora" {
		t.Errorf("the profile: %+v", got)
	}
}

// An event that names a user who is being erased is refused; the other events are not.
func TestIngestWhileAUserIsBeingErased(t *testing.T) {
	a := newAPI(t)
	carol := a.MakeNamedUsers("carol")[0]
	if _, _, err := erasures.Begin(t.Context(), a.DB, "carol"); err != nil {
		t.Fatal(err)
	}
	a.Caches.People.Drop(carol, "carol")
	got := a.ingest(
		event{"follow": event{"as": "user:alice", "userId": "user:carol"}}, helloPostEvent("user:carol"), helloPostEvent("user:new"),
		event{"createConversation": event{"as": "user:alice", "kind": "GROUP", "memberIds": []string{"user:bob", "user:carol"}}},
		event{"follow": event{"as": "user:alice", "userId": "user:bob"}},
	)
	if len(got.Errors) > 0 {
		t.Fatalf("the request is refused: %+v", got.Errors)
	}
	for i, argument := range []string{"userId", "as", "", "memberIds", ""} {
		code, message := got.valueAt("ingest", "results", i, "error", "code"), fmt.Sprint(got.valueAt("ingest", "results", i, "error", "message"))
		if argument == "" && code != nil || argument != "" && (code != "CONFLICT" || !strings.HasPrefix(message, argument+": ")) {
			t.Errorf("event %d: %v", i, got.valueAt("ingest", "results", i))
		}
	}
}

// A user who is being erased is left out of a list of recipients. All other recipients get the message or notification. If there
// are no others, the event is refused.
func TestRecipientsWhoAreBeingErasedAreLeftOut(t *testing.T) {
	a := newAPI(t)
	carol := a.MakeNamedUsers("carol")[0]
	a.ask("root", []services.Scope{services.ScopeAdmin}, `mutation { defineCategory(input: {name: "promo"}) { created } }`, nil)
	if _, _, err := erasures.Begin(t.Context(), a.DB, "carol"); err != nil {
		t.Fatal(err)
	}
	a.Caches.People.Drop(carol, "carol")
	for _, to := range [][]string{{"user:bob", "user:carol"}, {"user:carol"}} {
		got := a.ingest(
			event{"notify": event{"to": to, "category": "promo", "title": "a sale"}},
			event{"sendSiteMessage": event{"to": to, "type": "general", "title": "news", "content": "a text"}},
		)
		for i := range 2 {
			code := got.valueAt("ingest", "results", i, "error", "code")
			if alone := len(to) == 1; alone && code != "CONFLICT" || !alone && code != nil {
				t.Errorf("event %d to %v: %+v", i, to, got)
			}
		}
	}
	a.RunDueJobs(a.Fanout) // the erasure itself waits
	got := a.must("bob", `{ viewer { badges { total { value } siteMessages { total { value } } } } }`, nil)
	if badges := got.valueAt("viewer", "badges"); fmt.Sprint(badges) != "map[siteMessages:map[total:map[value:1]] total:map[value:2]]" {
		t.Errorf("bob has %v", badges)
	}
}

func TestABatchHasOneTo500Events(t *testing.T) {
	a := newAPI(t)
	events := make([]event, 501)
	for i := range events {
		events[i] = helloPostEvent(fmt.Sprint("user:u", i%7))
	}
	for _, count := range []int{0, 501} {
		got := a.ingest(events[:count]...)
		if got.code() != services.Invalid || !strings.Contains(got.Errors[0].Message, "1 to 500") && count > 0 {
			t.Errorf("%d events: %+v", count, got)
		}
	}
	got := a.ingest(events[:500]...)
	seen := map[any]bool{}
	for i := range 500 {
		id := got.valueAt("ingest", "results", i, "id")
		if id == nil || seen[id] {
			t.Fatalf("event %d: %v", i, got.valueAt("ingest", "results", i))
		}
		seen[id] = true
	}
}

// Events that are sent again have no second effect, and get the same answers.
func TestRepeatedEventsGetTheirFirstAnswers(t *testing.T) {
	a := newAPI(t)
	one := event{"publishPost": event{"as": "user:carol", "body": "hello", "key": "k1"}}
	first, again := a.ingest(one), a.ingest(one)
	if first.valueAt("ingest", "results", 0, "id") == nil || first.valueAt("ingest", "results", 0, "id") != again.valueAt("ingest", "results", 0, "id") {
		t.Errorf("first %v, again %v", first.Data, again.Data)
	}
	other := a.ingest(event{"publishPost": event{"as": "user:carol", "body": "else", "key": "k1"}})
	if code := other.valueAt("ingest", "results", 0, "error", "code"); code != "CONFLICT" {
		t.Errorf("another body under the key: %v", other.Data)
	}
	long := a.ingest(event{"publishPost": event{"as": "user:carol", "body": "else", "key": strings.Repeat("k", 65)}})
	if code := long.valueAt("ingest", "results", 0, "error", "code"); code != "INVALID" {
		t.Errorf("a long key: %v", long.Data)
	}
}

// An idempotency key also remembers that its request changed nothing. When that request is repeated later, it has no effect, although
// it would change something now. This is so for events and for mutations.
func TestALateRepetitionOfANoOpHasNoEffect(t *testing.T) {
	a := newAPI(t)
	post := a.publishPost("alice")
	nothing := event{"unlikePost": event{"as": "user:bob", "postId": post, "key": "k1"}}
	first := a.ingest(nothing)
	if first.valueAt("ingest", "results", 0, "error") != nil || first.valueAt("ingest", "results", 0, "changed") != false {
		t.Fatalf("unlike first: %v", first.Data)
	}
	a.must("bob", `mutation { likePost(input: {postId: "`+post+`"}) { post { id } } }`, nil)
	again := a.ingest(nothing)
	if fmt.Sprint(again.Data) != fmt.Sprint(first.Data) {
		t.Errorf("unlike again: %v, want %v", again.Data, first.Data)
	}
	unlike := `mutation { unlikePost(input: {postId: "` + post + `", idempotencyKey: "%s"}) { changed post { id } } }`
	if got := a.must("bob", fmt.Sprintf(unlike, "k1"), nil); got.valueAt("unlikePost", "changed") != false {
		t.Errorf("the same as a mutation: %+v", got)
	}
	for range 2 { // the first call removes the like; the second repeats its key and gets the same answer
		if got := a.must("bob", fmt.Sprintf(unlike, "k2"), nil); got.valueAt("unlikePost", "changed") != true {
			t.Errorf("the like had gone: %+v", got.Data)
		}
	}
}

// The events of one request happen in their order: the order of conversations shows it.
func TestABatchKeepsTheOrderOfItsEvents(t *testing.T) {
	a := newAPI(t)
	var talks []string
	for i := range 12 {
		talks = append(talks, a.createConversation("DIRECT", "alice", fmt.Sprint("friend", i)))
	}
	order := []int{7, 3, 11, 0, 9, 1, 5, 10, 2, 8, 4, 6}
	for range 2 { // the second batch counts as later than the first, although the clock does not move
		var events []event
		for _, i := range order {
			events = append(events, event{"sendMessage": event{"as": fmt.Sprint("user:friend", i), "conversationId": talks[i], "body": "hello"}})
		}
		if got := a.ingest(events...); got.valueAt("ingest", "results", len(order)-1, "error") != nil {
			t.Fatalf("%+v", got)
		}
		a.RunAllJobs(a.Fanout)
		got := a.must("alice", `{ viewer { conversations(first: 12) { edges { node { id } } } } }`, nil)
		for position := range order {
			want := talks[order[len(order)-1-position]]
			if id := got.valueAt("viewer", "conversations", "edges", position, "node", "id"); id != want {
				t.Fatalf("position %d of the list has %v, want %s: %v", position, id, want, got.Data)
			}
		}
		slices.Reverse(order)
	}
}

// Notifications of comments in one batch are in the order of the events, although their IDs share a millisecond.
func TestCommentsOfABatchAreInOrder(t *testing.T) {
	a := newAPI(t)
	posts := []string{a.publishPost("alice"), a.publishPost("alice"), a.publishPost("alice"), a.publishPost("alice")}
	var events []event
	order := []int{2, 0, 3, 1}
	for _, i := range order {
		events = append(events, event{"publishPost": event{"as": fmt.Sprint("user:friend", i), "body": "hello", "parentId": posts[i]}})
	}
	if got := a.ingest(events...); got.valueAt("ingest", "results", len(order)-1, "error") != nil {
		t.Fatalf("%+v", got)
	}
	a.RunAllJobs(a.Fanout)
	got := a.must("alice", `{ viewer { notifications(first: 4) { edges { node { subject { id } } } } } }`, nil)
	for position := range order {
		want := posts[order[len(order)-1-position]]
		if id := got.valueAt("viewer", "notifications", "edges", position, "node", "subject", "id"); id != want {
			t.Fatalf("position %d of the list has %v, want %s: %v", position, id, want, got.Data)
		}
	}
}

func TestOnlyTheHostApplicationCanIngest(t *testing.T) {
	a := newAPI(t)
	got := a.askAs("bob", ingestQuery, map[string]any{"events": []event{expandEvent(helloPostEvent("user:alice"))}})
	if got.code() != services.Forbidden {
		t.Errorf("a viewer acts for another: %+v", got)
	}
}

// An event without an action, or with two, is refused and has no effect. If the executor finds this, it refuses the whole batch.
func TestEventNeedsExactlyOneAction(t *testing.T) {
	a := newAPI(t)
	two := helloPostEvent("user:alice")
	two["follow"] = event{"as": "user:bob", "userId": "user:alice"}
	for what, bad := range map[string]event{"nothing": {}, "two things": two} {
		got := a.ingest(bad)
		code := got.valueAt("ingest", "results", 0, "error", "code")
		if got.code() != services.Invalid && code != string(services.Invalid) {
			t.Errorf("%s: %+v", what, got)
		}
	}
	if got := a.must("alice", `{ viewer { homeFeed { edges { node { id } } } } }`, nil); got.valueAt("viewer", "homeFeed", "edges", 0) != nil {
		t.Error("half an event happened")
	}
}

// Events can edit in the same way as mutations: for example an announcement, and a user's display policy.
func TestEventsEditAsMutationsDo(t *testing.T) {
	a := newAPI(t)
	got := a.ingest(event{"publishAnnouncement": event{"title": "news"}})
	id, _ := got.valueAt("ingest", "results", 0, "id").(string)
	if !strings.HasPrefix(id, "announcement:") {
		t.Fatalf("published: %+v", got)
	}
	results := a.ingest(
		event{"editAnnouncement": event{"announcementId": id, "title": "old news"}},
		event{"setDisplayPolicy": event{"as": "user:bob", "sources": []event{{"source": "HOME_FEED", "style": "DOT"}}}},
		event{"setGroupPolicy": event{"as": "user:bob", "policy": "NOBODY"}},
		event{"withdrawAnnouncement": event{"announcementId": id}},
		event{"withdrawAnnouncement": event{"announcementId": id}},
		event{"editAnnouncement": event{"announcementId": "post:1"}},
		event{"setDisplayPolicy": event{"as": "user:bob", "sources": []event{{"source": "HOME_FEED"}, {"source": "HOME_FEED"}}}},
	)
	for i, want := range []any{nil, nil, nil, nil, nil, "INVALID", "INVALID"} {
		if code := results.valueAt("ingest", "results", i, "error", "code"); code != want {
			t.Errorf("event %d: %v, want %v", i, results.valueAt("ingest", "results", i), want)
		}
	}
	if got := a.must("bob", `{ viewer { displayPolicy { sources { style } } groupPolicy } }`, nil); got.valueAt("viewer", "displayPolicy", "sources", 0, "style") != "DOT" ||
		got.valueAt("viewer", "groupPolicy") != "NOBODY" {
		t.Errorf("the policies: %+v", got)
	}
}

// The deadline of a batch grows with its events, and holds even if the client goes away. After the deadline, the error advises the
// host application to send fewer events.
func TestTheDeadlineOfABatchGrowsWithItsEvents(t *testing.T) {
	ctx, leave := context.WithTimeout(t.Context(), time.Second)
	alone, _ := ctx.Deadline()
	longer, cancel := withBatchDeadline(ctx, 500)
	leave()
	if deadline, limited := longer.Deadline(); !limited || deadline.Sub(alone) != 5*time.Second || longer.Err() != nil {
		t.Errorf("500 events have %s more, %v", deadline.Sub(alone), longer.Err())
	}
	late := services.Errorf(services.Unavailable, "of the test")
	if err := adviseFewerEvents(longer, 500, late); err != late {
		t.Errorf("in time: %v", err)
	}
	cancel()
	over, cancel := context.WithDeadline(t.Context(), time.Unix(1, 0))
	defer cancel()
	if err := adviseFewerEvents(over, 500, late); !services.IsUnavailable(err) || !strings.Contains(err.Error(), "500 events took too long for one request: send fewer at once") {
		t.Errorf("late: %v", err)
	}
	if err := adviseFewerEvents(over, 1, late); err != late {
		t.Errorf("one event, late: %v", err)
	}
	if err := adviseFewerEvents(over, 500, errUnrelated); err != errUnrelated {
		t.Errorf("another error: %v", err)
	}
}

// A batch that waits in vain for a SQLite file that another process has locked gets errors that advise to send fewer events.
func TestABatchOnALockedFileIsAdvisedToSendFewerEvents(t *testing.T) {
	url := sqltest.SQLite(t)
	a := newAPIOn(t, fanouttest.New(t, fanouttest.Options{SQLURL: url, RedisURL: "embedded"}), 3, 5)
	sqltest.LockSQLiteFile(t, url)
	viewer := services.Viewer{Key: "host", Scopes: []services.Scope{services.ScopeIngest}}
	ctx, cancel := context.WithTimeout(services.WithViewer(t.Context(), viewer), 20*time.Millisecond)
	defer cancel()
	events := []graph.IngestEvent{{Do: graph.IngestAction{RaiseDot: &graph.RaiseDotInput{Name: "shop"}}}, {Do: graph.IngestAction{RaiseDot: &graph.RaiseDotInput{Name: "news"}}}}
	got, err := a.resolver.ingest(dataloader.With(ctx, a.resolver.Readers), events)
	a.Must(err)
	for i, result := range got.Results {
		if result.Error == nil || result.Error.Code != services.Unavailable || !strings.Contains(result.Error.Message, "send fewer at once") {
			t.Errorf("event %d: %+v", i, result.Error)
		}
	}
}

// The error of an event has the extensions of a mutation's error, so that one program can read both.
func TestTheErrorOfAnEventHasTheExtensions(t *testing.T) {
	r := &Resolver{Log: slog.New(slog.DiscardHandler)}
	shown := func(err error) graph.IngestError { return *r.ingestFailure(t.Context(), err).Error }
	full := &services.Error{
		Code: services.RateLimited, Message: "WRITES: up to 600 a minute are allowed", Reason: "WRITES", Limit: 600, RetryAfter: 1500 * time.Millisecond,
	}
	if diff := cmp.Diff(graph.IngestError{
		Code: full.Code, Message: full.Message, Argument: new("WRITES"), Reason: new("WRITES"), Limit: new(600), RetryAfterMs: new(1500),
	}, shown(full)); diff != "" {
		t.Error(diff)
	}
	bare := services.Errorf(services.Conflict, "it is so")
	if diff := cmp.Diff(graph.IngestError{Code: services.Conflict, Message: "it is so"}, shown(bare)); diff != "" {
		t.Error(diff)
	}
}

// errUnrelated is an error that has nothing to do with a deadline.
var errUnrelated = errors.New("of the test")
