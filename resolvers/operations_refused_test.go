package resolvers

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/erasures"
	"tidings/services/fanout/fanouttest"
	"tidings/services/refs"
	"tidings/services/sql"
)

// missingObjectRequest is a request that names an object that does not exist yet.
type missingObjectRequest struct {
	name              string                   // of the operation
	input             event                    // the input, which names the missing object
	conflictingFields event                    // fields that, put into input, make another request, which conflicts under the same key
	equalFields       event                    // fields that, put into input, make an equal request in other words; nil: none
	createObject      func(s *operationTester) // creates the object
	hostCanSend       bool                     // the application can send it too; false for missing users, which it would create
}

// missingPostRequest is a request on a post with a ref, before the post exists.
func missingPostRequest(name string) missingObjectRequest {
	return missingObjectRequest{
		name: name, input: event{"as": "user:alice", "postId": "post:ref:p1"}, conflictingFields: event{"postId": "post:ref:p2"}, hostCanSend: true,
		createObject: func(s *operationTester) {
			s.mustIngestEvent("publishPost", event{"as": "user:bob", "body": "b", "ref": "p1"})
		},
	}
}

// missingUserRequest is a request on the user with the key "late", who does not exist yet. other has the conflicting fields.
func missingUserRequest(name string, in, other event) missingObjectRequest {
	in["as"] = "user:alice"
	return missingObjectRequest{name: name, input: in, conflictingFields: other, createObject: func(s *operationTester) { s.MakeNamedUsers("late") }}
}

// missingObjectRequests cover the ways in which an input names a missing object: users, one and many, and refs of each type.
func missingObjectRequests(s *operationTester) []missingObjectRequest {
	group := s.createConversation("GROUP", "alice", "bob")
	conversation := func(s *operationTester) {
		s.mustIngestEvent("createConversation", event{"as": "user:bob", "kind": "ROOM", "memberIds": []string{"user:alice"}, "ref": "c1"})
	}
	show := func(s *operationTester) {
		s.mustIngestEvent("scheduleShow", event{"as": "user:bob", "title": "t", "plannedAt": s.World.Clock.Now().Add(time.Hour), "ref": "s1"})
	}
	s.mustIngestEvent("createConversation", event{"as": "user:bob", "kind": "ROOM", "memberIds": []string{"user:alice"}, "ref": "kept"})
	late, two := "user:late", []string{"user:bob", "user:late"}
	return []missingObjectRequest{
		missingUserRequest("follow", event{"userId": late}, event{"userId": "user:bob"}),
		missingUserRequest("mute", event{"userId": late}, event{"until": "2099-01-01T00:00:00Z"}),
		missingUserRequest("hideFrom", event{"userId": late}, event{"userId": "user:nobody"}),
		missingUserRequest("block", event{"userId": late}, event{"userId": "user:bob"}),
		{
			name: "createConversation", input: event{"as": "user:alice", "kind": "GROUP", "memberIds": two}, conflictingFields: event{"kind": "ROOM"},
			equalFields: event{"title": "", "memberIds": []string{"user:late", "user:bob", "user:late"}}, createObject: func(s *operationTester) { s.MakeNamedUsers("late") },
		},
		missingUserRequest("addMembers", event{"conversationId": group, "userIds": two}, event{"userIds": two[1:]}),
		missingUserRequest("sendMessage", event{"conversationId": group, "body": "b", "mentionIds": two}, event{"body": "c"}),
		missingPostRequest("likePost"), missingPostRequest("unlikePost"),
		{
			name: "publishPost", input: event{"as": "user:alice", "body": "b", "parentId": "post:ref:p1"}, conflictingFields: event{"body": "c"}, createObject: missingPostRequest("").createObject, hostCanSend: true,
		},
		{
			name: "joinConversation", input: event{"as": "user:carol", "conversationId": "conversation:ref:c1"}, conflictingFields: event{"conversationId": group},
			createObject: conversation, hostCanSend: true,
		},
		{
			name: "muteConversation", input: event{"as": "user:alice", "conversationId": "conversation:ref:c1"}, conflictingFields: event{"conversationId": group},
			createObject: conversation, hostCanSend: true,
		},
		{ // one of the two refs has an object
			name: "markConversationRead", input: event{"as": "user:alice", "conversationId": "conversation:ref:kept", "upTo": "message:ref:m1"},
			conflictingFields: event{"upTo": nil}, hostCanSend: true,
			createObject: func(s *operationTester) {
				s.mustIngestEvent("sendMessage", event{"as": "user:bob", "conversationId": "conversation:ref:kept", "body": "b", "ref": "m1"})
			},
		},
		{
			name: "remindMe", input: event{"as": "user:alice", "showId": "show:ref:s1"}, conflictingFields: event{"showId": "show:ref:s2"}, createObject: show, hostCanSend: true,
		},
		{
			name: "endShow", input: event{"as": "user:bob", "showId": "show:ref:s1"}, conflictingFields: event{"replayUrl": "https://example.com/r"}, createObject: show, hostCanSend: true,
		},
		{
			name: "withdrawAnnouncement", input: event{"announcementId": "announcement:ref:a1"}, conflictingFields: event{"announcementId": "announcement:ref:a2"}, hostCanSend: true,
			createObject: func(s *operationTester) { s.mustIngestEvent("publishAnnouncement", event{"title": "t", "ref": "a1"}) },
		},
	}
}

// mustIngestEvent sends an event without a key, which must succeed.
func (s *operationTester) mustIngestEvent(name string, in event) apiAnswer {
	s.t.Helper()
	got := s.ingest(event{name: in})
	if failed := got.valueAt("ingest", "results", 0, "error"); failed != nil || len(got.Errors) > 0 {
		s.t.Fatalf("%s: %+v", name, got)
	}
	return got
}

// resultText is the answer to an event or to a mutation: the code and the message of its error, or else its data.
func resultText(got apiAnswer) string {
	if failed, _ := got.valueAt("ingest", "results", 0, "error").(map[string]any); failed != nil {
		return fmt.Sprint(failed["code"], " ", failed["message"])
	}
	if len(got.Errors) > 0 {
		return fmt.Sprint(got.code(), " ", got.Errors[0].Message)
	}
	return fmt.Sprint(got.Data)
}

// A key remembers that its request named a missing object, even if the object exists later: a repetition must not succeed after
// conflicting changes. A request is the same whether it comes as an event or as a mutation.
func TestKeyRemembersNotFound(t *testing.T) {
	fanouttest.EachEnginePair(t, nil, func(t *testing.T, w *fanouttest.World) {
		s := &operationTester{testAPI: newAPIOn(t, w, 50, 50)}
		for i, of := range missingObjectRequests(s) {
			for _, comes := range []bool{false, true} {
				s.checkMissingObjectRequest(of, fmt.Sprint("m", i), s.sendAsMutation, comes)
				if of.hostCanSend {
					s.checkMissingObjectRequest(of, fmt.Sprint("e", i), s.sendAsEvent, comes)
				}
			}
			if got := resultText(s.sendAsMutation(of.name, of.input, fmt.Sprint("new", i), nil)); strings.HasPrefix(got, "NOT_FOUND") {
				t.Errorf("%s under a new key: %s", of.name, got)
			}
			s.makeObjectsMissingAgain(i)
		}
	})
}

// checkMissingObjectRequest sends a request that names a missing object, again and again under one key: every answer is the first
// one. With comes, it first creates the object, and only the key that an earlier call has used makes the request fail.
func (s *operationTester) checkMissingObjectRequest(of missingObjectRequest, key string, ask func(string, event, string, event) apiAnswer, comes bool) {
	s.t.Helper()
	if comes {
		of.createObject(s)
	}
	first := resultText(ask(of.name, of.input, key, nil))
	if !strings.HasPrefix(first, "NOT_FOUND ") {
		s.t.Errorf("%s, the object has come %t: %s", of.name, comes, first)
	}
	if of.equalFields != nil {
		if got := resultText(ask(of.name, of.input, key, of.equalFields)); got != first {
			s.t.Errorf("%s in other words: %s, first %s", of.name, got, first)
		}
	}
	for _, other := range []func(string, event, string, event) apiAnswer{s.sendAsMutation, s.sendAsEvent} {
		if got := resultText(other(of.name, of.input, key, nil)); got != first {
			s.t.Errorf("%s again: %s, first %s", of.name, got, first)
		}
		if got := resultText(other(of.name, of.input, key, of.conflictingFields)); !strings.HasPrefix(got, "CONFLICT idempotencyKey") {
			s.t.Errorf("%s, another request under the key: %s", of.name, got)
		}
	}
}

var (
	// Afterwards no user has the key "late", and no object has a ref but "kept".
	renameLateUser = sql.NewStatement("rename a user of the test", `UPDATE users SET key = $1 WHERE key = 'late'`)
	clearRefs      = sql.NewStatement("free refs of the test", `UPDATE refs SET ref = '' WHERE ref NOT IN ('', 'kept')`)
)

// makeObjectsMissingAgain gives the user with the key "late" another key, and takes the refs from all objects but "kept". So the
// next request names missing objects again.
func (s *operationTester) makeObjectsMissingAgain(round int) {
	s.t.Helper()
	ids, err := s.resolver.Social.FindUsers(s.t.Context(), []string{"late"})
	s.Must(err)
	s.Write(func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.Run(ctx, renameLateUser, fmt.Sprint("late", round))
		if err == nil {
			_, err = tx.Run(ctx, clearRefs)
		}
		return err
	})
	if id, known := ids["late"]; known {
		s.Caches.People.Drop(id, "late")
	}
}

// A refusal without a key is not remembered, and neither is an INVALID input under a key. The equal key of another user remembers a
// refusal for that user alone.
func TestRefusalsThatNoKeyRemembers(t *testing.T) {
	s := &operationTester{testAPI: newAPI(t)}
	follow := `mutation { follow(input: {userId: "user:late"}) { changed } }`
	if got := s.askAs("alice", follow, nil); got.code() != services.NotFound {
		t.Errorf("%+v", got)
	}
	like := event{"as": "user:alice", "postId": "post:ref:p1"}
	for _, wrong := range []event{{"postId": "post:ref:"}, {"postId": "user:alice"}, {"postId": "post:ref:%zz"}} {
		for _, ask := range []func(string, event, string, event) apiAnswer{s.sendAsMutation, s.sendAsEvent} {
			if got := resultText(ask("likePost", like, "k", wrong)); !strings.HasPrefix(got, "INVALID ") {
				t.Errorf("%v: %s", wrong, got)
			}
		}
	}
	// The key itself is wrong, and the object unknown: the refusal cannot be remembered.
	if got := resultText(s.sendAsMutation("likePost", like, strings.Repeat("k", 65), nil)); !strings.HasPrefix(got, "NOT_FOUND ") {
		t.Error(got)
	}
	if got := resultText(s.sendAsMutation("likePost", event{"as": "user:carol", "postId": "post:ref:p1"}, "k", nil)); !strings.HasPrefix(got, "NOT_FOUND ") {
		t.Error(got)
	}
	s.MakeNamedUsers("late")
	s.mustIngestEvent("publishPost", event{"as": "user:bob", "body": "b", "ref": "p1"})
	if got := s.askAs("alice", follow, nil); got.valueAt("follow", "changed") != true {
		t.Errorf("without a key: %+v", got)
	}
	if got := s.sendAsEvent("likePost", like, "k", nil); got.valueAt("ingest", "results", 0, "changed") != true {
		t.Errorf("the key was used only for wrong inputs: %+v", got)
	}
}

// A user's token may not set a ref. That refusal is not remembered: the key is free for the application's own request.
func TestAKeyDoesNotRememberAToken(t *testing.T) {
	a := newAPI(t)
	const publish = `mutation { publishPost(input: {body: "b", ref: "r", idempotencyKey: "k"}) { created } }`
	if got := a.askAs("alice", publish, nil); got.code() != services.Forbidden {
		t.Errorf("%+v", got)
	}
	if got := a.mustAsHost("alice", publish, nil); got.valueAt("publishPost", "created") != true {
		t.Errorf("%+v", got)
	}
}

// A key keeps its answer when the object that its request named is gone, hidden, or another user's. The request names it by ref,
// by ID or by the key of a user.
func TestAKeyKeepsItsAnswerForAGoneObject(t *testing.T) {
	fanouttest.EachEnginePair(t, nil, func(t *testing.T, w *fanouttest.World) {
		s := &operationTester{testAPI: newAPIOn(t, w, 50, 50)}
		s.MakeNamedUsers("leaver")
		made := s.mustIngestEvent("publishPost", event{"as": "user:bob", "body": "b", "ref": "p1"})
		post, _ := made.valueAt("ingest", "results", 0, "id").(string)
		s.mustIngestEvent("createConversation", event{"as": "user:bob", "kind": "ROOM", "memberIds": []string{"user:alice"}, "ref": "c1"})
		like, quit := event{"as": "user:alice", "postId": "post:ref:p1"}, event{"as": "user:alice", "conversationId": "conversation:ref:c1"}
		follow := event{"as": "user:alice", "userId": "user:leaver"}
		liked, followed := s.sendAsEvent("likePost", like, "like", nil), s.sendAsEvent("follow", follow, "follow", nil)
		for _, got := range []apiAnswer{liked, followed, s.sendAsMutation("quitConversation", quit, "quit", nil)} {
			if got.valueAt("ingest", "results", 0, "error") != nil || len(got.Errors) > 0 {
				t.Fatalf("%+v", got)
			}
		}
		again := func(what string) {
			t.Helper()
			if got := s.sendAsEvent("likePost", like, "like", nil); resultText(got) != resultText(liked) || got.valueAt("ingest", "results", 0, "id") != post {
				t.Errorf("%s: like by the ref: %v, first %v", what, got, liked)
			}
			if got := s.sendAsMutation("likePost", like, "like", nil); len(got.Errors) > 0 {
				t.Errorf("%s: like by the ref: %v", what, got)
			}
			if got := s.sendAsMutation("likePost", like, "like", event{"postId": post}); len(got.Errors) > 0 {
				t.Errorf("%s: like by the ID: %v", what, got)
			}
			if got := s.sendAsMutation("likePost", like, "like", event{"postId": "post:ref:p9"}); got.code() != services.Conflict {
				t.Errorf("%s: like of another ref: %v", what, got)
			}
			// A user who has quit does not see the conversation any more.
			got := s.must("alice", `mutation { quitConversation(input: {conversationId: "conversation:ref:c1", idempotencyKey: "quit"}) { changed conversationId } }`, nil)
			if id, _ := got.valueAt("quitConversation", "conversationId").(string); got.valueAt("quitConversation", "changed") != true || !strings.HasPrefix(id, services.ConversationType+":") {
				t.Errorf("%s: quit: %v", what, got)
			}
		}
		again("at first")
		s.must("bob", `mutation { hideFrom(input: {userId: "user:alice"}) { changed } }`, nil)
		again("hidden")
		object, err := services.ParseObject("id", post)
		s.Must(err)
		s.Write(func(ctx context.Context, tx *sql.Tx) error { return refs.FreeRef(ctx, tx, object) })
		again("the ref is free")
		if got := s.mustIngestEvent("publishPost", event{"as": "user:carol", "body": "b", "ref": "p1"}); got.valueAt("ingest", "results", 0, "id") == post {
			t.Fatal("the ref still names the first post")
		}
		again("the ref is another's")
		s.beginErasure("leaver")
		unless := s.must("alice", `mutation { follow(input: {userId: "user:leaver", idempotencyKey: "follow"}) { changed user { id } } }`, nil)
		if unless.valueAt("follow", "changed") != true || unless.valueAt("follow", "user") != nil {
			t.Errorf("follow of a user who is being erased: %v", unless)
		}
		if got := s.sendAsEvent("follow", follow, "follow", nil); resultText(got) != resultText(followed) {
			t.Errorf("follow of a user who is being erased, as an event: %v, first %v", got, followed)
		}
	})
}

// beginErasure begins the erasure of a user: from then on nobody finds them.
func (s *operationTester) beginErasure(key string) {
	s.t.Helper()
	user := s.MakeNamedUsers(key)[0]
	_, _, err := erasures.Begin(s.t.Context(), s.DB, key)
	s.Must(err)
	s.Caches.People.Drop(user, key)
}

// An event of a batch can name objects of earlier events, and not of later ones. Sent again, the batch answers the same.
func TestAnEventCannotNameObjectsOfLaterEvents(t *testing.T) {
	fanouttest.EachEnginePair(t, nil, func(t *testing.T, w *fanouttest.World) {
		a := newAPIOn(t, w, 10, 5)
		like := func(ref string) event {
			return event{"as": "user:alice", "postId": "post:ref:" + ref, "key": "like " + ref}
		}
		publish := func(ref string) event {
			return event{"publishPost": event{"as": "user:new", "body": "b", "ref": ref, "key": "publish " + ref}}
		}
		events := []event{
			{"likePost": like("p1")}, publish("p1"), publish("p2"), {"likePost": like("p2")},
			{"setProfile": event{"as": "user:newer", "name": "N", "key": "profile"}}, {"follow": event{"as": "user:newer", "userId": "user:newest", "key": "follow"}},
		}
		first := a.ingest(events...)
		for i := range events {
			if code := first.valueAt("ingest", "results", i, "error", "code"); (i == 0) != (code == "NOT_FOUND") || i > 0 && code != nil {
				t.Errorf("event %d: %v", i, first.valueAt("ingest", "results", i))
			}
		}
		if again := a.ingest(events...); fmt.Sprint(again) != fmt.Sprint(first) {
			t.Errorf("again: %v\nfirst: %v", again, first)
		}
	})
}
