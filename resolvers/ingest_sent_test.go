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

// markEvent returns an event in which a user marks site messages. name is the mutation.
func markEvent(name, as string, input event) event {
	input["as"] = "user:" + as
	return event{name: input}
}

// siteMessageRefs returns IDs by ref of site messages.
func siteMessageRefs(refs ...string) []string {
	ids := make([]string, len(refs))
	for i, ref := range refs {
		ids[i] = "siteMessage:ref:" + ref
	}
	return ids
}

// ingestCodes sends events and returns the code of each event's error; nil for an event without an error.
func (a *api) ingestCodes(events ...event) (codes []any) {
	a.t.Helper()
	got := a.ingest(events...)
	if len(got.Errors) > 0 {
		a.t.Fatal(got.Errors)
	}
	for i := range events {
		codes = append(codes, got.at("ingest", "results", i, "error", "code"))
	}
	return codes
}

// siteMessagesOf returns a user's count of site messages, and the titles in their list, the newest first. A title is followed by + if the
// message is read.
func (a *api) siteMessagesOf(key string) (unread any, list string) {
	a.t.Helper()
	got := a.must(key, `{ viewer { badges { siteMessages { total { value } } } siteMessages { nodes { title readAt } } } }`, nil)
	nodes, _ := got.at("viewer", "siteMessages", "nodes").([]any)
	for i := range nodes {
		list += fmt.Sprint(got.at("viewer", "siteMessages", "nodes", i, "title"))
		if got.at("viewer", "siteMessages", "nodes", i, "readAt") != nil {
			list += "+"
		}
	}
	return got.at("viewer", "badges", "siteMessages", "total", "value"), list
}

// wantSiteMessages fails the test if what siteMessagesOf returns is not the wanted count and list.
func (a *api) wantSiteMessages(what, key string, unread float64, list string) {
	a.t.Helper()
	if count, has := a.siteMessagesOf(key); count != unread || has != list {
		a.t.Errorf("%s: %s has %v unread of %q, want %v of %q", what, key, count, has, unread, list)
	}
}

// A message can be marked in the request that sends it, before the jobs that deliver it have run. It then never counts. Other users
// cannot mark it, and get the same error as for a message that does not exist.
func TestAMessageIsMarkedBeforeItIsDelivered(t *testing.T) {
	fanouttest.Each(t, nil, func(t *testing.T, w *fanouttest.World) {
		a := newAPIOn(t, w, 3, 5)
		read, unread := "markSiteMessagesRead", "markSiteMessagesUnread"
		got := a.ingestCodes(
			siteMessageEvent("a", "alice", "bob"), siteMessageEvent("b", "alice", "bob"),
			markEvent(read, "alice", event{"ids": siteMessageRefs("b")}),
			markEvent(read, "carol", event{"ids": siteMessageRefs("b")}),
			markEvent(read, "carol", event{"upTo": siteMessageRefs("b")[0]}),
			markEvent(unread, "carol", event{"ids": siteMessageRefs("b")}),
			markEvent(read, "carol", event{"ids": []string{"siteMessage:7ZZZZZZZZZZZZ"}}),
			siteMessageEvent("c", "alice", "carol"),
			markEvent(read, "alice", event{"ids": siteMessageRefs("b", "c")}),
			markEvent(unread, "alice", event{"ids": siteMessageRefs("c")}),
			markEvent(read, "carol", event{"ids": siteMessageRefs("c", "b")}),
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
		got = a.ingestCodes(markEvent(read, "carol", event{"ids": siteMessageRefs("b")}), markEvent(read, "carol", event{"ids": siteMessageRefs("c")}))
		if fmt.Sprint(got) != fmt.Sprint([]any{missing, nil}) {
			t.Errorf("after the jobs the events answer %v", got)
		}
		a.wantSiteMessages("marked", "carol", 0, "c+")
	})
}

// A mark up to a message that is not delivered yet covers the messages sent before it, delivered or not.
func TestAMarkUpToAMessageBeforeItIsDelivered(t *testing.T) {
	fanouttest.Each(t, nil, func(t *testing.T, w *fanouttest.World) {
		a := newAPIOn(t, w, 3, 5)
		a.ingestCodes(siteMessageEvent("a", "alice"))
		w.RunAllJobs(w.Fanout)
		w.Clock.Advance(time.Second)
		got := a.ingestCodes(siteMessageEvent("b", "bob"), siteMessageEvent("c", "alice", "bob"), siteMessageEvent("d", "alice"), siteMessageEvent("e", "alice"), siteMessageEvent("f", "bob"),
			markEvent("markSiteMessagesRead", "alice", event{"upTo": siteMessageRefs("d")[0]}))
		if fmt.Sprint(got) != fmt.Sprint(make([]any, 6)) {
			t.Fatalf("the events answer %v", got)
		}
		a.wantSiteMessages("before the jobs", "alice", 0, "d+c+a+")
		w.RunAllJobs(w.Fanout)
		a.wantSiteMessages("delivered", "alice", 1, "ed+c+a+")
		a.wantSiteMessages("delivered", "bob", 3, "fcb")
	})
}
