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

// earlyRequest is a request that names an object that does not exist yet.
type earlyRequest struct {
	name        string         // of the operation
	in          event          // the input, which names the missing object
	conflicting event          // fields that, put into in, make another request, which conflicts under the same key
	equal       event          // fields that, put into in, make an equal request in other words; nil: there are none
	create      func(s *story) // creates the object
	hostCanSend bool           // the application can send it too; false for missing users, which it would create
}

// earlyOnPost is a request on a post with a ref, before the post exists.
func earlyOnPost(name string) earlyRequest {
	return earlyRequest{
		name: name, in: event{"as": "user:alice", "postId": "post:ref:p1"}, conflicting: event{"postId": "post:ref:p2"}, hostCanSend: true,
		create: func(s *story) { s.mustEvent("publishPost", event{"as": "user:bob", "body": "b", "ref": "p1"}) },
	}
}

// earlyOnUser is a request on the user with the key "late", who does not exist yet. other has the conflicting fields.
func earlyOnUser(name string, in, other event) earlyRequest {
	in["as"] = "user:alice"
	return earlyRequest{name: name, in: in, conflicting: other, create: func(s *story) { s.MakeNamedUsers("late") }}
}

// earlyRequests cover the ways in which an input names a missing object: users, one and many, and refs of each type.
func earlyRequests(s *story) []earlyRequest {
	group := s.createConversation("GROUP", "alice", "bob")
	conversation := func(s *story) {
		s.mustEvent("createConversation", event{"as": "user:bob", "kind": "ROOM", "memberIds": []string{"user:alice"}, "ref": "c1"})
	}
	show := func(s *story) {
		s.mustEvent("scheduleShow", event{"as": "user:bob", "title": "t", "plannedAt": s.World.Clock.Now().Add(time.Hour), "ref": "s1"})
	}
	s.mustEvent("createConversation", event{"as": "user:bob", "kind": "ROOM", "memberIds": []string{"user:alice"}, "ref": "kept"})
	late, two := "user:late", []string{"user:bob", "user:late"}
	return []earlyRequest{
		earlyOnUser("follow", event{"userId": late}, event{"userId": "user:bob"}),
		earlyOnUser("mute", event{"userId": late}, event{"until": "2099-01-01T00:00:00Z"}),
		earlyOnUser("hideFrom", event{"userId": late}, event{"userId": "user:nobody"}),
		earlyOnUser("block", event{"userId": late}, event{"userId": "user:bob"}),
		{
			name: "createConversation", in: event{"as": "user:alice", "kind": "GROUP", "memberIds": two}, conflicting: event{"kind": "ROOM"},
			equal: event{"title": "", "memberIds": []string{"user:late", "user:bob", "user:late"}}, create: func(s *story) { s.MakeNamedUsers("late") },
		},
		earlyOnUser("addMembers", event{"conversationId": group, "userIds": two}, event{"userIds": two[1:]}),
		earlyOnUser("sendMessage", event{"conversationId": group, "body": "b", "mentionIds": two}, event{"body": "c"}),
		earlyOnPost("likePost"), earlyOnPost("unlikePost"),
		{
			name: "publishPost", in: event{"as": "user:alice", "body": "b", "parentId": "post:ref:p1"}, conflicting: event{"body": "c"}, create: earlyOnPost("").create, hostCanSend: true,
		},
		{
			name: "joinConversation", in: event{"as": "user:carol", "conversationId": "conversation:ref:c1"}, conflicting: event{"conversationId": group},
			create: conversation, hostCanSend: true,
		},
		{
			name: "muteConversation", in: event{"as": "user:alice", "conversationId": "conversation:ref:c1"}, conflicting: event{"conversationId": group},
			create: conversation, hostCanSend: true,
		},
		{ // one of the two refs has an object
			name: "markConversationRead", in: event{"as": "user:alice", "conversationId": "conversation:ref:kept", "upTo": "message:ref:m1"},
			conflicting: event{"upTo": nil}, hostCanSend: true,
			create: func(s *story) {
				s.mustEvent("sendMessage", event{"as": "user:bob", "conversationId": "conversation:ref:kept", "body": "b", "ref": "m1"})
			},
		},
		{
			name: "remindMe", in: event{"as": "user:alice", "showId": "show:ref:s1"}, conflicting: event{"showId": "show:ref:s2"}, create: show, hostCanSend: true,
		},
		{
			name: "endShow", in: event{"as": "user:bob", "showId": "show:ref:s1"}, conflicting: event{"replayUrl": "https://example.com/r"}, create: show, hostCanSend: true,
		},
		{
			name: "withdrawAnnouncement", in: event{"announcementId": "announcement:ref:a1"}, conflicting: event{"announcementId": "announcement:ref:a2"}, hostCanSend: true,
			create: func(s *story) { s.mustEvent("publishAnnouncement", event{"title": "t", "ref": "a1"}) },
		},
	}
}

// mustEvent sends an event without a key, which must succeed.
func (s *story) mustEvent(name string, in event) answer {
	s.t.Helper()
	got := s.ingest(event{name: in})
	if failed := got.at("ingest", "results", 0, "error"); failed != nil || len(got.Errors) > 0 {
		s.t.Fatalf("%s: %+v", name, got)
	}
	return got
}

// resultText is the answer to an event or to a mutation: the code and the message of its error, or else its data.
func resultText(got answer) string {
	if failed, _ := got.at("ingest", "results", 0, "error").(map[string]any); failed != nil {
		return fmt.Sprint(failed["code"], " ", failed["message"])
	}
	if len(got.Errors) > 0 {
		return fmt.Sprint(got.code(), " ", got.Errors[0].Message)
	}
	return fmt.Sprint(got.Data)
}

// A key remembers that its request named a missing object, even if the object exists later: a repetition must not succeed after
// conflicting changes. The request is the same as an event and as a mutation.
func TestKeyRemembersNotFound(t *testing.T) {
	fanouttest.Each(t, nil, func(t *testing.T, w *fanouttest.World) {
		s := &story{api: newAPIOn(t, w, 50, 50)}
		for i, of := range earlyRequests(s) {
			for _, comes := range []bool{false, true} {
				s.sendEarly(of, fmt.Sprint("m", i), s.sendAsMutation, comes)
				if of.hostCanSend {
					s.sendEarly(of, fmt.Sprint("e", i), s.sendAsEvent, comes)
				}
			}
			if got := resultText(s.sendAsMutation(of.name, of.in, fmt.Sprint("new", i), nil)); strings.HasPrefix(got, "NOT_FOUND") {
				t.Errorf("%s under a new key: %s", of.name, got)
			}
			s.forgetLate(i)
		}
	})
}

// sendEarly sends a request that names a missing object, again and again under one key: every answer is the first one. With comes,
// it first creates the object, and only the key that an earlier call has used makes the request fail.
func (s *story) sendEarly(of earlyRequest, key string, ask func(string, event, string, event) answer, comes bool) {
	s.t.Helper()
	if comes {
		of.create(s)
	}
	first := resultText(ask(of.name, of.in, key, nil))
	if !strings.HasPrefix(first, "NOT_FOUND ") {
		s.t.Errorf("%s, the object has come %t: %s", of.name, comes, first)
	}
	if of.equal != nil {
		if got := resultText(ask(of.name, of.in, key, of.equal)); got != first {
			s.t.Errorf("%s in other words: %s, first %s", of.name, got, first)
		}
	}
	for _, other := range []func(string, event, string, event) answer{s.sendAsMutation, s.sendAsEvent} {
		if got := resultText(other(of.name, of.in, key, nil)); got != first {
			s.t.Errorf("%s again: %s, first %s", of.name, got, first)
		}
		if got := resultText(other(of.name, of.in, key, of.conflicting)); !strings.HasPrefix(got, "CONFLICT idempotencyKey") {
			s.t.Errorf("%s, another request under the key: %s", of.name, got)
		}
	}
}

var (
	// Afterwards no user has the key "late", and no object has a ref but "kept".
	renameLate = sql.NewStatement("rename a user of the test", `UPDATE users SET key = $1 WHERE key = 'late'`)
	freeRefs   = sql.NewStatement("free refs of the test", `UPDATE refs SET ref = '' WHERE ref NOT IN ('', 'kept')`)
)

// forgetLate gives the user with the key "late" another key, and takes the refs from all objects but "kept". So the next request names
// missing objects again.
func (s *story) forgetLate(round int) {
	s.t.Helper()
	numbers, err := s.resolver.Social.FindUsers(s.t.Context(), []string{"late"})
	s.Must(err)
	s.Write(func(ctx context.Context, tx *sql.Tx) error {
		_, err := tx.Run(ctx, renameLate, fmt.Sprint("late", round))
		if err == nil {
			_, err = tx.Run(ctx, freeRefs)
		}
		return err
	})
	if number, known := numbers["late"]; known {
		s.Caches.People.Drop(number, "late")
	}
}

// A refusal without a key is not remembered, and neither is an INVALID input under a key. The equal key of another user remembers a
// refusal for that user alone.
func TestRefusalsThatNoKeyRemembers(t *testing.T) {
	s := &story{api: newAPI(t)}
	follow := `mutation { follow(input: {userId: "user:late"}) { changed } }`
	if got := s.askAs("alice", follow, nil); got.code() != services.NotFound {
		t.Errorf("%+v", got)
	}
	like := event{"as": "user:alice", "postId": "post:ref:p1"}
	for _, wrong := range []event{{"postId": "post:ref:"}, {"postId": "user:alice"}, {"postId": "post:ref:%zz"}} {
		for _, ask := range []func(string, event, string, event) answer{s.sendAsMutation, s.sendAsEvent} {
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
	s.mustEvent("publishPost", event{"as": "user:bob", "body": "b", "ref": "p1"})
	if got := s.askAs("alice", follow, nil); got.at("follow", "changed") != true {
		t.Errorf("without a key: %+v", got)
	}
	if got := s.sendAsEvent("likePost", like, "k", nil); got.at("ingest", "results", 0, "changed") != true {
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
	if got := a.mustAsHost("alice", publish, nil); got.at("publishPost", "created") != true {
		t.Errorf("%+v", got)
	}
}

// A key keeps its answer when the object that its request named is gone, hidden, or another user's. The request names it by ref,
// by ID or by the key of a user.
func TestAKeyKeepsItsAnswerForAGoneObject(t *testing.T) {
	fanouttest.Each(t, nil, func(t *testing.T, w *fanouttest.World) {
		s := &story{api: newAPIOn(t, w, 50, 50)}
		s.MakeNamedUsers("leaver")
		made := s.mustEvent("publishPost", event{"as": "user:bob", "body": "b", "ref": "p1"})
		post, _ := made.at("ingest", "results", 0, "id").(string)
		s.mustEvent("createConversation", event{"as": "user:bob", "kind": "ROOM", "memberIds": []string{"user:alice"}, "ref": "c1"})
		like, quit := event{"as": "user:alice", "postId": "post:ref:p1"}, event{"as": "user:alice", "conversationId": "conversation:ref:c1"}
		follow := event{"as": "user:alice", "userId": "user:leaver"}
		liked, followed := s.sendAsEvent("likePost", like, "like", nil), s.sendAsEvent("follow", follow, "follow", nil)
		for _, got := range []answer{liked, followed, s.sendAsMutation("quitConversation", quit, "quit", nil)} {
			if got.at("ingest", "results", 0, "error") != nil || len(got.Errors) > 0 {
				t.Fatalf("%+v", got)
			}
		}
		again := func(what string) {
			t.Helper()
			if got := s.sendAsEvent("likePost", like, "like", nil); resultText(got) != resultText(liked) || got.at("ingest", "results", 0, "id") != post {
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
			if id, _ := got.at("quitConversation", "conversationId").(string); got.at("quitConversation", "changed") != true || !strings.HasPrefix(id, services.ConversationType+":") {
				t.Errorf("%s: quit: %v", what, got)
			}
		}
		again("at first")
		s.must("bob", `mutation { hideFrom(input: {userId: "user:alice"}) { changed } }`, nil)
		again("hidden")
		object, err := services.ParseObject("id", post)
		s.Must(err)
		s.Write(func(ctx context.Context, tx *sql.Tx) error { return refs.Free(ctx, tx, object) })
		again("the ref is free")
		if got := s.mustEvent("publishPost", event{"as": "user:carol", "body": "b", "ref": "p1"}); got.at("ingest", "results", 0, "id") == post {
			t.Fatal("the ref still names the first post")
		}
		again("the ref is another's")
		s.beginErasure("leaver")
		unless := s.must("alice", `mutation { follow(input: {userId: "user:leaver", idempotencyKey: "follow"}) { changed user { id } } }`, nil)
		if unless.at("follow", "changed") != true || unless.at("follow", "user") != nil {
			t.Errorf("follow of a user who is being erased: %v", unless)
		}
		if got := s.sendAsEvent("follow", follow, "follow", nil); resultText(got) != resultText(followed) {
			t.Errorf("follow of a user who is being erased, as an event: %v, first %v", got, followed)
		}
	})
}

// beginErasure begins the erasure of a user: from then on nobody finds them.
func (s *story) beginErasure(key string) {
	s.t.Helper()
	user := s.MakeNamedUsers(key)[0]
	_, _, err := erasures.Begin(s.t.Context(), s.Store, key)
	s.Must(err)
	s.Caches.People.Drop(user, key)
}

// An event of a batch can name objects of earlier events, and not of later ones. Sent again, the batch answers the same.
func TestABatchWithKeysRefusesWhatComesLater(t *testing.T) {
	fanouttest.Each(t, nil, func(t *testing.T, w *fanouttest.World) {
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
			if code := first.at("ingest", "results", i, "error", "code"); (i == 0) != (code == "NOT_FOUND") || i > 0 && code != nil {
				t.Errorf("event %d: %v", i, first.at("ingest", "results", i))
			}
		}
		if again := a.ingest(events...); fmt.Sprint(again) != fmt.Sprint(first) {
			t.Errorf("again: %v\nfirst: %v", again, first)
		}
	})
}
