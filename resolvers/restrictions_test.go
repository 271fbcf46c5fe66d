package resolvers

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"tidings/services"
)

// runUserMutation sends, as a viewer, a mutation whose input is a user.
func (a *testAPI) runUserMutation(key, mutation, user string) apiAnswer {
	a.t.Helper()
	a.Clock.Advance(time.Second)
	name := strings.ToUpper(mutation[:1]) + mutation[1:]
	return a.askAs(key, fmt.Sprintf(`mutation($i: %sInput!) { %s(input: $i) { user { key } badges { homeFeed { value } total { value } } } }`, name, mutation),
		map[string]any{"i": map[string]any{"userId": user}})
}

// Each mutation returns the user in its input, and the viewer's badges after the mutation.
func TestMutationsOnUsersReturnUserAndBadges(t *testing.T) {
	a := newAPI(t)
	a.runUserMutation("alice", "follow", "user:bob")
	a.Clock.Advance(time.Second)
	a.publishPost("bob")
	a.RunAllJobs(a.Fanout)
	for _, step := range []struct {
		mutation string
		news     float64 // how many posts are unread in the home feed afterwards
	}{{"mute", 0}, {"unmute", 1}, {"hideFrom", 1}, {"unhideFrom", 1}, {"block", 0}, {"unblock", 0}, {"follow", 0}} {
		got := a.runUserMutation("alice", step.mutation, "user:bob")
		if got.valueAt(step.mutation, "user", "key") != "bob" || got.valueAt(step.mutation, "badges", "homeFeed", "value") != step.news {
			t.Errorf("%s: %+v %+v, want %v new", step.mutation, got.Data, got.Errors, step.news)
		}
	}
	for _, bad := range []struct {
		mutation, user string
		code           services.Code
	}{
		{"unmute", "user:bob", ""}, {"mute", "user:alice", services.Invalid}, {"block", "post:1", services.Invalid},
		{"hideFrom", "user:a b", services.Invalid}, {"unblock", "user:nobody", services.NotFound}, {"unblock", "user:carol", ""},
	} {
		if got := a.runUserMutation("alice", bad.mutation, bad.user); got.code() != bad.code {
			t.Errorf("%s %s: %+v, want %s", bad.mutation, bad.user, got, bad.code)
		}
	}
}

// restrictionsQuery reads one of the viewer's lists. Its %s is the name of the list: mutes, blocks or hides.
const restrictionsQuery = `query($first: Int, $after: String) { viewer { %s(first: $first, after: $after) {
	pageInfo { hasNextPage startCursor endCursor } edges { cursor since until node { key } } } } }`

// Each list shows only its own users, the newest first, page by page, and only to its owner.
func TestListsOfRestrictions(t *testing.T) {
	a := newAPI(t)
	for list, mutation := range map[string]string{"mutes": "mute", "blocks": "block", "hides": "hideFrom"} {
		for i := range 5 {
			a.MakeNamedUsers(fmt.Sprint(mutation, i))
			if got := a.runUserMutation("alice", mutation, fmt.Sprint("user:", mutation, i)); got.code() != "" {
				t.Fatalf("%+v", got)
			}
		}
		query := fmt.Sprintf(restrictionsQuery, list)
		var keys []string
		var after any
		for more := any(true); more == true; {
			got := a.must("alice", query, map[string]any{"first": 2, "after": after})
			edges, _ := got.valueAt("viewer", list, "edges").([]any)
			for i := range edges {
				keys = append(keys, got.valueAt("viewer", list, "edges", i, "node", "key").(string))
				if got.valueAt("viewer", list, "edges", i, "since") == nil || got.valueAt("viewer", list, "edges", i, "until") != nil {
					t.Errorf("%s: %v", list, edges[i])
				}
			}
			more, after = got.valueAt("viewer", list, "pageInfo", "hasNextPage"), got.valueAt("viewer", list, "pageInfo", "endCursor")
		}
		if want := []string{mutation + "4", mutation + "3", mutation + "2", mutation + "1", mutation + "0"}; !slices.Equal(keys, want) {
			t.Errorf("%s are %v, want %v", list, keys, want)
		}
		if got := a.must("bob", query, nil); got.valueAt("viewer", list, "edges", 0) != nil {
			t.Errorf("bob's %s: %+v", list, got.Data)
		}
		if got := a.askAs("bob", query, map[string]any{"after": after}); got.code() != services.Invalid || !strings.Contains(got.Errors[0].Message, "another user's") {
			t.Errorf("a cursor of alice's %s: %+v", list, got)
		}
		for _, other := range []string{"mutes", "blocks", "hides"} {
			if got := a.askAs("alice", fmt.Sprintf(restrictionsQuery, other), map[string]any{"after": after}); (got.code() == services.Invalid) == (other == list) {
				t.Errorf("a cursor of the %s among the %s: %+v", list, other, got)
			}
		}
		for _, first := range []int{0, 101} {
			if got := a.askAs("alice", query, map[string]any{"first": first}); got.code() != services.Invalid {
				t.Errorf("first: %d: %+v", first, got)
			}
		}
	}
}

func TestMutesUntilATime(t *testing.T) {
	a := newAPI(t)
	mute := func(until time.Time) apiAnswer {
		return a.askAs("alice", `mutation($i: MuteInput!) { mute(input: $i) { user { key } } }`,
			map[string]any{"i": map[string]any{"userId": "user:bob", "until": until.UTC().Format(time.RFC3339Nano)}})
	}
	yesterday := a.Clock.Now().Add(-24 * time.Hour)
	if got := mute(yesterday); got.code() != services.Invalid || !strings.Contains(got.Errors[0].Message, yesterday.Format("until: 2006-01-02T15:04")) {
		t.Errorf("until yesterday: %+v", got)
	}
	until := a.Clock.Now().Add(time.Hour)
	for range 2 {
		if got := mute(until); got.code() != "" {
			t.Fatalf("%+v", got)
		}
	}
	got := a.must("alice", fmt.Sprintf(restrictionsQuery, "mutes"), nil)
	if got.valueAt("viewer", "mutes", "edges", 0, "until") != until.UTC().Format("2006-01-02T15:04:05.000Z") || got.valueAt("viewer", "mutes", "edges", 1) != nil {
		t.Errorf("%+v", got.Data)
	}
}

// An event can set each restriction, with the same errors as the mutation.
func TestEventsSetEveryRestriction(t *testing.T) {
	a := newAPI(t)
	on := func(verb, as, user string) event {
		return event{verb: event{"as": "user:" + as, "userId": "user:" + user}}
	}
	past := on("mute", "alice", "bob")
	past["mute"].(event)["until"] = "2001-01-01T00:00:00Z"
	got := a.ingest(on("mute", "alice", "bob"), on("unmute", "alice", "bob"), on("unmute", "alice", "bob"), past,
		on("hideFrom", "alice", "bob"), on("hideFrom", "alice", "bob"), on("unhideFrom", "alice", "bob"),
		on("block", "alice", "bob"), on("follow", "bob", "alice"), on("unblock", "alice", "bob"), on("follow", "bob", "alice"), on("block", "bob", "bob"))
	for i, want := range []any{nil, nil, nil, "INVALID", nil, nil, nil, nil, "NOT_FOUND", nil, nil, "INVALID"} {
		id := got.valueAt("ingest", "results", i, "id")
		if code := got.valueAt("ingest", "results", i, "error", "code"); code != want || (code == nil) != (id == "user:bob" || id == "user:alice") {
			t.Errorf("event %d: %v, want %v", i, got.valueAt("ingest", "results", i), want)
		}
	}
}

// For the blocked user the blocker's posts do not exist: they cannot be liked, unliked or answered. Mentions by the blocked
// user reach the blocker neither now nor when the block has ended; mentions by others do.
func TestABlockersPostsDoNotExistForTheBlocked(t *testing.T) {
	a := newAPI(t)
	post, _ := a.notifyInEachCategory()
	a.runUserMutation("alice", "block", "user:bob")
	a.wantNotifications("alice", "what bob did is gone", "MENTION 1")
	like := `mutation($p: ID!) { likePost(input: {postId: $p}) { post { id } } }`
	unlike := strings.Replace(like, "like", "unlike", 1)
	for _, act := range []string{like, unlike} {
		if got := a.askAs("bob", act, map[string]any{"p": post}); got.code() != services.NotFound || got.Errors[0].Message != "postId: there is no "+post {
			t.Errorf("%s of the blocked one: %+v", act, got)
		}
	}
	answer := `mutation($i: PublishPostInput!) { publishPost(input: $i) { post { id } } }`
	if got := a.askAs("bob", answer, map[string]any{"i": map[string]any{"body": "b", "parentId": post}}); got.code() != services.NotFound || got.Errors[0].Message != "parentId: there is no "+post {
		t.Errorf("an answer of the blocked one: %+v", got)
	}
	a.must("bob", answer, map[string]any{"i": map[string]any{"body": "@alice and @carol", "mentions": []string{"user:alice"}}})
	a.must("carol", answer, map[string]any{"i": map[string]any{"body": "@alice", "parentId": post}})
	a.wantNotifications("alice", "carol alone", "MENTION 1", "MENTION 1")
	a.wantNotifications("carol", "mentioned by bob", "MENTION 1")
	bobs := a.publishPost("bob")
	a.must("alice", like, map[string]any{"p": bobs}) // the user who blocks may still like
	a.runUserMutation("alice", "unblock", "user:bob")
	a.wantNotifications("alice", "the comment and the like are back, the follow has ended", "MENTION 1", "MENTION 1", "COMMENT 1", "LIKE 1")
	a.must("bob", unlike, map[string]any{"p": post})
	a.wantNotifications("alice", "bob takes the like back", "MENTION 1", "MENTION 1", "COMMENT 1")
}

// A block closes the DIRECT conversation of the two users for both, and it counts for neither. Creating it again opens it.
func TestABlockClosesTheConversation(t *testing.T) {
	a := newAPI(t)
	create := func(key, other string) apiAnswer {
		return a.askAs(key, `mutation($i: CreateConversationInput!) { createConversation(input: $i) { conversation { id memberCount unread { value } } } }`,
			map[string]any{"i": map[string]any{"kind": "DIRECT", "memberIds": []string{"user:" + other}}})
	}
	send := func(key, id string) apiAnswer {
		a.Clock.Advance(time.Second)
		return a.askAs(key, `mutation($i: SendMessageInput!) { sendMessage(input: $i) { message { id } } }`,
			map[string]any{"i": map[string]any{"conversationId": id, "body": "hi"}})
	}
	total := func(key string, want float64) {
		t.Helper()
		a.RunAllJobs(a.Fanout)
		got := a.must(key, `{ viewer { badges { conversations { total { value } } } conversations { edges { node { unread { value } } } } } }`, nil)
		if n := got.valueAt("viewer", "badges", "conversations", "total", "value"); n != want {
			t.Errorf("%s has %v, want %v: %+v", key, n, want, got.Data)
		}
	}
	id, _ := create("alice", "bob").valueAt("createConversation", "conversation", "id").(string)
	send("bob", id)
	send("alice", id)
	total("alice", 0)
	total("bob", 1)
	a.runUserMutation("alice", "block", "user:bob")
	for _, key := range []string{"alice", "bob"} {
		if got := send(key, id); got.code() != services.NotFound || got.Errors[0].Message != "conversationId: there is no "+id+" for you" {
			t.Errorf("%s says something: %+v", key, got)
		}
		total(key, 0)
	}
	for key, other := range map[string]string{"alice": "bob", "bob": "alice"} {
		if got := create(key, other); got.code() != services.NotFound || got.Errors[0].Message != `memberIds: there is no user "`+other+`"` {
			t.Errorf("%s begins again: %+v", key, got)
		}
	}
	a.runUserMutation("alice", "unblock", "user:bob")
	if got := send("bob", id); got.code() != services.NotFound {
		t.Errorf("before it is open: %+v", got)
	}
	if got := create("bob", "alice"); got.valueAt("createConversation", "conversation", "id") != id || got.valueAt("createConversation", "conversation", "memberCount") != 2.0 {
		t.Errorf("the conversation again: %+v", got)
	}
	if got := send("bob", id); got.code() != "" {
		t.Errorf("open again: %+v", got)
	}
	total("alice", 1)
	total("bob", 0)
}
