package resolvers

import (
	"strings"
	"testing"
	"time"
)

const relationQuery = `query($id: ID!) { node(id: $id) { ... on User { viewerFollows followsViewer viewerMutes viewerBlocks viewerHides } } }`

// relation is the relation to a user, as a viewer sees it.
func (a *testAPI) relation(key, user string) string {
	a.t.Helper()
	got := a.must(key, relationQuery, map[string]any{"id": "user:" + user})
	var set []string
	for _, field := range []string{"viewerFollows", "followsViewer", "viewerMutes", "viewerBlocks", "viewerHides"} {
		switch got.valueAt("node", field) {
		case true:
			set = append(set, field)
		case false:
		default:
			a.t.Errorf("%s of %s: %s is %v", key, user, field, got.valueAt("node", field))
		}
	}
	return strings.Join(set, " ")
}

// Users see what they have set, and who follows them. They cannot see that another user mutes, blocks or hides from them: a
// user who blocks looks like a stranger.
func TestOnlyTheViewerSeesTheirOwnRelations(t *testing.T) {
	a := newAPI(t)
	a.MakeNamedUsers("stranger", "carol")
	want := func(when, key, user, relation string) {
		t.Helper()
		if got := a.relation(key, user); got != relation {
			t.Errorf("%s: %s is shown %s as %q, want %q", when, key, user, got, relation)
		}
	}
	want("at first", "alice", "bob", "")
	a.runUserMutation("alice", "follow", "user:bob")
	want("a follow", "alice", "bob", "viewerFollows")
	want("a follow", "bob", "alice", "followsViewer")
	want("a follow", "stranger", "bob", "")
	a.runUserMutation("alice", "mute", "user:bob")
	a.runUserMutation("alice", "hideFrom", "user:bob")
	want("a mute and a hide", "alice", "bob", "viewerFollows viewerMutes viewerHides")
	want("a mute and a hide", "bob", "alice", "followsViewer")
	a.runUserMutation("carol", "hideFrom", "user:alice")
	a.runUserMutation("carol", "mute", "user:alice")
	want("set by the other", "alice", "carol", "")
	a.runUserMutation("bob", "block", "user:alice")
	want("a block ends the follow", "bob", "alice", "viewerBlocks")
	want("a block ends the follow", "alice", "bob", "viewerMutes viewerHides")
	want("of oneself", "alice", "alice", "")
	a.runUserMutation("alice", "unmute", "user:bob")
	a.runUserMutation("alice", "unhideFrom", "user:bob")
	want("a blocker is as a stranger", "alice", "bob", "")

	until := a.Clock.Now().Add(time.Hour).UTC().Format(time.RFC3339)
	a.must("alice", `mutation($u: Time) { mute(input: {userId: "user:carol", until: $u}) { user { viewerMutes } } }`, map[string]any{"u": until})
	want("a mute for an hour", "alice", "carol", "viewerMutes")
	a.Clock.Advance(61 * time.Minute)
	want("after the hour", "alice", "carol", "")
	got := a.must("alice", `mutation { follow(input: {userId: "user:carol"}) { user { viewerFollows viewerMutes } } }`, nil)
	if got.valueAt("follow", "user", "viewerFollows") != true || got.valueAt("follow", "user", "viewerMutes") != false {
		t.Errorf("the payload of a follow: %+v", got.Data)
	}
}

// Without SQL the reminders are null, and the board beside them is answered.
func TestWithoutSQLRemindersAreNull(t *testing.T) {
	a := newAPI(t)
	a.runUserMutation("bob", "follow", "user:alice")
	show := a.scheduleShow("alice", time.Hour)
	a.RunAllJobs(a.Fanout)
	_, err := a.Caches.Changelog.RunOnce(t.Context())
	a.Must(err)
	const query = `{ viewer { liveBoard { edges { node { id title viewerHasReminder } } } } }`
	if got := a.must("bob", query, nil); got.valueAt("viewer", "liveBoard", "edges", 0, "node", "viewerHasReminder") != false {
		t.Errorf("with SQL: %+v", got.Data)
	}
	_ = a.World.DB.Close()
	got := a.askAs("bob", query, nil)
	if got.valueAt("viewer", "liveBoard", "edges", 0, "node", "id") != show || got.valueAt("viewer", "liveBoard", "edges", 0, "node", "viewerHasReminder") != nil || got.code() == "" {
		t.Errorf("without SQL: %+v", got)
	}
}

// Without SQL the relations are null, and the fields beside them are answered.
func TestWithoutSQLRelationsAreNull(t *testing.T) {
	a := newAPI(t)
	a.runUserMutation("alice", "follow", "user:bob")
	a.must("alice", `{ viewer { user { key } } }`, nil)
	_ = a.World.DB.Close()
	got := a.askAs("alice", `{ viewer { user { key viewerFollows } } }`, nil)
	if got.valueAt("viewer", "user", "key") != "alice" || got.valueAt("viewer", "user", "viewerFollows") != nil || got.code() == "" {
		t.Errorf("without SQL: %+v", got)
	}
}
