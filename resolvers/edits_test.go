package resolvers

import (
	"fmt"
	"testing"
	"time"

	"tidings/services"
)

// fieldEdit describes three edits of one field: one sets it, one does not name it, and one clears it with null.
type fieldEdit struct {
	mutation, inputType         string     // the name of the mutation, and the type of its input
	isSentByHost                bool       // whether the host application sends it, and not the user alice
	objectIDFields              event      // the fields that identify the edited object
	field                       string     // the name of the field
	value                       any        // the value to set
	editOfOtherFields           event      // another edit, which does not name the field
	payloadSelection            string     // the selection of the mutation's payload
	answerPath                  []any      // the path of the field in the payload
	wantAfterSet, wantAfterNull any        // the field after the edit that sets it, and after null
	readFieldElsewhere          func() any // reads the field, if the answer does not show it
}

// A field that an edit does not name stays, and null clears it, in a mutation and in an event. A field that cannot be cleared
// refuses null.
func TestAnEditKeepsAbsentFieldsAndNullClears(t *testing.T) {
	a := newAPI(t)
	show, ended := a.scheduleShow("alice", time.Hour), a.scheduleShow("alice", time.Hour)
	scopes := []services.Scope{services.ScopeIngest}
	made := a.ask("", scopes, `mutation { publishAnnouncement(input: {title: "t"}) { announcement { id } } sendSiteMessage(input: {title: "t", content: "c", to: ["user:bob"]}) { message { id: siteMessageId } } }`, nil)
	announcement, message := made.valueAt("publishAnnouncement", "announcement", "id"), made.valueAt("sendSiteMessage", "message", "id")
	a.RunAllJobs(a.Fanout)
	at := timeText(a.Clock.Now().Add(time.Hour))
	post := a.must("alice", `mutation { publishPost(input: {body: "b"}) { post { id } } }`, nil).valueAt("publishPost", "post", "id")
	a.must("dora", `{ viewer { id } }`, nil)
	for _, e := range []fieldEdit{
		{"setProfile", "SetProfileInput", false, nil, "name", "Alice", event{"avatarUrl": "https://example.com/a"}, "user { name }", []any{"user", "name"}, "Alice", nil, nil},
		{"setProfile", "SetProfileInput", false, nil, "avatarUrl", "https://example.com/b", event{"name": "A"}, "user { avatarUrl }", []any{"user", "avatarUrl"}, "https://example.com/b", nil, nil},
		{"rescheduleShow", "RescheduleShowInput", false, event{"showId": show}, "coverUrl", "https://example.com/c", event{"title": "u"}, "show { coverUrl }", []any{"show", "coverUrl"}, "https://example.com/c", nil, nil},
		{"setReplay", "SetReplayInput", false, event{"showId": ended}, "replayUrl", "https://example.com/r", nil, "show { replayUrl }", []any{"show", "replayUrl"}, "https://example.com/r", nil, nil},
		{"editSiteMessage", "EditSiteMessageInput", true, event{"siteMessageId": message}, "content", "d", event{"title": "u"}, "message { content }", []any{"message", "content"}, "d", "", nil},
		{"editAnnouncement", "EditAnnouncementInput", true, event{"announcementId": announcement}, "content", "d", event{"title": "u"}, "announcement { content }", []any{"announcement", "content"}, "d", "", nil},
		{"editAnnouncement", "EditAnnouncementInput", true, event{"announcementId": announcement}, "endsAt", at, event{"title": "v"}, "announcement { endsAt }", []any{"announcement", "endsAt"}, at, nil, nil},
		{"setCategoryPreference", "SetCategoryPreferenceInput", false, event{"category": "LIKE"}, "mode", "DOT", event{"push": false}, "preference { mode }", []any{"preference", "mode"}, "DOT", "COUNT", nil},
		{"setCategoryPreference", "SetCategoryPreferenceInput", false, event{"category": "LIKE"}, "push", false, event{"mode": "OFF"}, "preference { push }", []any{"preference", "push"}, false, true, nil},
		{"setDisplayPolicy", "SetDisplayPolicyInput", false, nil, "quietHours", event{"from": "22:00", "to": "07:00"}, event{"sources": []event{}}, "policy { quietHours { from } }", []any{"policy", "quietHours", "from"}, "22:00", nil, nil},
		{"editPost", "EditPostInput", false, event{"postId": post, "body": "b"}, "mentions", []string{"user:dora"}, event{"body": "c"}, "post { id }", nil, 1.0, 0.0, func() any {
			a.RunAllJobs(a.Fanout)
			return a.must("dora", `{ viewer { badges { notifications { mention { value } } } } }`, nil).valueAt("viewer", "badges", "notifications", "mention", "value")
		}},
	} {
		t.Run(e.mutation+" "+e.field, func(t *testing.T) { a.checkFieldEdit(t, e) })
	}
	for name, field := range map[string]event{
		"rescheduleShow": {"showId": show, "title": nil}, "editSiteMessage": {"siteMessageId": message, "title": nil},
		"editAnnouncement": {"announcementId": announcement, "startsAt": nil}, "setReplay": {"showId": ended},
	} {
		if name == "rescheduleShow" || name == "setReplay" {
			field["as"] = "user:alice"
		}
		if got := a.ingest(event{name: field}); got.valueAt("ingest", "results", 0, "error", "code") != "INVALID" {
			t.Errorf("%s with %v: %+v", name, field, got)
		}
	}
}

// checkFieldEdit makes the three edits of e, each as a mutation, and compares what the field is after each. Then it checks the
// field in events.
func (a *testAPI) checkFieldEdit(t *testing.T, e fieldEdit) {
	ask := func(more event) apiAnswer {
		input := event{}
		for _, fields := range []event{e.objectIDFields, more} {
			for name, value := range fields {
				input[name] = value
			}
		}
		query := fmt.Sprintf(`mutation($i: %s!) { %s(input: $i) { %s } }`, e.inputType, e.mutation, e.payloadSelection)
		if e.isSentByHost {
			return a.ask("", []services.Scope{services.ScopeIngest}, query, map[string]any{"i": input})
		}
		return a.askAs("alice", query, map[string]any{"i": input})
	}
	steps := []struct {
		more event // the fields of the input beside those that identify the object
		want any   // the field after the edit
	}{{event{e.field: e.value}, e.wantAfterSet}, {e.editOfOtherFields, e.wantAfterSet}, {event{e.field: nil}, e.wantAfterNull}}
	for _, step := range steps {
		a.Clock.Advance(time.Second)
		if step.more == nil {
			continue
		}
		got := ask(step.more)
		if len(got.Errors) > 0 {
			t.Fatalf("%v: %+v", step.more, got)
		}
		shown := got.valueAt(append([]any{e.mutation}, e.answerPath...)...)
		if e.readFieldElsewhere != nil {
			shown = e.readFieldElsewhere()
		}
		if shown != step.want {
			t.Errorf("%v: %v in %+v, want %v", step.more, shown, got, step.want)
		}
	}
	// Under one idempotency key, null is not the same as a missing field: it makes another request, which is a CONFLICT.
	if e.editOfOtherFields != nil {
		changes := event{"key": e.mutation + " " + e.field}
		if !e.isSentByHost {
			changes["as"] = "user:alice"
		}
		for _, fields := range []event{e.objectIDFields, e.editOfOtherFields} {
			for name, value := range fields {
				changes[name] = value
			}
		}
		if got := a.ingest(event{e.mutation: changes}); got.valueAt("ingest", "results", 0, "error") != nil {
			t.Errorf("as an event: %+v", got)
		}
		changes[e.field] = nil
		if got := a.ingest(event{e.mutation: changes}); got.valueAt("ingest", "results", 0, "error", "code") != "CONFLICT" {
			t.Errorf("null under the key of a request without the field: %+v", got)
		}
	}
}
