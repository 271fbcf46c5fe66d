package resolvers

import (
	"fmt"
	"testing"

	"tidings/services"
	"tidings/services/fanout/fanouttest"
	"tidings/services/sql/sqltest"
)

// runOnEachSQL runs a test on SQLite and on PostgreSQL.
func runOnEachSQL(t *testing.T, test func(t *testing.T, a *testAPI)) {
	for name, open := range map[string]func(testing.TB) string{"sqlite": sqltest.SQLite, "postgres": sqltest.Postgres} {
		t.Run(name, func(t *testing.T) { test(t, newAPIOn(t, fanouttest.New(t, fanouttest.Options{SQLURL: open(t)}), 3, 5)) })
	}
}

// setGroupPolicy sets the policy of a user: who may add the user to a conversation.
func (a *testAPI) setGroupPolicy(key, policy string) {
	a.t.Helper()
	got := a.must(key, `mutation($p: GroupPolicy!) { setGroupPolicy(input: {policy: $p}) { policy badges { version } } }`, map[string]any{"p": policy})
	if got.valueAt("setGroupPolicy", "policy") != policy {
		a.t.Fatalf("the policy is %+v, want %s", got, policy)
	}
}

// tryCreateConversation lets a user make a conversation with others. It returns the answer, which may be a refusal.
func (a *testAPI) tryCreateConversation(key, kind string, others ...string) apiAnswer {
	a.t.Helper()
	return a.askAs(key, `mutation($k: ConversationKind!, $m: [ID!]!) { createConversation(input: {kind: $k, memberIds: $m}) { conversation { id memberCount } } }`,
		map[string]any{"k": kind, "m": userIDs(others)})
}

// tryAddMembers lets a user add others to a conversation. It returns the answer, which may be a refusal.
func (a *testAPI) tryAddMembers(key, conversation string, others ...string) apiAnswer {
	a.t.Helper()
	return a.askAs(key, `mutation($c: ID!, $m: [ID!]!) { addMembers(input: {conversationId: $c, userIds: $m}) { conversation { memberCount } } }`,
		map[string]any{"c": conversation, "m": userIDs(others)})
}

// userIDs returns the IDs of users by their keys.
func userIDs(keys []string) []string {
	ids := []string{}
	for _, key := range keys {
		ids = append(ids, "user:"+key)
	}
	return ids
}

// countConversations counts the conversations that a user is a member of.
func (a *testAPI) countConversations(key string) int {
	a.t.Helper()
	edges, _ := a.must(key, `{ viewer { conversations(first: 100) { edges { cursor } } } }`, nil).valueAt("viewer", "conversations", "edges").([]any)
	return len(edges)
}

// wantNoSuchUserError checks that an answer refuses a user with the same error as for a user who does not exist. It also checks that
// the user is in as many conversations as before.
func (a *testAPI) wantNoSuchUserError(what string, got apiAnswer, argument, key string, before int) {
	a.t.Helper()
	want := fmt.Sprintf("%s: there is no user %q", argument, key)
	message := got.valueAt("ingest", "results", 0, "error", "message")
	code := got.valueAt("ingest", "results", 0, "error", "code")
	if len(got.Errors) > 0 {
		code, message = string(got.code()), got.Errors[0].Message
	}
	if code != string(services.NotFound) || message != want {
		a.t.Errorf("%s answers %v %v, want %q: %+v", what, code, message, want, got)
	}
	if after := a.countConversations(key); after != before {
		a.t.Errorf("%s: %s is in %d conversations, was in %d", what, key, after, before)
	}
}

// waysToAddBob are the ways in which a user, the adder, can put bob into a conversation.
var waysToAddBob = []struct {
	name, asked string                                   // asked is the argument that names bob
	direct      bool                                     // the conversation is DIRECT: no policy applies to it
	take        func(a *testAPI, adder string) apiAnswer // lets the adder try it
}{
	{"createConversation GROUP", "memberIds", false, func(a *testAPI, adder string) apiAnswer {
		return a.tryCreateConversation(adder, "GROUP", "other", "bob")
	}},
	{"createConversation ROOM", "memberIds", false, func(a *testAPI, adder string) apiAnswer { return a.tryCreateConversation(adder, "ROOM", "bob") }},
	{"createConversation DIRECT", "memberIds", true, func(a *testAPI, adder string) apiAnswer { return a.tryCreateConversation(adder, "DIRECT", "bob") }},
	{"addMembers GROUP", "userIds", false, func(a *testAPI, adder string) apiAnswer {
		return a.tryAddMembers(adder, a.createConversation("GROUP", adder, "other"), "bob", "third")
	}},
	{"addMembers ROOM", "userIds", false, func(a *testAPI, adder string) apiAnswer {
		return a.tryAddMembers(adder, a.createConversation("ROOM", adder), "bob")
	}},
	{"ingest createConversation", "memberIds", false, func(a *testAPI, adder string) apiAnswer {
		return a.ingest(event{"createConversation": event{"as": "user:" + adder, "kind": "GROUP", "memberIds": []string{"user:bob"}}})
	}},
	{"ingest addMembers", "userIds", false, func(a *testAPI, adder string) apiAnswer {
		return a.ingest(event{"addMembers": event{"as": "user:" + adder, "conversationId": a.createConversation("ROOM", adder), "userIds": []string{"user:bob"}}})
	}},
}

func TestGroupPolicyDecidesWhoAddsAUser(t *testing.T) {
	runOnEachSQL(t, func(t *testing.T, a *testAPI) {
		a.MakeNamedUsers("other", "third", "stranger", "followee", "bob")
		if got := a.must("bob", `{ viewer { groupPolicy } }`, nil); got.valueAt("viewer", "groupPolicy") != "EVERYONE" {
			t.Errorf("before any was set: %+v", got)
		}
		a.must("bob", `mutation { follow(input: {userId: "user:followee"}) { user { id } } }`, nil)
		for _, adder := range []string{"stranger", "followee"} { // each has the one DIRECT conversation with bob already
			a.createConversation("DIRECT", adder, "bob")
		}
		for _, policy := range []struct {
			name string
			lets []string // the adders who may add bob under the policy
		}{{"EVERYONE", []string{"stranger", "followee"}}, {"WHO_I_FOLLOW", []string{"followee"}}, {"NOBODY", nil}, {"EVERYONE", []string{"stranger", "followee"}}} {
			a.setGroupPolicy("bob", policy.name)
			for _, adder := range []string{"stranger", "followee"} {
				allowed := len(policy.lets) == 2 || len(policy.lets) == 1 && policy.lets[0] == adder
				for _, way := range waysToAddBob {
					what, before := fmt.Sprint(policy.name, ": ", way.name, " by a ", adder), a.countConversations("bob")
					got := way.take(a, adder)
					if !allowed && !way.direct {
						a.wantNoSuchUserError(what, got, way.asked, "bob", before)
						continue
					}
					added := before + 1
					if way.direct {
						added = before
					}
					if after := a.countConversations("bob"); len(got.Errors) > 0 || got.valueAt("ingest", "results", 0, "error") != nil || after != added {
						t.Errorf("%s: bob was in %d and is in %d: %+v", what, before, after, got)
					}
				}
			}
		}
	})
}

// The policy is checked when a user is added. It affects neither the conversations that the user is in already, nor what the user
// does.
func TestGroupPolicyAppliesOnlyToBeingAdded(t *testing.T) {
	runOnEachSQL(t, func(t *testing.T, a *testAPI) {
		a.MakeNamedUsers("alice", "bob", "carol")
		group, room := a.createConversation("GROUP", "alice", "bob"), a.createConversation("ROOM", "alice")
		a.setGroupPolicy("bob", "NOBODY")
		a.sendMessage("alice", group, "user:bob")
		a.wantUnreadMessageCounts("a member is mentioned by one who may not add them", "bob", "1+1")
		if got := a.tryAddMembers("alice", group, "bob", "carol"); len(got.Errors) > 0 || got.valueAt("addMembers", "conversation", "memberCount") != 3.0 {
			t.Errorf("a member who is named again: %+v", got)
		}
		a.must("bob", `mutation($c: ID!) { joinConversation(input: {conversationId: $c}) { conversation { id } } }`, map[string]any{"c": room})
		if got := a.tryCreateConversation("bob", "GROUP", "alice"); len(got.Errors) > 0 {
			t.Errorf("bob makes a group: %+v", got)
		}
		a.must("bob", `mutation($c: ID!) { quitConversation(input: {conversationId: $c}) { conversationId } }`, map[string]any{"c": group})
		a.wantNoSuchUserError("who has quit is added again", a.tryAddMembers("alice", group, "bob"), "userIds", "bob", 2)
	})
}

// Under the policy WHO_I_FOLLOW it counts whether the user follows the adder at the moment of the call. A block refuses the adder in
// any case.
func TestAnUnfollowedUserCannotAdd(t *testing.T) {
	runOnEachSQL(t, func(t *testing.T, a *testAPI) {
		a.MakeNamedUsers("alice", "bob")
		a.runUserMutation("bob", "follow", "user:alice")
		a.setGroupPolicy("bob", "WHO_I_FOLLOW")
		a.createConversation("GROUP", "alice", "bob")
		a.runUserMutation("alice", "follow", "user:bob")
		a.runUserMutation("bob", "unfollow", "user:alice")
		a.wantNoSuchUserError("only the adder follows", a.tryCreateConversation("alice", "GROUP", "bob"), "memberIds", "bob", 1)
		a.runUserMutation("bob", "follow", "user:alice")
		a.createConversation("GROUP", "alice", "bob")
		a.runUserMutation("bob", "block", "user:alice")
		a.wantNoSuchUserError("a block", a.tryCreateConversation("alice", "GROUP", "bob"), "memberIds", "bob", 2)
	})
}

func TestSetGroupPolicyRefusesUnknownPolicies(t *testing.T) {
	a := newAPI(t)
	for _, policy := range []any{"FRIENDS", "everyone", nil, 1} {
		got := a.askAs("bob", `mutation($p: GroupPolicy!) { setGroupPolicy(input: {policy: $p}) { policy } }`, map[string]any{"p": policy})
		if got.code() != services.Invalid {
			t.Errorf("%v: %+v", policy, got)
		}
	}
	if got := a.ask("", nil, `mutation { setGroupPolicy(input: {policy: NOBODY}) { policy } }`, nil); got.code() != services.Unauthenticated {
		t.Errorf("without a token: %+v", got)
	}
	if got := a.must("bob", `{ viewer { groupPolicy } }`, nil); got.valueAt("viewer", "groupPolicy") != "EVERYONE" {
		t.Errorf("after all of these: %+v", got)
	}
}
