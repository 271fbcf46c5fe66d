package contract

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tidings/services/sql/sqltest"
	"tidings/tests/world"
	"tidings/web"
)

// In every argument that takes a user, an unknown user is NOT_FOUND and is not created. The arguments are found
// by introspection.
func TestViewersCreateNoUsers(t *testing.T) {
	s := startHiddenItemsNode(t, sqltest.SQLite(t))
	s.createOwnObjects("sam")
	named := 0
	for i, w := range s.testedIDArguments() {
		if w.fieldPath[0].Name == "ingest" {
			continue
		}
		ghost := fmt.Sprint("ghost", i)
		_, raw := s.sendID(t, w, "sam", "user:"+ghost)
		if s.UserExists(ghost) {
			t.Errorf("%s makes a user: %s", w.name(), raw)
		}
		if strings.Contains(raw, "NOT_FOUND") {
			if named++; !strings.Contains(raw, `there is no user \"`+ghost) {
				t.Errorf("%s: %s", w.name(), raw)
			}
		}
	}
	if named < 12 {
		t.Errorf("%d arguments name users", named)
	}
	if got := s.Ask("boss:admin", `mutation{setSegments(input:{userId:"user:ghost",segments:["vip"]}){user{key}}}`, nil); got.ErrorCode() != "NOT_FOUND" || s.UserExists("ghost") {
		t.Errorf("an operator who is not the host: %+v", got)
	}
	if got := s.Ask("boss:admin", `mutation{sendSiteMessage(input:{to:["user:sam","user:ghost"],title:"hello"}){message{id}}}`, nil); got.ErrorCode() != "NOT_FOUND" || s.UserExists("ghost") {
		t.Errorf("a message to nobody: %+v", got)
	}
}

// The host application creates users by naming them, a token creates its own user, and in development mode the users of the tour
// exist from the start.
func TestTheHostCreatesUsers(t *testing.T) {
	n := world.StartNode(t, world.NodeOptions{Database: sqltest.SQLite(t), Redis: "embedded", ManualStepping: true})
	for _, key := range web.People {
		if !n.UserExists(key) {
			t.Errorf("the tour's %s is not there", key)
		}
	}
	events := []any{
		ingestEvent("follow", "as", "user:one", "userId", "user:two"),
		ingestEvent("publishPost", "as", "user:one", "body", "b", "mentions", []string{"user:three"}),
		ingestEvent("createConversation", "as", "user:one", "kind", "GROUP", "memberIds", []string{"user:four"}),
		ingestEvent("setSegments", "userId", "user:five", "segments", []string{"vip"}),
		ingestEvent("sendSiteMessage", "to", []string{"user:six"}, "title", "hello"),
	}
	var data struct {
		Ingest struct{ Results []struct{ Error any } }
	}
	n.MustAsk("host:ingest", `mutation($e:[IngestEvent!]!){ingest(events:$e){results{error{message}}}}`, map[string]any{"e": events}, &data)
	if slices.ContainsFunc(data.Ingest.Results, func(r struct{ Error any }) bool { return r.Error != nil }) {
		t.Fatalf("%+v", data)
	}
	n.MustAsk("host:ingest", `mutation{setSegments(input:{userId:"user:seven",segments:["vip"]}){user{key}}}`, nil, nil)
	n.MustAsk("eight", `{viewer{user{key}}}`, nil, nil)
	for _, key := range strings.Fields("one two three four five six seven eight") {
		if !n.UserExists(key) {
			t.Errorf("there is no %s", key)
		}
	}
}

// For every argument, the ID of a user who blocks the viewer gets the answer for a missing user or the answer for any other
// user. A viewer cannot create a conversation with a user who blocks them or is blocked by them.
func TestABlockIsIndistinguishable(t *testing.T) {
	s := startHiddenItemsNode(t, sqltest.SQLite(t))
	block := `mutation($v:ID!){block(input:{userId:$v}){user{id}}}`
	s.wantUsersLookMissingOrOrdinary(t, func(blocker string) { s.MustAsk(blocker, block, map[string]any{"v": "user:sam"}, nil) })
	for _, first := range []string{"sam", "blair"} {
		as, id := first, map[string]string{"sam": "blair", "blair": "sam"}[first]
		if first == "sam" {
			s.MustAsk("blair", block, map[string]any{"v": "user:sam"}, nil)
		}
		for _, kind := range []string{"DIRECT", "GROUP", "ROOM"} {
			got := s.Ask(as, `mutation($k:ConversationKind!,$v:ID!){createConversation(input:{kind:$k,memberIds:[$v]}){conversation{id}}}`, map[string]any{"k": kind, "v": "user:" + id})
			wantedError{"NOT_FOUND", []string{`memberIds: there is no user "` + id + `"`}}.checkAnswer(t, got)
		}
	}
}

// The ID of a user who lets nobody, or only users they follow, add them to groups also gets one of these two answers: for a
// missing user or for any other user.
func TestAGroupPolicyIsIndistinguishable(t *testing.T) {
	for _, policy := range []string{"NOBODY", "WHO_I_FOLLOW"} {
		s := startHiddenItemsNode(t, sqltest.SQLite(t))
		refusing := s.wantUsersLookMissingOrOrdinary(t, func(user string) {
			s.MustAsk(user, `mutation($v:GroupPolicy!){setGroupPolicy(input:{policy:$v}){policy}}`, map[string]any{"v": policy}, nil)
		})
		slices.Sort(refusing)
		want := []string{"Mutation.addMembers.input.userIds", "Mutation.createConversation.input.memberIds",
			"Mutation.ingest.events.do.addMembers.userIds", "Mutation.ingest.events.do.createConversation.memberIds"}
		if diff := cmp.Diff(want, refusing); diff != "" {
			t.Errorf("%s is refused by other arguments:\n%s", policy, diff)
		}
	}
}

// wantUsersLookMissingOrOrdinary sends, as sam, users that prepare has prepared, in every argument. Each answer must be the answer
// for a missing user or the answer for any other user. refusing are the arguments with the answer for a missing user.
func (s *hiddenItemsNode) wantUsersLookMissingOrOrdinary(t *testing.T, prepare func(user string)) (refusing []string) {
	t.Helper()
	s.createOwnObjects("sam")
	for i, w := range s.testedIDArguments() {
		prepared, other, nobody := fmt.Sprint("prepared", i), fmt.Sprint("another", i), fmt.Sprint("nobody", i)
		s.CreateUsers(prepared, other)
		prepare(prepared)
		got, raw := s.sendID(t, w, "sam", "user:"+prepared, prepared)
		absent, _ := s.sendID(t, w, "sam", "user:"+nobody, nobody)
		present, _ := s.sendID(t, w, "sam", "user:"+other, other)
		if w.fieldPath[0].Name == "ingest" { // for the host, an unknown ID creates a user
			absent = missingUserAnswer(w)
		}
		switch like := cmp.Equal(errorsOfAnswer(got), errorsOfAnswer(present)); {
		case !like && !cmp.Equal(got, absent):
			t.Errorf("%s tells them apart: %s", w.name(), raw)
		case !like:
			refusing = append(refusing, w.name())
		}
	}
	return refusing
}

// errorsOfAnswer returns only the errors of an answer, because the data of an answer changes with each call.
func errorsOfAnswer(value any) []any {
	answer, _ := value.(map[string]any)
	list := []any{answer["Errors"]}
	data, _ := answer["Data"].(map[string]any)
	payload, _ := data["ingest"].(map[string]any)
	results, _ := payload["results"].([]any)
	for _, result := range results {
		list = append(list, result.(map[string]any)["error"])
	}
	return list
}

// missingUserAnswer returns the answer to an event that names a missing user.
func missingUserAnswer(w idArgument) any {
	argument := w.inputPath[len(w.inputPath)-1].Name
	message := fmt.Sprintf("%s: there is no user \"*\"", argument)
	return map[string]any{"Status": float64(200), "Errors": nil, "Data": map[string]any{"ingest": map[string]any{
		"__typename": "IngestPayload", "results": []any{map[string]any{"__typename": "IngestResult", "id": nil, "changed": false,
			"error": map[string]any{"__typename": "IngestError", "code": "NOT_FOUND", "message": message,
				"argument": argument, "reason": nil, "limit": nil, "retryAfterMs": nil}}},
	}}}
}

// A mention in a group does not reach a member if the member or the author blocks the other.
func TestAMentionDoesNotReachAcrossABlock(t *testing.T) {
	s := startHiddenItemsNode(t, sqltest.SQLite(t))
	var data struct {
		CreateConversation struct{ Conversation struct{ ID string } }
	}
	s.MustAsk("alice", `mutation{createConversation(input:{kind:GROUP,memberIds:["user:dave","user:blair","user:sam"]}){conversation{id}}}`, nil, &data)
	s.MustAsk("blair", `mutation($c:ID!){sendMessage(input:{conversationId:$c,body:"@dave",mentionIds:["user:dave","user:sam"]}){message{id}}}`,
		map[string]any{"c": data.CreateConversation.Conversation.ID}, nil)
	s.SettleJobsAndCaches()
	for as, want := range map[string]int{"dave": 0, "sam": 1} {
		if got := s.Badges(as).Conversations.Mentions.Value; got != want {
			t.Errorf("%s has %d mentions, want %d", as, got, want)
		}
	}
}
