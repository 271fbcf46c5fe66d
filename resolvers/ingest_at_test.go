package resolvers

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/fanout/fanouttest"
)

// expandPastEvent returns the full form of an event that happened a time ago.
func (a *testAPI) expandPastEvent(ago time.Duration, short event) event {
	full := expandEvent(short)
	full["at"] = a.Clock.Now().Add(-ago).Format(time.RFC3339Nano)
	return full
}

// ingestFullEvents sends events in their full form, and selects every field of their errors.
func (a *testAPI) ingestFullEvents(events ...event) apiAnswer {
	a.t.Helper()
	return a.ask("", []services.Scope{services.ScopeIngest}, `mutation($events: [IngestEvent!]!) { ingest(events: $events) {
		results { id changed error { code message argument reason limit } } } }`, map[string]any{"events": events})
}

// mustIngestPastEvent sends an event that happened a time ago and must succeed, and runs its jobs. It returns the ID of the object.
func (a *testAPI) mustIngestPastEvent(ago time.Duration, short event) (id string) {
	a.t.Helper()
	got := a.ingestFullEvents(a.expandPastEvent(ago, short))
	if failed := got.valueAt("ingest", "results", 0, "error"); failed != nil || len(got.Errors) > 0 {
		a.t.Fatalf("%v: %v %v", short, failed, got.Errors)
	}
	id, _ = got.valueAt("ingest", "results", 0, "id").(string)
	a.RunAllJobs(a.Fanout)
	return id
}

func TestAnEventHappenedInTheLast30Days(t *testing.T) {
	a := newAPI(t)
	const days30, minute = 30 * 24 * time.Hour, time.Minute
	got := a.ingestFullEvents(
		a.expandPastEvent(days30+time.Millisecond, helloPostEvent("user:bob")), a.expandPastEvent(days30, helloPostEvent("user:bob")), a.expandPastEvent(0, helloPostEvent("user:bob")),
		a.expandPastEvent(-minute, helloPostEvent("user:bob")), a.expandPastEvent(-minute-time.Millisecond, helloPostEvent("user:bob")), expandEvent(helloPostEvent("user:bob")),
	)
	for i, limit := range []any{30.0, nil, nil, nil, 60.0, nil} {
		failed := got.valueAt("ingest", "results", i, "error")
		if limit == nil {
			if failed != nil {
				t.Errorf("event %d: %v", i, failed)
			}
			continue
		}
		of := func(name string) any { return got.valueAt("ingest", "results", i, "error", name) }
		if of("code") != "INVALID" || of("argument") != "at" || of("reason") != "LIMIT" || of("limit") != limit {
			t.Errorf("event %d: %v, want INVALID, at, LIMIT, %v", i, failed, limit)
		}
	}
	// A time within the next minute counts as now, so that later events come after it.
	id, _ := got.valueAt("ingest", "results", 3, "id").(string)
	shown := a.must("bob", `query($id: ID!) { node(id: $id) { ... on Post { publishedAt } } }`, map[string]any{"id": id})
	if at, _ := time.Parse(time.RFC3339, fmt.Sprint(shown.valueAt("node", "publishedAt"))); at.After(a.Clock.Now()) {
		t.Errorf("a post is of %s, and it is %s", at, a.Clock.Now())
	}
}

// If a visit to a conversation is reported late, the messages up to its end still count as read. It ends when the device leaves, or a
// minute after the device last entered.
func TestALateReportedVisitReadsMessagesUpToItsEnd(t *testing.T) {
	a := newAPI(t)
	group := a.mustIngestPastEvent(5*time.Hour, event{"createConversation": event{"as": "user:alice", "kind": "GROUP", "memberIds": []string{"user:bob"}}})
	say := func(ago time.Duration) event {
		return a.expandPastEvent(ago, event{"sendMessage": event{"as": "user:alice", "conversationId": group, "body": "b"}})
	}
	visit := func(ago time.Duration, verb string) event {
		full := a.expandPastEvent(ago, event{verb: event{"as": "user:bob", "conversationId": group}})
		full["device"] = "phone"
		return full
	}
	// replayed reports past events and runs all their jobs, also those that wait for late reports, because RunAllJobs advances the
	// clock. Then it checks bob's unread count in their list and in their badges.
	replayed := func(what string, unread float64, events ...event) {
		t.Helper()
		got := a.ingestFullEvents(events...)
		for i := range events {
			if failed := got.valueAt("ingest", "results", i, "error"); failed != nil || len(got.Errors) > 0 {
				t.Fatalf("%s, event %d: %v %v", what, i, failed, got.Errors)
			}
		}
		a.RunAllJobs(a.Fanout)
		shown := a.must("bob", `{ viewer { badges { conversations { total { value } } } conversations { nodes { unread { value } } } } }`, nil)
		if count, total := shown.valueAt("viewer", "conversations", "nodes", 0, "unread", "value"), shown.valueAt("viewer", "badges", "conversations", "total", "value"); count != unread || total != unread {
			t.Errorf("%s: %v unread, %v in the badges, want %v", what, count, total, unread)
		}
	}
	const hours, second = time.Hour, time.Second
	replayed("a visit that the device ended", 1,
		say(4*hours), visit(3*hours, "enterConversation"), say(3*hours-20*second), visit(3*hours-30*second, "leaveConversation"), say(3*hours-40*second))
	replayed("one that ended by time", 1, visit(2*hours, "enterConversation"), say(2*hours-50*second), say(2*hours-70*second))
	replayed("one that was renewed", 0, visit(hours, "enterConversation"), visit(hours-50*second, "enterConversation"), say(hours-70*second))
	// The visit's minute is over, but the job that ends the visit waits for late reports of messages within that minute.
	a.ingestFullEvents(visit(hours/2, "enterConversation"))
	a.RunDueJobs(a.Fanout)
	replayed("one whose message comes after its jobs", 0, say(hours/2-20*second))
	replayed("what comes now", 1, say(0))
}

// An event can undo a markAllRead if it happened at most 30 seconds later, no matter when the two are reported.
func TestAnUndoIsJudgedByEventTimes(t *testing.T) {
	for seconds, want := range map[time.Duration]struct {
		code   any
		unread float64
	}{10: {nil, 1}, 30: {nil, 1}, 31: {"CONFLICT", 0}, -1: {"CONFLICT", 0}} {
		// The jobs run before the undo is reported, in three ways: after no event, after the follow, or after the follow and the mark.
		for after := range 3 {
			a := newAPI(t)
			events := []event{
				a.expandPastEvent(5*time.Hour, event{"follow": event{"as": "user:bob", "userId": "user:alice"}}),
				a.expandPastEvent(4*time.Hour, event{"markAllRead": event{"as": "user:alice"}}),
				a.expandPastEvent(4*time.Hour-seconds*time.Second, event{"undoMarkAllRead": event{"as": "user:alice"}}),
			}
			if after > 0 {
				a.ingestFullEvents(events[:after]...)
			}
			a.RunAllJobs(a.Fanout)
			got := a.ingestFullEvents(events[after:]...)
			a.RunAllJobs(a.Fanout)
			unread := a.must("alice", `{ viewer { badges { notifications { total { value } } } } }`, nil).valueAt("viewer", "badges", "notifications", "total", "value")
			if got.valueAt("ingest", "results", 2-after, "error", "code") != want.code || unread != want.unread {
				t.Errorf("after %d s, with jobs after %d events: %v, %v unread", seconds, after, got, unread)
			}
		}
	}
}

// An undo takes back one mark only. Notifications from before an earlier mark stay read, even if they are reported last.
func TestALateUndoKeepsTheEarlierMark(t *testing.T) {
	a := newAPI(t)
	a.mustIngestPastEvent(5*time.Hour, event{"markAllRead": event{"as": "user:alice"}})
	got := a.ingestFullEvents(
		a.expandPastEvent(4*time.Hour, event{"markAllRead": event{"as": "user:alice"}}),
		a.expandPastEvent(4*time.Hour-10*time.Second, event{"undoMarkAllRead": event{"as": "user:alice"}}))
	for i := range 2 {
		if failed := got.valueAt("ingest", "results", i, "error"); failed != nil {
			t.Errorf("event %d: %v", i, failed)
		}
	}
	for _, late := range []struct {
		ago    time.Duration
		who    string
		unread float64
	}{{6 * time.Hour, "bob", 0}, {5*time.Hour - time.Minute, "carol", 1}} {
		a.mustIngestPastEvent(late.ago, event{"follow": event{"as": "user:" + late.who, "userId": "user:alice"}})
		unread := a.must("alice", `{ viewer { badges { notifications { total { value } } } } }`, nil).valueAt("viewer", "badges", "notifications", "total", "value")
		if unread != late.unread {
			t.Errorf("a follow of %v ago: %v unread, want %v", late.ago, unread, late.unread)
		}
	}
}

// Under one idempotency key, an event with another time is another input, and a CONFLICT.
func TestAnotherTimeUnderAKeyIsAConflict(t *testing.T) {
	a := newAPI(t)
	post := event{"publishPost": event{"as": "user:carol", "body": "hello", "key": "k1"}}
	first, again := a.ingestFullEvents(a.expandPastEvent(time.Hour, post)), a.ingestFullEvents(a.expandPastEvent(time.Hour, post))
	if id := first.valueAt("ingest", "results", 0, "id"); id == nil || again.valueAt("ingest", "results", 0, "id") != id {
		t.Errorf("first %v, again %v", first, again)
	}
	for what, other := range map[string]event{"another time": a.expandPastEvent(2*time.Hour, post), "no time": expandEvent(post)} {
		if got := a.ingestFullEvents(other); got.valueAt("ingest", "results", 0, "error", "code") != "CONFLICT" {
			t.Errorf("%s under the key: %v", what, got)
		}
	}
}

// feedOf returns the bodies of a user's home feed, one after the other, and its count.
func (a *testAPI) feedOf(key string) (bodies string, unread any) {
	a.t.Helper()
	got := a.must(key, `{ viewer { badges { homeFeed { value } } homeFeed { nodes { body } } } }`, nil)
	nodes, _ := got.valueAt("viewer", "homeFeed", "nodes").([]any)
	for _, node := range nodes {
		bodies += node.(map[string]any)["body"].(string)
	}
	return bodies, got.valueAt("viewer", "badges", "homeFeed", "value")
}

// publishPostEvent returns the event of a post.
func publishPostEvent(as, body string) event {
	return event{"publishPost": event{"as": "user:" + as, "body": body}}
}

// A post that is reported late is in the feed at its own time. It counts unless a later post in the feed was seen.
func TestALatePostIsSeenWhereALaterOneWas(t *testing.T) {
	a := newAPI(t)
	a.mustIngestPastEvent(10*time.Hour, event{"follow": event{"as": "user:bob", "userId": "user:alice"}})
	want := func(what, bodies string, unread float64) {
		t.Helper()
		if got, count := a.feedOf("bob"); got != bodies || count != unread {
			t.Errorf("%s: %s with %v unread, want %s with %v", what, got, count, bodies, unread)
		}
	}
	a.mustIngestPastEvent(5*time.Hour, publishPostEvent("alice", "5"))
	a.mustIngestPastEvent(3*time.Hour, publishPostEvent("alice", "3"))
	want("two posts", "35", 2)
	a.mustIngestPastEvent(4*time.Hour, event{"markHomeFeedSeen": event{"as": "user:bob"}})
	want("a mark of the time between them", "35", 1)
	a.mustIngestPastEvent(6*time.Hour, event{"markHomeFeedSeen": event{"as": "user:bob"}})
	want("an earlier mark", "35", 1)
	a.mustIngestPastEvent(8*time.Hour, publishPostEvent("alice", "8"))
	want("a post before the seen one", "358", 1)
	a.mustIngestPastEvent(2*time.Hour, publishPostEvent("alice", "2"))
	a.mustIngestPastEvent(11*time.Hour, publishPostEvent("alice", "x"))
	want("one after it, and one before the follow", "2358x", 2)
	a.must("bob", `mutation { markHomeFeedSeen(input: {}) { badges { version } } }`, nil)
	a.mustIngestPastEvent(150*time.Minute, publishPostEvent("alice", "b"))
	want("all is seen, and a post between", "2b358x", 0)
}

// A notification that is reported late is in the list at its own time. It counts unless a later one was seen; a mark of a past
// time also covers notifications that are reported after it.
func TestALateNotificationIsSeenWhereALaterOneWas(t *testing.T) {
	a := newAPI(t)
	follow := func(ago time.Duration, who string) {
		t.Helper()
		a.mustIngestPastEvent(ago, event{"follow": event{"as": "user:" + who, "userId": "user:alice"}})
	}
	want := func(what string, unseen float64, list string) {
		t.Helper()
		got := a.must("alice", `{ viewer { badges { notifications { follow { value } } } notifications { nodes { seen read actors { key } } } } }`, nil)
		var lines []string
		nodes, _ := got.valueAt("viewer", "notifications", "nodes").([]any)
		for i := range nodes {
			line := fmt.Sprint(got.valueAt("viewer", "notifications", "nodes", i, "actors", 0, "key"))
			for _, state := range []string{"seen", "read"} {
				if got.valueAt("viewer", "notifications", "nodes", i, state) == true {
					line += " " + state
				}
			}
			lines = append(lines, line)
		}
		if count := got.valueAt("viewer", "badges", "notifications", "follow", "value"); count != unseen || strings.Join(lines, ", ") != list {
			t.Errorf("%s: %v unseen of %q, want %v of %q", what, count, strings.Join(lines, ", "), unseen, list)
		}
	}
	const half = 12 * time.Hour // two follows of one half day are one notification
	follow(10*half, "bob")
	follow(6*half, "carol")
	want("two follows", 2, "carol, bob")
	a.mustIngestPastEvent(8*half, event{"markNotificationsSeen": event{"as": "user:alice"}})
	want("a mark of the time between them", 1, "carol, bob seen")
	follow(12*half, "dave")
	want("a follow before the mark", 1, "carol, bob seen, dave seen")
	follow(7*half, "erin")
	want("a follow after the mark", 2, "carol, erin, bob seen, dave seen")
	a.mustIngestPastEvent(13*half, event{"markNotificationsSeen": event{"as": "user:alice"}})
	want("an earlier mark", 2, "carol, erin, bob seen, dave seen")
	a.mustIngestPastEvent(5*half, event{"markAllRead": event{"as": "user:alice"}})
	follow(9*half, "frank")
	follow(4*half, "grace")
	want("all is read, a follow before that and one after", 1, "grace, carol seen read, erin seen read, frank seen read, bob seen read, dave seen read")
	a.must("alice", `mutation { markNotificationsSeen(input: {}) { badges { version } } }`, nil)
	follow(4*half+half/2, "heidi")
	a.mustIngestPastEvent(0, event{"follow": event{"as": "user:ivan", "userId": "user:alice"}})
	if got := a.must("alice", `{ viewer { badges { notifications { follow { value } } } } }`, nil); got.valueAt("viewer", "badges", "notifications", "follow", "value") != 1.0 {
		t.Errorf("what happens now counts, and what happened before the mark does not: %v", got)
	}
}

// A message that is reported after a later one in its conversation is refused: it cannot be inserted before that one.
func TestALateMessageIsRefused(t *testing.T) {
	a := newAPI(t)
	group := a.mustIngestPastEvent(5*time.Hour, event{"createConversation": event{"as": "user:alice", "kind": "GROUP", "memberIds": []string{"user:bob"}}})
	said := func(ago time.Duration, body string) event {
		return a.expandPastEvent(ago, event{"sendMessage": event{"as": "user:alice", "conversationId": group, "body": body}})
	}
	got := a.ingestFullEvents(said(4*time.Hour, "4"), said(2*time.Hour, "2"), said(3*time.Hour, "3"), said(6*time.Hour, "6"),
		a.expandPastEvent(3*time.Hour, event{"markConversationRead": event{"as": "user:bob", "conversationId": group}}))
	for i, code := range []any{nil, nil, "CONFLICT", "CONFLICT", nil} {
		if is := got.valueAt("ingest", "results", i, "error", "code"); is != code {
			t.Errorf("event %d: %v, want %v", i, got.valueAt("ingest", "results", i), code)
		}
	}
	a.RunAllJobs(a.Fanout)
	seen := a.must("bob", `{ viewer { conversations { nodes { unread { value } messages { nodes { body } } } } } }`, nil)
	if unread := seen.valueAt("viewer", "conversations", "nodes", 0, "unread", "value"); unread != 1.0 {
		t.Errorf("a mark between two messages leaves %v unread: %v", unread, seen)
	}
}

// A site message that is reported late is in the list at its own time. It counts unless a later one was marked read together with all
// messages, all of a type, or all up to one. A mark with a past time covers the messages up to that time. A mark made now covers the
// messages up to the newest one that the user could have seen.
func TestALateSiteMessageIsReadIfAMarkOfAllReadALaterOne(t *testing.T) {
	fanouttest.EachEnginePair(t, nil, func(t *testing.T, w *fanouttest.World) {
		a := newAPIOn(t, w, 3, 5)
		sent := func(ago time.Duration, title string) (id string) {
			t.Helper()
			return a.mustIngestPastEvent(ago, event{"sendSiteMessage": event{"title": title, "to": []string{"user:bob"}}})
		}
		mark := func(input string) {
			t.Helper()
			a.must("bob", `mutation { markSiteMessagesRead(input: {`+input+`}) { badges { version } } }`, nil)
		}
		mark("all: true")
		five := sent(50*time.Hour, "5")
		a.wantSiteMessages("a mark without any message", "bob", 1, "5")
		mark(`ids: ["` + five + `"]`)
		sent(60*time.Hour, "6")
		a.wantSiteMessages("a mark of one message", "bob", 1, "5+6")
		a.mustIngestPastEvent(55*time.Hour, event{"markSiteMessagesRead": event{"as": "user:bob", "all": true}})
		sent(56*time.Hour, "p")
		a.wantSiteMessages("a mark of a past time", "bob", 0, "5+p+6+")
		mark("all: true")
		sent(51*time.Hour, "q")
		sent(40*time.Hour, "4")
		a.wantSiteMessages("a mark of now", "bob", 1, "4"+"5+q+p+6+")
		three := sent(30*time.Hour, "3")
		sent(20*time.Hour, "2")
		mark(`upTo: "` + three + `"`)
		sent(35*time.Hour, "r")
		sent(25*time.Hour, "s")
		a.wantSiteMessages("a mark up to a message", "bob", 2, "2s3+r+4+5+q+p+6+")
		mark(`type: "general"`)
		sent(21*time.Hour, "t")
		sent(10*time.Hour, "1")
		a.wantSiteMessages("a mark of a type", "bob", 1, "12+t+s+3+r+4+5+q+p+6+")
		a.ingest(event{"sendSiteMessage": event{"title": "0", "to": []string{"user:bob"}}})
		w.RunAllJobs(w.Fanout)
		a.wantSiteMessages("what is sent now", "bob", 2, "012+t+s+3+r+4+5+q+p+6+")
	})
}

// A notification that is reported late is read if a later one was marked read, even by a mark made now, unless that mark was undone.
func TestALateNotificationIsReadIfALaterOneWasRead(t *testing.T) {
	fanouttest.EachEnginePair(t, nil, func(t *testing.T, w *fanouttest.World) {
		a := newAPIOn(t, w, 10, 5)
		const half = 12 * time.Hour // two follows of one half day are one notification
		follow := func(ago time.Duration, who, whom string) {
			t.Helper()
			a.mustIngestPastEvent(ago, event{"follow": event{"as": "user:" + who, "userId": "user:" + whom}})
		}
		list := func(of string) (count any, lines string, upTos []string) {
			t.Helper()
			got := a.must(of, `{ viewer { badges { notifications { follow { value } } } notifications { nodes { read upTo actors { key } } } } }`, nil)
			nodes, _ := got.valueAt("viewer", "notifications", "nodes").([]any)
			for i := range nodes {
				lines += fmt.Sprint(" ", got.valueAt("viewer", "notifications", "nodes", i, "actors", 0, "key"))
				if got.valueAt("viewer", "notifications", "nodes", i, "read") == true {
					lines += "+"
				}
				upTos = append(upTos, got.valueAt("viewer", "notifications", "nodes", i, "upTo").(string))
			}
			return got.valueAt("viewer", "badges", "notifications", "follow", "value"), lines, upTos
		}
		for i, mark := range []string{`markAllRead(input: {})`, `markNotificationsRead(input: {all: true})`,
			`markNotificationsRead(input: {categories: [FOLLOW]})`, `markNotificationsRead(input: {upTo: "$upTo"})`, `markAllRead(input: {upTo: "$upTo"})`} {
			whom := fmt.Sprint("reader", i)
			w.MakeNamedUsers(whom)
			follow(10*half, "bob", whom)
			_, _, upTos := list(whom)
			a.must(whom, "mutation { "+strings.ReplaceAll(mark, "$upTo", upTos[0])+" { badges { version } } }", nil)
			follow(12*half, "carol", whom)
			follow(8*half, "dave", whom)
			if count, lines, _ := list(whom); count != 1.0 || lines != " dave bob+ carol+" {
				t.Errorf("%s: %v of%s", mark, count, lines)
			}
		}
		do := func(mutation string) {
			t.Helper()
			a.must("alice", `mutation { `+mutation+` { badges { version } } }`, nil)
		}
		follow(11*half, "bob", "alice")
		do("markAllRead(input: {})")
		follow(8*half, "carol", "alice")
		do("markAllRead(input: {})")
		do("markAllRead(input: {})") // it changes nothing
		do("undoMarkAllRead(input: {})")
		follow(10*half, "dave", "alice")
		follow(13*half, "erin", "alice")
		if count, lines, _ := list("alice"); count != 2.0 || lines != " carol dave bob+ erin+" {
			t.Errorf("a mark that was undone covers nothing, the one before it does: %v of%s", count, lines)
		}
	})
}
