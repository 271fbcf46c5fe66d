package resolvers

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/fanout/fanouttest"
	"tidings/services/people"
	"tidings/services/sql"
)

// operationTester runs every operation once, at a point where the state allows it.
type operationTester struct {
	*testAPI
	ranOperations []string // the names of the operations that have run
}

// runAndRepeat runs an operation as an event with a key, and then again: as the same event, as the mutation, with different fields, and
// under a key that the previous version of Tidings stored. in has the fields of the input, and other those that differ. It returns the ID
// of the result.
func (s *operationTester) runAndRepeat(name string, in, other event) string {
	s.t.Helper()
	s.ranOperations = append(s.ranOperations, name)
	key := fmt.Sprint("key", len(s.ranOperations))
	first := s.sendAsEvent(name, in, key, nil)
	id, _ := first.valueAt("ingest", "results", 0, "id").(string)
	if first.valueAt("ingest", "results", 0, "error") != nil {
		s.t.Fatalf("%s: %v", name, first.Data)
	}
	s.checkResultID(name, first.valueAt("ingest", "results", 0, "id"))
	if again := s.sendAsEvent(name, in, key, nil); fmt.Sprint(again) != fmt.Sprint(first) {
		s.t.Errorf("%s again: %v, and first %v", name, again, first)
	}
	if as := s.sendAsMutation(name, in, key, nil); len(as.Errors) > 0 {
		s.t.Errorf("%s as the mutation: %+v", name, as.Errors)
	}
	if other != nil {
		got := s.sendAsEvent(name, in, key, other)
		if message := fmt.Sprint(got.valueAt("ingest", "results", 0, "error")); !strings.Contains(message, "CONFLICT") || !strings.Contains(message, "idempotencyKey") {
			s.t.Errorf("%s, something else under the key: %v", name, got)
		}
		if _, ofEvents := other["device"]; !ofEvents {
			if got := s.sendAsMutation(name, in, key, other); got.code() != services.Conflict || !strings.Contains(got.Errors[0].Message, "idempotencyKey") {
				s.t.Errorf("%s, something else under the key, as the mutation: %+v", name, got)
			}
		}
	}
	s.storeKeyAsPreviousVersion(in, key, "before"+key)
	if before := s.sendAsEvent(name, in, "before"+key, nil); fmt.Sprint(before) != fmt.Sprint(first) {
		s.t.Errorf("%s under a key of the version before: %v, and first %v", name, before, first)
	}
	return id
}

// checkResultID checks that the ID of a result is null or the global ID of an object, as the schema says.
func (s *operationTester) checkResultID(name string, id any) {
	s.t.Helper()
	if creates := operations[name].describe().createdType; id == nil {
		if creates != "" {
			s.t.Errorf("%s makes a %s, and its result has no ID", name, creates)
		}
		return
	}
	text, _ := id.(string)
	if strings.HasPrefix(text, services.HostNotificationType+":") { // not a node: only withdrawNotification takes this ID
		if _, err := services.ParseTypedID("id", text, services.HostNotificationType); err != nil {
			s.t.Errorf("%s: %s", name, err)
		}
		return
	}
	got := s.ask("alice", []services.Scope{services.ScopeViewer}, `query($id: ID!) { node(id: $id) { id } }`, map[string]any{"id": text})
	if shown := got.valueAt("node", "id"); len(got.Errors) > 0 || shown != nil && shown != text {
		s.t.Errorf("the result of %s has the ID %s, whose node is %v %+v", name, text, shown, got.Errors)
	}
}

// sendAsEvent ingests an event under a key. Fields of other replace those of in.
func (s *operationTester) sendAsEvent(name string, in event, key string, other event) apiAnswer {
	s.t.Helper()
	said := maps.Clone(in)
	maps.Copy(said, other)
	said["key"] = key
	return s.ingest(event{name: said})
}

// sendAsMutation sends the event as the mutation of the same name, with a token of the user in the field as.
func (s *operationTester) sendAsMutation(name string, in event, key string, other event) apiAnswer {
	s.t.Helper()
	said := maps.Clone(in)
	maps.Copy(said, other)
	as, _ := said["as"].(string)
	delete(said, "as")
	if view, given := said["view"]; given {
		said["key"] = view
		delete(said, "view")
	}
	said["idempotencyKey"] = key
	input := operations[name].describe().inputType
	query := fmt.Sprintf(`mutation($input: %s!) { %s(input: $input) { __typename } }`, input.Name(), name)
	scopes := []services.Scope{services.ScopeViewer}
	if as == "" {
		scopes = []services.Scope{services.ScopeIngest}
	}
	return s.ask(strings.TrimPrefix(as, "user:"), scopes, query, map[string]any{"input": said})
}

// storeKeyAsPreviousVersion stores the answer of key under a second key too, whose text is in before. It does so as the previous version
// of Tidings did: with a hash in the former form, which equals the hash of no input.
func (s *operationTester) storeKeyAsPreviousVersion(in event, key, before string) {
	s.t.Helper()
	scope := "u0"
	for _, field := range []string{"as", "userId"} { // userId is for setSegments, whose keys belong to the user
		id, names := in[field].(string)
		if !names {
			continue
		}
		user := strings.TrimPrefix(id, "user:")
		ids, err := people.IDs(s.t.Context(), s.DB, []string{user})
		s.Must(err)
		scope = fmt.Sprintf("u%d", ids[user])
		break
	}
	s.Write(func(ctx context.Context, tx *sql.Tx) error {
		var ids string
		found, err := tx.One(ctx, sql.AdHoc("the answer of a key", `SELECT ids FROM idempotency WHERE scope = $1 AND key = $2`), []any{scope, key}, &ids)
		if !found {
			err = errors.Join(err, fmt.Errorf("the key %s of %s is not remembered", key, scope))
		}
		if err != nil {
			return err
		}
		_, err = tx.Run(ctx, sql.AdHoc("store a key as before", `INSERT INTO idempotency (scope, key, body_hash, ids, at) VALUES ($1, $2, $3, $4, $5)`),
			scope, before, make([]byte, 32), ids, tx.Now)
		return err
	})
}

// alterID returns another ID of the same type.
func alterID(id string) string {
	if last := len(id) - 1; id[last] != '1' {
		return id[:last] + "1"
	}
	return id[:len(id)-1] + "2"
}

// Every operation has its effect once for each key, as an event and as a mutation, also if the previous version of Tidings
// stored the key.
func TestEveryOperationHappensOnceForItsKey(t *testing.T) {
	fanouttest.EachEnginePair(t, nil, func(t *testing.T, w *fanouttest.World) {
		s := &operationTester{testAPI: newAPIOn(t, w, 10, 5)}
		s.runPeopleOperations()
		post := s.runPostOperations()
		s.runNotificationOperations(post)
		s.runSiteMessageOperations()
		s.runHostCategoryOperations()
		s.runAnnouncementOperations()
		s.runViewOperations()
		s.runConversationOperations()
		s.runShowOperations()
		s.runAndRepeat("setDisplayPolicy", event{"as": "user:bob", "sources": []event{{"source": "HOME_FEED", "inTotal": false}, {"source": "ANNOUNCEMENTS", "style": "DOT"}}},
			event{"sources": []event{{"source": "HOME_FEED", "inTotal": true}}})
		s.runAndRepeat("setCategoryPreference", event{"as": "user:bob", "category": "LIKE", "mode": "DOT"}, event{"push": false})
		s.runAndRepeat("deletePost", event{"as": "user:carol", "postId": post}, event{"postId": alterID(post)})
		for name := range operations {
			if !slices.Contains(s.ranOperations, name) {
				t.Errorf("%s is not in the story", name)
			}
		}
	})
}

// Equivalent inputs are one request under a key, whatever their words and order.
func TestEquivalentInputsAreOneRequest(t *testing.T) {
	s := &operationTester{testAPI: newAPI(t)}
	s.MakeNamedUsers("dora")
	position := "notificationUpTo:0000000000001"
	all := []services.Category{}
	for i := range services.Categories {
		all = append(all, services.Categories[len(services.Categories)-1-i])
	}
	all = append(all, services.CategoryHost)
	at := s.World.Clock.Now().Add(time.Hour)
	for i, same := range []struct {
		name string
		says []event // inputs with the same meaning
	}{
		{"markNotificationsSeen", []event{{"as": "user:bob"}, {"as": "user:bob", "categories": all}}},
		{"markNotificationsRead", []event{{"as": "user:bob", "all": true}, {"as": "user:bob", "categories": all}, {"as": "user:bob", "categories": all, "all": false, "readToken": ""}}},
		{"markAllRead", []event{{"as": "user:bob"}, {"as": "user:bob", "readToken": ""}}},
		{"createConversation", []event{
			{"as": "user:bob", "kind": "GROUP", "memberIds": []string{"user:alice", "user:dora"}},
			{"as": "user:bob", "kind": "GROUP", "memberIds": []string{"user:dora", "user:alice", "user:dora"}, "title": ""},
		}},
		{"scheduleShow", []event{
			{"as": "user:bob", "title": "t", "plannedAt": at.Format(time.RFC3339)},
			{"as": "user:bob", "title": "t", "plannedAt": at.In(time.FixedZone("east", 3600)).Format(time.RFC3339), "coverUrl": ""},
		}},
		{"setSegments", []event{{"userId": "user:bob", "segments": []string{"a", "b"}}, {"userId": "user:bob", "segments": []string{"b", "a", "a"}}}},
	} {
		key := fmt.Sprint("key", i)
		first := s.sendAsEvent(same.name, same.says[0], key, nil)
		for _, said := range same.says {
			if got := s.sendAsEvent(same.name, said, key, nil); got.valueAt("ingest", "results", 0, "error") != nil || fmt.Sprint(got) != fmt.Sprint(first) {
				t.Errorf("%s %v: %v, and first %v", same.name, said, got, first)
			}
		}
	}
	// Inputs that mean something else are another request.
	s.sendAsEvent("markNotificationsRead", event{"as": "user:bob", "all": true}, "key", nil)
	got := s.sendAsEvent("markNotificationsRead", event{"as": "user:bob", "upTo": position}, "key", nil)
	if code := got.valueAt("ingest", "results", 0, "error", "code"); code != "CONFLICT" {
		t.Errorf("a position under the key of all: %v", got)
	}
}

// runPeopleOperations and the functions below run the operations on one kind of object each.
func (s *operationTester) runPeopleOperations() {
	s.runAndRepeat("follow", event{"as": "user:alice", "userId": "user:carol"}, nil)
	s.runAndRepeat("setFollowMode", event{"as": "user:alice", "userId": "user:carol", "mode": "NONE"}, event{"mode": "ALL"})
	for _, name := range []string{"follow", "mute", "unmute", "hideFrom", "unhideFrom", "unfollow", "block", "unblock"} {
		s.runAndRepeat(name, event{"as": "user:bob", "userId": "user:carol"}, event{"userId": "user:alice"})
	}
	s.runAndRepeat("mute", event{"as": "user:carol", "userId": "user:bob", "until": "2099-01-01T00:00:00Z"}, event{"until": nil})
	s.runAndRepeat("unmute", event{"as": "user:carol", "userId": "user:bob"}, nil)
	s.runAndRepeat("setProfile", event{"as": "user:alice", "name": "Alice"}, event{"avatarUrl": ""})
	s.runAndRepeat("setGroupPolicy", event{"as": "user:alice", "policy": "NOBODY"}, event{"policy": "EVERYONE"})
}

func (s *operationTester) runPostOperations() (post string) {
	post = s.runAndRepeat("publishPost", event{"as": "user:carol", "body": "hello", "mentions": []string{"user:alice", "user:bob"}}, event{"mentions": []string{"user:bob"}})
	s.runAndRepeat("editPost", event{"as": "user:carol", "postId": post, "body": "hello, all"}, event{"body": "hello"})
	s.runAndRepeat("likePost", event{"as": "user:bob", "postId": post}, event{"postId": alterID(post)})
	s.runAndRepeat("unlikePost", event{"as": "user:bob", "postId": post}, event{"postId": alterID(post)})
	s.runAndRepeat("likePost", event{"as": "user:alice", "postId": post}, nil)
	s.runAndRepeat("publishPost", event{"as": "user:dora", "body": "hello", "parentId": post}, event{"parentId": alterID(post)})
	s.runAndRepeat("markHomeFeedSeen", event{"as": "user:bob"}, event{"upTo": post})
	return post
}

func (s *operationTester) runNotificationOperations(post string) {
	_, ids := s.notificationLines("carol")
	s.runAndRepeat("markNotificationsSeen", event{"as": "user:carol"}, event{"categories": []string{"LIKE"}})
	s.runAndRepeat("markNotificationsRead", event{"as": "user:carol", "ids": ids[:1]}, event{"ids": []string{alterID(ids[0])}})
	s.runAndRepeat("markNotificationUnread", event{"as": "user:carol", "id": ids[0]}, event{"id": alterID(ids[0])})
	s.runAndRepeat("markAllRead", event{"as": "user:carol"}, event{"upTo": s.notificationUpTos("carol")[0]})
	s.runAndRepeat("undoMarkAllRead", event{"as": "user:carol"}, nil)
}

func (s *operationTester) runSiteMessageOperations() {
	to := []string{"user:alice", "user:bob"}
	id := s.runAndRepeat("sendSiteMessage", event{"title": "t", "content": "c", "to": to}, event{"to": to[:1]})
	s.runAndRepeat("editSiteMessage", event{"siteMessageId": id, "title": "u"}, event{"content": "d"})
	s.RunAllJobs(s.Fanout)
	s.runAndRepeat("markSiteMessagesRead", event{"as": "user:alice", "ids": []string{id}}, event{"ids": []string{alterID(id)}})
	s.runAndRepeat("markSiteMessagesUnread", event{"as": "user:alice", "ids": []string{id}}, event{"ids": []string{alterID(id)}})
}

func (s *operationTester) runHostCategoryOperations() {
	s.ask("boss", []services.Scope{services.ScopeAdmin}, `mutation { defineCategory(input: {name: "orders"}) { created } }`, nil)
	to := []string{"user:alice", "user:bob"}
	id := s.runAndRepeat("notify", event{"category": "orders", "to": to, "title": "sent"}, event{"to": to[:1]})
	s.runAndRepeat("withdrawNotification", event{"hostNotificationId": id}, event{"hostNotificationId": alterID(id)})
}

func (s *operationTester) runAnnouncementOperations() {
	id := s.runAndRepeat("publishAnnouncement", event{"title": "t", "content": "c"}, event{"content": "d"})
	s.runAndRepeat("editAnnouncement", event{"announcementId": id, "title": "u"}, event{"showAgain": true})
	s.runAndRepeat("markAnnouncementsRead", event{"as": "user:bob", "upTo": id}, event{"upTo": nil})
	s.runAndRepeat("withdrawAnnouncement", event{"announcementId": id}, event{"announcementId": alterID(id)})
	s.runAndRepeat("raiseDot", event{"name": "shop"}, event{"segments": []string{"a"}})
	s.runAndRepeat("clearDot", event{"as": "user:bob", "name": "shop"}, event{"name": "else"})
	s.runAndRepeat("setSegments", event{"userId": "user:bob", "segments": []string{"a", "b"}}, event{"segments": []string{"a"}})
}

func (s *operationTester) runViewOperations() {
	at := s.World.Clock.Now().Format(time.RFC3339)
	s.runAndRepeat("addViewItem", event{"code": "c", "view": "v", "item": "i", "at": at}, event{"item": "j"})
	s.runAndRepeat("touchView", event{"as": "user:bob", "code": "c", "view": "v"}, event{"upTo": at})
	s.runAndRepeat("removeViewItem", event{"code": "c", "view": "v", "item": "i"}, event{"view": "w"})
}

func (s *operationTester) runConversationOperations() {
	group := s.runAndRepeat("createConversation", event{"as": "user:alice", "kind": "GROUP", "title": "T", "memberIds": []string{"user:bob"}}, event{"title": "U"})
	room := s.runAndRepeat("createConversation", event{"as": "user:alice", "kind": "ROOM", "memberIds": []string{"user:bob"}}, event{"kind": "GROUP"})
	s.runAndRepeat("joinConversation", event{"as": "user:carol", "conversationId": room}, event{"conversationId": group})
	in := func(as string, more event) event {
		more["as"], more["conversationId"] = "user:"+as, group
		return more
	}
	carol := []string{"user:carol"}
	s.runAndRepeat("addMembers", in("alice", event{"userIds": carol}), event{"userIds": []string{"user:bob"}})
	message := s.runAndRepeat("sendMessage", in("alice", event{"body": "hello"}), event{"mentionIds": carol})
	s.runAndRepeat("markConversationRead", in("bob", event{}), event{"upTo": message})
	s.runAndRepeat("markConversationUnread", event{"as": "user:bob", "fromMessageId": message}, event{"fromMessageId": alterID(message)})
	s.runAndRepeat("muteConversation", in("bob", event{}), event{"conversationId": room})
	s.runAndRepeat("unmuteConversation", in("bob", event{}), event{"conversationId": room})
	s.runAndRepeat("enterConversation", in("bob", event{}), event{"device": "phone"})
	s.runAndRepeat("leaveConversation", in("bob", event{}), event{"device": "phone"})
	s.runAndRepeat("recallMessage", event{"as": "user:alice", "messageId": message}, event{"messageId": alterID(message)})
	s.runAndRepeat("removeMembers", in("alice", event{"userIds": carol}), event{"userIds": []string{"user:bob"}})
	s.runAndRepeat("quitConversation", in("bob", event{}), event{"conversationId": room})
}

func (s *operationTester) runShowOperations() {
	planned := s.World.Clock.Now().Add(time.Hour).Format(time.RFC3339)
	show := s.runAndRepeat("scheduleShow", event{"as": "user:carol", "title": "t", "plannedAt": planned}, event{"coverUrl": "https://example.com/c"})
	s.runAndRepeat("rescheduleShow", event{"as": "user:carol", "showId": show, "title": "u"}, event{"title": "v"})
	s.runAndRepeat("remindMe", event{"as": "user:bob", "showId": show}, event{"showId": alterID(show)})
	s.runAndRepeat("cancelReminder", event{"as": "user:bob", "showId": show}, event{"showId": alterID(show)})
	s.runAndRepeat("startShow", event{"as": "user:carol", "showId": show}, event{"at": planned})
	board := s.must("bob", `{ viewer { liveBoard { sessionId } } }`, nil)
	s.runAndRepeat("markLiveBoardSeen", event{"as": "user:bob"}, event{"sessionId": board.valueAt("viewer", "liveBoard", "sessionId")})
	s.runAndRepeat("endShow", event{"as": "user:carol", "showId": show}, event{"replayUrl": "https://example.com/r"})
	s.runAndRepeat("setReplay", event{"as": "user:carol", "showId": show, "replayUrl": "https://example.com/r"}, event{"replayUrl": ""})
	show = s.runAndRepeat("scheduleShow", event{"as": "user:carol", "title": "w", "plannedAt": planned}, nil)
	s.runAndRepeat("cancelShow", event{"as": "user:carol", "showId": show}, event{"showId": alterID(show)})
}
