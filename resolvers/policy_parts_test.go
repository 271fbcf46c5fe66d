package resolvers

import (
	"fmt"
	"testing"

	"tidings/services"
)

// The counts of one conversation and of one view follow the viewer's display policy for their source: in a list, by ID, and in
// the payload of a mutation after the policy has changed.
func TestPartsOfACountFollowTheDisplayPolicy(t *testing.T) {
	a := newAPI(t)
	talk := a.createConversation("GROUP", "alice", "bob", "carol")
	a.sendMessage("alice", talk, "user:bob")
	a.must("bob", `mutation { touchView(input: {code: "news", key: "town"}) { view { id } } }`, nil)
	a.ingest(event{"addViewItem": event{"code": "news", "view": "town", "item": "a", "at": a.Clock.Now()}})
	a.RunAllJobs(a.Fanout)
	shown := func(got apiAnswer, path ...any) string {
		count := func(field string) string {
			return fmt.Sprintf("%v %q", got.valueAt(append(path, field, "inTotal")...), got.valueAt(append(path, field, "display")...))
		}
		if got.valueAt(append(path, "mentions")...) == nil {
			return count("unread")
		}
		return count("unread") + ", " + count("mentions")
	}
	const fields = `unread { inTotal display } mentions { inTotal display }`
	want := func(what, conversation, view string) {
		t.Helper()
		got := a.must("bob", `query($c: ID!) { viewer { conversations { nodes { `+fields+` } } views(codes: ["news"]) { nodes { unread { inTotal display } } } }
			c: node(id: $c) { ... on Conversation { `+fields+` } } v: node(id: "view:news/town") { ... on View { unread { inTotal display } } } }`, map[string]any{"c": talk})
		for _, one := range []struct {
			where string
			want  string
			path  []any
		}{
			{"in the list of conversations", conversation, []any{"viewer", "conversations", "nodes", 0}}, {"the conversation by its ID", conversation, []any{"c"}},
			{"in the list of views", view, []any{"viewer", "views", "nodes", 0}}, {"the view by its ID", view, []any{"v"}},
		} {
			if text := shown(got, one.path...); text != one.want {
				t.Errorf("%s: %s it is %s, want %s", what, one.where, text, one.want)
			}
		}
	}
	policy := func(sources string) {
		a.must("bob", `mutation { setDisplayPolicy(input: {`+sources+`}) { badges { version } } }`, nil)
	}
	want("by default", `true "1", false "1"`, `false "1"`)
	policy(`sources: [{source: CONVERSATIONS, inTotal: false}, {source: VIEWS, inTotal: true}]`)
	want("turned", `false "1", false "1"`, `true "1"`)
	policy(`sources: [{source: CONVERSATIONS, style: DOT}, {source: VIEWS, style: DOT}]`)
	want("as a dot", `false "•", false "•"`, `true "•"`)
	policy(`quietHours: {from: "12:00", to: "11:59"}`)
	want("in quiet hours", `false "", false ""`, `true ""`)
	policy(`quietHours: null, sources: [{source: CONVERSATIONS, style: NUMBER}, {source: VIEWS, inTotal: false, style: NUMBER}]`)
	want("turned back", `false "1", false "1"`, `false "1"`)
	got := a.must("bob", `mutation($c: ID!) {
		before: muteConversation(input: {conversationId: $c}) { conversation { `+fields+` } }
		setDisplayPolicy(input: {sources: [{source: CONVERSATIONS, inTotal: true}, {source: VIEWS, inTotal: true}]}) { badges { version } }
		after: muteConversation(input: {conversationId: $c}) { conversation { `+fields+` } }
		touchView(input: {code: "news", key: "town"}) { view { unread { inTotal display } } }
	}`, map[string]any{"c": talk})
	if before, after := shown(got, "before", "conversation"), shown(got, "after", "conversation"); before != `false "1", false "1"` || after != `false "1", true "1"` {
		t.Errorf("muted, before the policy of the same request it is %s, and after it %s", before, after)
	}
	if view := shown(got, "touchView", "view"); view != `true "0"` {
		t.Errorf("after the policy of the same request the view is %s", view)
	}
}

// Fields that a change of the policy leaves out stay; null sets them to their defaults.
func TestNullOfAPolicyClears(t *testing.T) {
	a := newAPI(t)
	for _, step := range []struct{ change, feed, views string }{
		{`sources: [{source: HOME_FEED, inTotal: false, style: DOT}, {source: VIEWS, inTotal: true, style: DOT}]`, "false DOT", "true DOT"},
		{`quietHours: null`, "false DOT", "true DOT"},
		{`sources: []`, "false DOT", "true DOT"},
		{`sources: [{source: HOME_FEED}, {source: VIEWS, inTotal: null}]`, "false DOT", "false DOT"},
		{`sources: [{source: HOME_FEED, style: null}]`, "false NUMBER", "false DOT"},
		{`sources: [{source: VIEWS, inTotal: true}]`, "false NUMBER", "true DOT"},
		{`sources: null`, "true NUMBER", "false NUMBER"},
	} {
		got := a.must("bob", `mutation { setDisplayPolicy(input: {`+step.change+`}) { policy { sources { source inTotal style } } } }`, nil)
		shown := map[services.Source]string{}
		for i, source := range services.Sources {
			path := []any{"setDisplayPolicy", "policy", "sources", i}
			if name := got.valueAt(append(path, "source")...); name != string(source) {
				t.Fatalf("source %d is %v", i, name)
			}
			shown[source] = fmt.Sprint(got.valueAt(append(path, "inTotal")...), " ", got.valueAt(append(path, "style")...))
		}
		if shown[services.SourceHomeFeed] != step.feed || shown[services.SourceViews] != step.views {
			t.Errorf("after %s: %v, want the feed %s and views %s", step.change, shown, step.feed, step.views)
		}
	}
}
