package resolvers

import (
	"fmt"
	"strings"
	"testing"

	"tidings/services"
	"tidings/services/feed"
	"tidings/services/importer"
	"tidings/services/live"
	"tidings/services/messages"
)

// importLines imports lines into the database, as the command tidings import does. what is the kind of the lines, such as "posts".
func (a *testAPI) importLines(what, lines string) importer.Report {
	a.t.Helper()
	a.t.Chdir(a.t.TempDir()) // the folder for bad lines
	options := importer.Options{File: "-", Input: strings.NewReader(lines), Quiet: true, Clock: a.Clock}
	var report importer.Report
	var err error
	switch what {
	case "posts":
		report, err = feed.ImportFile(a.t.Context(), a.DB, a.IDs, []services.PostKind{services.PostKindPost}, options)
	case "shows":
		report, err = live.ImportFile(a.t.Context(), a.DB, a.IDs, options)
	case "messages":
		report, err = messages.ImportFile(a.t.Context(), a.DB, a.IDs, []string{services.DefaultMessageType}, options)
	}
	if err != nil || report.BadLines > 0 {
		a.t.Fatalf("%s: %+v, %v", lines, report, err)
	}
	a.RunAllJobs(a.Fanout)
	return report
}

// importedObject is a line of an import, and the same object as ingest creates it.
type importedObject struct {
	lineKind, objectType, line string // the kind of lines, such as "posts"; the type of the object; the line
	createEvent                event  // nil: ingest cannot create it
	changeEvent                event  // a change of the object by ref; KEY stands for the key
	nodeSelection              string // a field of the node that shows the change
	wantAfterChange            any    // the value of that field after the change
}

// importedObjects returns lines of all kinds that have refs; KEY stands for the key.
func (a *testAPI) importedObjects() []importedObject {
	started := a.Clock.Now().Add(-3600e9).UTC().Format("2006-01-02T15:04:05Z")
	return []importedObject{
		{"posts", services.PostType, `{"key":"KEY","author":"alice","at":"` + started + `","body":"first"}`,
			event{"publishPost": event{"as": "user:alice", "body": "first", "ref": "KEY"}},
			event{"editPost": event{"as": "user:alice", "postId": "post:ref:KEY", "body": "edited"}}, "... on Post { body }", "edited"},
		{"posts", services.PostType, `{"key":"KEY","author":"alice","at":"` + started + `","body":"first"}`,
			event{"publishPost": event{"as": "user:alice", "body": "first", "ref": "KEY"}},
			event{"deletePost": event{"as": "user:alice", "postId": "post:ref:KEY"}}, "... on Post { body }", nil},
		{"shows", services.ShowType, `{"key":"KEY","host":"alice","title":"t","plannedAt":"` + started + `","startedAt":"` + started + `"}`,
			event{"scheduleShow": event{"as": "user:alice", "title": "t", "plannedAt": a.Clock.Now().Add(3600e9), "ref": "KEY"}},
			event{"rescheduleShow": event{"as": "user:alice", "showId": "show:ref:KEY", "title": "edited"}}, "... on Show { title }", "edited"},
		{"shows", services.ShowType, `{"key":"KEY","host":"alice","title":"t","plannedAt":"` + started + `","startedAt":"` + started + `"}`, nil,
			event{"endShow": event{"as": "user:alice", "showId": "show:ref:KEY"}}, "... on Show { status }", "REPLAY"},
		{"messages", services.SiteMessageType, `{"key":"KEY","title":"first","to":["bob"]}`,
			event{"sendSiteMessage": event{"title": "first", "to": []string{"user:bob"}, "ref": "KEY"}},
			event{"editSiteMessage": event{"siteMessageId": "siteMessage:ref:KEY", "title": "edited"}}, "... on SiteMessage { title }", "edited"},
	}
}

// The key of an import is the ref of its object: an edit by ref changes the object, and an ingest with the ref finds it. The
// same import again changes nothing.
func TestKeysOfImportsAreRefs(t *testing.T) {
	a := newAPI(t)
	for i, o := range a.importedObjects() {
		key := fmt.Sprint(o.lineKind, "-", i) // so that no character needs an escape
		line := strings.ReplaceAll(o.line, "KEY", key)
		if report := a.importLines(o.lineKind, line); report.NewItems != 1 {
			t.Fatalf("%s: %+v", line, report)
		}
		node := func() (id, shown any) {
			got := a.must("bob", `{ node(id: "`+o.objectType+`:ref:`+key+`") { id `+o.nodeSelection+` } }`, nil)
			object, _ := got.valueAt("node").(map[string]any)
			id = object["id"]
			delete(object, "id")
			for _, shown = range object {
			}
			return id, shown
		}
		id, before := node()
		if id == nil || before == o.wantAfterChange {
			t.Fatalf("%s is %v, %v", line, id, before)
		}
		events := []event{withKeyReplaced(o.changeEvent, key)}
		if o.createEvent != nil {
			events = []event{withKeyReplaced(o.createEvent, key), withKeyReplaced(o.changeEvent, key)}
		}
		got := a.ingest(events...)
		last := len(events) - 1
		if len(got.Errors) > 0 || got.valueAt("ingest", "results", last, "error") != nil || got.valueAt("ingest", "results", last, "changed") != true {
			t.Fatalf("%v after %s: %+v %+v", events, line, got.Data, got.Errors)
		}
		if o.createEvent != nil && (got.valueAt("ingest", "results", 0, "changed") != false || nodeIDOfPayloadID(o.objectType, fmt.Sprint(got.valueAt("ingest", "results", 0, "id"))) != id) {
			t.Errorf("ingest of %s, which is %v: %v", line, id, got.valueAt("ingest", "results", 0))
		}
		a.RunAllJobs(a.Fanout)
		if _, after := node(); after != o.wantAfterChange {
			t.Errorf("%s after %v: %v, want %v", line, o.changeEvent, after, o.wantAfterChange)
		}
		if o.lineKind == "messages" {
			line = strings.Replace(line, `"title":"first",`, "", 1) // the text has changed since
		}
		if report := a.importLines(o.lineKind, line); report.NewItems != 0 || report.GoodRows != 1 {
			t.Errorf("%s again: %+v", line, report)
		}
		if _, after := node(); after != o.wantAfterChange {
			t.Errorf("%s after a repeated import: %v, want %v", line, after, o.wantAfterChange)
		}
	}
}

// A line whose key is the ref of an object from ingest finds that object, if it has the same type.
func TestAnImportFindsObjectsOfIngestByRef(t *testing.T) {
	a := newAPI(t)
	for i, o := range a.importedObjects() {
		if o.createEvent == nil {
			continue
		}
		// An announcement and objects of the other types have the same ref. The line is not taken for one of them.
		key := fmt.Sprint(o.lineKind, "-", i)
		others := []event{{"publishAnnouncement": event{"title": "t", "ref": key}}}
		for _, other := range a.importedObjects() {
			if other.createEvent != nil && other.objectType != o.objectType {
				others = append(others, withKeyReplaced(other.createEvent, key))
			}
		}
		for _, e := range others {
			if got := a.ingest(e); got.valueAt("ingest", "results", 0, "id") == nil {
				t.Fatalf("%v: %+v %+v", e, got.Data, got.Errors)
			}
		}
		created := a.ingest(withKeyReplaced(o.createEvent, key))
		if created.valueAt("ingest", "results", 0, "changed") != true {
			t.Fatalf("%s: %+v %+v", key, created.Data, created.Errors)
		}
		line := strings.ReplaceAll(o.line, "KEY", key)
		if report := a.importLines(o.lineKind, line); report.NewItems != 0 || report.GoodRows != 1 {
			t.Errorf("%s: %+v", line, report)
		}
		if fresh := strings.ReplaceAll(o.line, "KEY", key+"x"); a.importLines(o.lineKind, fresh).NewItems != 1 {
			t.Errorf("%s is not new", fresh)
		}
	}
	a.ingest(event{"publishPost": event{"as": "user:alice", "body": "b", "ref": "parent/1"}})
	at := a.Clock.Now().Add(-1e9).UTC().Format("2006-01-02T15:04:05Z")
	a.importLines("posts", `{"key":"answer","author":"bob","at":"`+at+`","body":"so","parent":"parent/1"}`)
	if got := a.must("carol", `{ node(id: "post:ref:answer") { ... on Post { kind parent { ref } } } }`, nil); got.valueAt("node", "kind") != "COMMENT" || got.valueAt("node", "parent", "ref") != "parent/1" {
		t.Errorf("%+v", got.Data)
	}
}

// withKeyReplaced returns an event with a key in place of KEY.
func withKeyReplaced(e event, key string) event {
	made := event{}
	for name, input := range e {
		fields := event{}
		for field, value := range input.(event) {
			if text, is := value.(string); is {
				value = strings.ReplaceAll(text, "KEY", key)
			}
			fields[field] = value
		}
		made[name] = fields
	}
	return made
}
