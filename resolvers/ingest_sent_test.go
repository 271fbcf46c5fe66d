package resolvers

import (
	"fmt"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/fanout/fanouttest"
)

// siteMessageEvent returns an event that sends a site message to users. The ref is also its title.
func siteMessageEvent(ref string, to ...string) event {
	users := make([]string, len(to))
	for i, key := range to {
		users[i] = "user:" + key
	}
	return event{"sendSiteMessage": event{"title": ref, "to": users, "ref": ref}}
}

// markSiteMessagesEvent returns an event in which a user marks site messages. name is the mutation.
func markSiteMessagesEvent(name, as string, input event) event {
	input["as"] = "user:" + as
	return event{name: input}
}

// siteMessageIDsByRef returns IDs by ref of site messages.
func siteMessageIDsByRef(refs ...string) []string {
	ids := make([]string, len(refs))
	for i, ref := range refs {
		ids[i] = "siteMessage:ref:" + ref
	}
	return ids
}

// ingestErrorCodes sends events and returns the code of each event's error; nil for an event without an error.
func (a *testAPI) ingestErrorCodes(events ...event) (codes []any) {
	a.t.Helper()
	got := a.ingest(events...)
	if len(got.Errors) > 0 {
		a.t.Fatal(got.Errors)
	}
	for i := range events {
		codes = append(codes, got.valueAt("ingest", "results", i, "error", "code"))
	}
	return codes
}

// siteMessagesOf returns a user's count of site messages, and the titles in their list, the newest first. A title is followed by +
// if the message is read.
func (a *testAPI) siteMessagesOf(key string) (unread any, list string) {
	a.t.Helper()
	got := a.must(key, `{ viewer { badges { siteMessages { total { value } } } siteMessages { nodes { title readAt } } } }`, nil)
	nodes, _ := got.valueAt("viewer", "siteMessages", "nodes").([]any)
	for i := range nodes {
		list += fmt.Sprint(got.valueAt("viewer", "siteMessages", "nodes", i, "title"))
		if got.valueAt("viewer", "siteMessages", "nodes", i, "readAt") != nil {
			list += "+"
		}
	}
	return got.valueAt("viewer", "badges", "siteMessages", "total", "value"), list
}

// wantSiteMessages fails the test if what siteMessagesOf returns is not the wanted count and list.
func (a *testAPI) wantSiteMessages(what, key string, unread float64, list string) {
	a.t.Helper()
	if count, has := a.siteMessagesOf(key); count != unread || has != list {
		a.t.Errorf("%s: %s has %v unread of %q, want %v of %q", what, key, count, has, unread, list)
	}
}

// A message can be marked in the request that sends it, before the jobs that deliver it have run. It then never counts. Other users
// cannot mark it, and get the same error as for a message that does not exist.
func TestAMessageIsMarkedBeforeItIsDelivered(t *testing.T) {
	fanouttest.EachEnginePair(t, nil, func(t *testing.T, w *fanouttest.World) {
		a := newAPIOn(t, w, 3, 5)
		read, unread := "markSiteMessagesRead", "markSiteMessagesUnread"
		got := a.ingestErrorCodes(
			siteMessageEvent("a", "alice", "bob"), siteMessageEvent("b", "alice", "bob"),
			markSiteMessagesEvent(read, "alice", event{"ids": siteMessageIDsByRef("b")}),
			markSiteMessagesEvent(read, "carol", event{"ids": siteMessageIDsByRef("b")}),
			markSiteMessagesEvent(read, "carol", event{"upTo": siteMessageIDsByRef("b")[0]}),
			markSiteMessagesEvent(unread, "carol", event{"ids": siteMessageIDsByRef("b")}),
			markSiteMessagesEvent(read, "carol", event{"ids": []string{"siteMessage:7ZZZZZZZZZZZZ"}}),
			siteMessageEvent("c", "alice", "carol"),
			markSiteMessagesEvent(read, "alice", event{"ids": siteMessageIDsByRef("b", "c")}),
			markSiteMessagesEvent(unread, "alice", event{"ids": siteMessageIDsByRef("c")}),
			markSiteMessagesEvent(read, "carol", event{"ids": siteMessageIDsByRef("c", "b")}),
		)
		missing := string(services.NotFound)
		want := []any{nil, nil, nil, missing, missing, missing, missing, nil, nil, nil, missing}
		if fmt.Sprint(got) != fmt.Sprint(want) {
			t.Fatalf("the events answer %v, want %v", got, want)
		}
		a.wantSiteMessages("before the jobs", "alice", 1, "cb+")
		a.wantSiteMessages("before the jobs", "bob", 0, "")
		a.wantSiteMessages("before the jobs", "carol", 0, "")
		w.RunAllJobs(w.Fanout)
		a.wantSiteMessages("delivered", "alice", 2, "cb+a")
		a.wantSiteMessages("delivered", "bob", 2, "ba")
		a.wantSiteMessages("delivered", "carol", 1, "c")
		got = a.ingestErrorCodes(markSiteMessagesEvent(read, "carol", event{"ids": siteMessageIDsByRef("b")}), markSiteMessagesEvent(read, "carol", event{"ids": siteMessageIDsByRef("c")}))
		if fmt.Sprint(got) != fmt.Sprint([]any{missing, nil}) {
			t.Errorf("after the jobs the events answer %v", got)
		}
		a.wantSiteMessages("marked", "carol", 0, "c+")
	})
}

// A mark up to a message that is not delivered yet covers the messages sent before it, delivered or not.
func TestAMarkUpToAnUndeliveredMessageReadsIt(t *testing.T) {
	fanouttest.EachEnginePair(t, nil, func(t *testing.T, w *fanouttest.World) {
		a := newAPIOn(t, w, 3, 5)
		a.ingestErrorCodes(siteMessageEvent("a", "alice"))
		w.RunAllJobs(w.Fanout)
		w.Clock.Advance(time.Second)
		got := a.ingestErrorCodes(siteMessageEvent("b", "bob"), siteMessageEvent("c", "alice", "bob"), siteMessageEvent("d", "alice"), siteMessageEvent("e", "alice"), siteMessageEvent("f", "bob"),
			markSiteMessagesEvent("markSiteMessagesRead", "alice", event{"upTo": siteMessageIDsByRef("d")[0]}))
		if fmt.Sprint(got) != fmt.Sprint(make([]any, 6)) {
			t.Fatalf("the events answer %v", got)
		}
		a.wantSiteMessages("before the jobs", "alice", 0, "d+c+a+")
		w.RunAllJobs(w.Fanout)
		a.wantSiteMessages("delivered", "alice", 1, "ed+c+a+")
		a.wantSiteMessages("delivered", "bob", 3, "fcb")
	})
}
