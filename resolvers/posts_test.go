package resolvers

import (
	"fmt"
	"reflect"
	"slices"
	"testing"
	"time"

	"tidings/services"
)

// commentThread is a post of ann's with a comment and a like by each of some users, who have different relations to vera.
type commentThread struct {
	*testAPI
	post          string            // the ID of the post
	commentByUser map[string]string // the ID of each user's comment, by the user's key
}

// newCommentThread makes the post, and then the comments and likes of users whose names say what follows: hider hides from vera, blocker
// blocks vera, vera blocks blocked and mutes muted, and deleter deletes their comment. Nothing follows for plain.
func newCommentThread(t *testing.T) *commentThread {
	th := &commentThread{testAPI: newAPI(t), commentByUser: map[string]string{}}
	writers := []string{"plain", "hider", "blocker", "blocked", "muted", "deleter"}
	th.MakeNamedUsers(append([]string{"ann", "vera"}, writers...)...)
	th.post = th.publishPost("ann")
	for _, user := range writers {
		th.Clock.Advance(time.Second)
		th.commentByUser[user] = th.publishAnswer(user, th.post)
		th.must(user, `mutation($id: ID!) { likePost(input: {postId: $id}) { changed } }`, map[string]any{"id": th.post})
	}
	const restrict = `mutation { %s(input: {userId: "user:%s"}) { changed } }`
	th.must("hider", fmt.Sprintf(restrict, "hideFrom", "vera"), nil)
	th.must("blocker", fmt.Sprintf(restrict, "block", "vera"), nil)
	th.must("vera", fmt.Sprintf(restrict, "block", "blocked"), nil)
	th.must("vera", fmt.Sprintf(restrict, "mute", "muted"), nil)
	th.must("deleter", `mutation($id: ID!) { deletePost(input: {postId: $id}) { changed } }`, map[string]any{"id": th.commentByUser["deleter"]})
	return th
}

// publishAnswer publishes an answer to a post as a viewer.
func (a *testAPI) publishAnswer(key, parent string) string {
	a.t.Helper()
	got := a.must(key, `mutation($p: ID!) { publishPost(input: {body: "an answer", parentId: $p}) { post { id } } }`, map[string]any{"p": parent})
	id, _ := got.valueAt("publishPost", "post", "id").(string)
	return id
}

const threadQuery = `query($id: ID!) { node(id: $id) { ... on Post { likeCount commentCount viewerHasLiked viewerCanEdit editedAt
	comments { edges { node { id author { key } parent { id } } } pageInfo { hasNextPage } } likes { edges { likedAt node { key } } pageInfo { hasNextPage } } } } }`

// edgeValues are the values at a path in each edge of one of the lists of a node, such as its comments.
func (a apiAnswer) edgeValues(list string, path ...any) (keys []string) {
	edges, _ := a.valueAt("node", list, "edges").([]any)
	for i := range edges {
		key, _ := a.valueAt(append([]any{"node", list, "edges", i}, path...)...).(string)
		keys = append(keys, key)
	}
	return keys
}

func TestListsOfAPostLeaveOutHiddenUsersAndCountsDoNot(t *testing.T) {
	th := newCommentThread(t)
	for viewer, shown := range map[string]struct{ comments, likes []string }{
		"vera": {[]string{"muted", "plain"}, []string{"deleter", "muted", "plain"}},
		"ann":  {[]string{"muted", "blocked", "blocker", "hider", "plain"}, []string{"deleter", "muted", "blocked", "blocker", "hider", "plain"}},
	} {
		got := th.must(viewer, threadQuery, map[string]any{"id": th.post})
		if keys := got.edgeValues("comments", "node", "author", "key"); !slices.Equal(keys, shown.comments) {
			t.Errorf("%s is shown the comments of %v, want %v", viewer, keys, shown.comments)
		}
		if keys := got.edgeValues("likes", "node", "key"); !slices.Equal(keys, shown.likes) {
			t.Errorf("%s is shown the likes of %v, want %v", viewer, keys, shown.likes)
		}
		if likes, comments := got.valueAt("node", "likeCount"), got.valueAt("node", "commentCount"); likes != 6.0 || comments != 5.0 {
			t.Errorf("%s is shown %v likes and %v comments", viewer, likes, comments)
		}
		if got.valueAt("node", "viewerCanEdit") != (viewer == "ann") || got.valueAt("node", "viewerHasLiked") != false || got.valueAt("node", "editedAt") != nil {
			t.Errorf("%s is shown %v", viewer, got.Data)
		}
	}
	if got := th.must("vera", `mutation { unblock(input: {userId: "user:blocked"}) { changed } }`, nil); len(got.Errors) > 0 {
		t.Fatal(got.Errors)
	}
	th.must("hider", `mutation { unhideFrom(input: {userId: "user:vera"}) { changed } }`, nil)
	got := th.must("vera", threadQuery, map[string]any{"id": th.post})
	if keys, want := got.edgeValues("comments", "node", "author", "key"), []string{"muted", "blocked", "hider", "plain"}; !slices.Equal(keys, want) {
		t.Errorf("afterwards the comments are those of %v, want %v", keys, want)
	}
	th.must("ann", `mutation { hideFrom(input: {userId: "user:vera"}) { changed } }`, nil)
	if got := th.must("vera", threadQuery, map[string]any{"id": th.post}); got.valueAt("node") != nil {
		t.Errorf("a hidden post is shown: %v", got.Data)
	}
	if got := th.must("vera", threadQuery, map[string]any{"id": th.commentByUser["plain"]}); got.valueAt("node", "commentCount") != 0.0 {
		t.Errorf("a comment on a hidden post is %v", got.Data)
	}
}

func TestAParentIsNullWhereItsAuthorHidesItAndParentIDStays(t *testing.T) {
	th := newCommentThread(t)
	replies := map[string]string{}
	for _, user := range []string{"plain", "hider", "blocker", "blocked"} {
		replies[user] = th.publishAnswer("ann", th.commentByUser[user])
	}
	query := `query($ids: [ID!]!) { nodes(ids: $ids) { ... on Post { parentId parent { id author { key } likeCount parent { id } } } } }`
	ids, order := []string{}, []string{"plain", "hider", "blocker", "blocked"}
	for _, user := range order {
		ids = append(ids, replies[user])
	}
	got := th.must("vera", query, map[string]any{"ids": append(ids, th.post)})
	for i, user := range order {
		visible := user == "plain" || user == "blocked" // by its id, a post of a user that the viewer blocks is shown
		if id := got.valueAt("nodes", i, "parentId"); id != th.commentByUser[user] {
			t.Errorf("the parentId of a reply to %s is %v", user, id)
		}
		if parent := got.valueAt("nodes", i, "parent"); (parent != nil) != visible {
			t.Errorf("the parent of a reply to %s is %v", user, parent)
		}
		if visible && (got.valueAt("nodes", i, "parent", "author", "key") != user || got.valueAt("nodes", i, "parent", "parent", "id") != th.post) {
			t.Errorf("the parent of a reply to %s is %v", user, got.valueAt("nodes", i, "parent"))
		}
	}
	if got.valueAt("nodes", 4, "parent") != nil || got.valueAt("nodes", 4, "parentId") != nil {
		t.Errorf("a post of its own has the parent %v", got.valueAt("nodes", 4))
	}
	th.must("plain", `mutation($id: ID!) { deletePost(input: {postId: $id}) { changed } }`, map[string]any{"id": th.commentByUser["plain"]})
	got = th.must("vera", query, map[string]any{"ids": ids})
	if got.valueAt("nodes", 0, "parent") != nil || got.valueAt("nodes", 0, "parentId") != th.commentByUser["plain"] {
		t.Errorf("a deleted parent is %v", got.valueAt("nodes", 0))
	}
}

// The payload of a deletion has the parent, with its count after the change, as far as the viewer may see it: also when the
// deletion is repeated, and for each of two deletions in one request.
func TestTheDeletionOfAnAnswerShowsItsParent(t *testing.T) {
	th := newCommentThread(t)
	const remove = `deletePost(input: {postId: $id, idempotencyKey: $key}) { changed parent { id commentCount author { key } } }`
	parentAfter := func(user, id string, key any) any {
		t.Helper()
		return th.must(user, `mutation($id: ID!, $key: String) { `+remove+` }`, map[string]any{"id": id, "key": key}).valueAt("deletePost", "parent")
	}
	parent := func(id, author string, comments float64) any {
		return map[string]any{"id": id, "commentCount": comments, "author": map[string]any{"key": author}}
	}
	for range 2 { // the second is answered from the idempotency key
		if got, want := parentAfter("plain", th.commentByUser["plain"], "once"), parent(th.post, "ann", 4); !reflect.DeepEqual(got, want) {
			t.Errorf("the parent of a deleted comment is %v, want %v", got, want)
		}
	}
	if got, want := parentAfter("plain", th.commentByUser["plain"], nil), parent(th.post, "ann", 4); !reflect.DeepEqual(got, want) {
		t.Errorf("the parent of a comment that was deleted before is %v, want %v", got, want)
	}
	both := th.must("ann", `mutation($a: ID!, $b: ID!) { a: deletePost(input: {postId: $a}) { parent { commentCount } } b: deletePost(input: {postId: $b}) { parent { commentCount } } }`,
		map[string]any{"a": th.publishAnswer("ann", th.post), "b": th.publishAnswer("ann", th.post)})
	if both.valueAt("a", "parent", "commentCount") != 5.0 || both.valueAt("b", "parent", "commentCount") != 4.0 {
		t.Errorf("two deletions show %v", both.Data)
	}
	if got, want := parentAfter("ann", th.publishAnswer("ann", th.commentByUser["blocked"]), nil), parent(th.commentByUser["blocked"], "blocked", 0); !reflect.DeepEqual(got, want) {
		t.Errorf("the parent of a deleted reply is %v, want %v", got, want)
	}
	hidden := th.publishAnswer("vera", th.post)
	th.must("ann", `mutation { hideFrom(input: {userId: "user:vera"}) { changed } }`, nil)
	if got := parentAfter("vera", hidden, nil); got != nil {
		t.Errorf("the author of the parent hides it, and the payload has %v", got)
	}
	orphan := th.publishAnswer("muted", th.commentByUser["blocker"])
	th.must("blocker", `mutation($id: ID!) { deletePost(input: {postId: $id}) { changed } }`, map[string]any{"id": th.commentByUser["blocker"]})
	if got := parentAfter("muted", orphan, nil); got != nil {
		t.Errorf("the parent is deleted, and the payload has %v", got)
	}
	if got := parentAfter("ann", th.post, nil); got != nil {
		t.Errorf("a post of its own has the parent %v", got)
	}
}

// A payload shows the post as it is after the mutation, also when the mutation is repeated.
func TestPayloadsShowThePostAfterTheChange(t *testing.T) {
	a := newAPI(t)
	post := a.publishPost("alice")
	const shown = " { changed post { likeCount commentCount viewerHasLiked viewerCanEdit editedAt } }"
	for _, step := range []struct {
		mutation string
		changed  bool
		likes    float64
	}{{"likePost", true, 1}, {"likePost", false, 1}, {"unlikePost", true, 0}, {"unlikePost", false, 0}, {"likePost", true, 1}} {
		got := a.must("bob", "mutation($id: ID!) { "+step.mutation+"(input: {postId: $id})"+shown+" }", map[string]any{"id": post})
		want := map[string]any{"changed": step.changed, "post": map[string]any{
			"likeCount": step.likes, "commentCount": 0.0, "viewerHasLiked": step.likes > 0, "viewerCanEdit": false, "editedAt": nil,
		}}
		if !reflect.DeepEqual(got.valueAt(step.mutation), any(want)) {
			t.Errorf("%s shows %v, want %v", step.mutation, got.valueAt(step.mutation), want)
		}
	}
	a.Clock.Advance(time.Minute)
	got := a.must("alice", `mutation($id: ID!) { editPost(input: {postId: $id, body: "better"}) { post { body editedAt viewerCanEdit likeCount } } }`, map[string]any{"id": post})
	at, err := time.Parse(time.RFC3339, fmt.Sprint(got.valueAt("editPost", "post", "editedAt")))
	if err != nil || at.Sub(a.Clock.Now()).Abs() > time.Second || got.valueAt("editPost", "post", "viewerCanEdit") != true || got.valueAt("editPost", "post", "likeCount") != 1.0 {
		t.Errorf("after the edit the post is %v", got.Data)
	}
	got = a.must("bob", `mutation($id: ID!) { publishPost(input: {body: "an answer", parentId: $id}) { post { editedAt parent { commentCount body editedAt } } } }`, map[string]any{"id": post})
	if got.valueAt("publishPost", "post", "editedAt") != nil || got.valueAt("publishPost", "post", "parent", "commentCount") != 1.0 || got.valueAt("publishPost", "post", "parent", "editedAt") == nil {
		t.Errorf("the answer is %v", got.Data)
	}
}

// Another node shows the edit too: from the copy in Redis, and from SQL.
func TestEveryNodeShowsThatAPostWasEdited(t *testing.T) {
	a := newAPI(t)
	post := a.publishPost("alice")
	a.Clock.Advance(time.Minute)
	a.must("alice", `mutation($id: ID!) { editPost(input: {postId: $id, body: "better"}) { post { id } } }`, map[string]any{"id": post})
	for _, flush := range []bool{false, true} {
		if flush {
			a.Must(a.Redis.Client.Commands().FlushAll(t.Context()).Err())
		}
		other := newAPIOn(t, a.AnotherNode(), 0, 0)
		if got := other.must("bob", threadQuery, map[string]any{"id": post}); got.valueAt("node", "editedAt") == nil {
			t.Errorf("flushed %t: the post is %v", flush, got.Data)
		}
	}
}

// Pages of a post's lists neither repeat nor skip items, and a cursor belongs to one list of one post.
func TestListsOfAPostArePaged(t *testing.T) {
	a := newAPI(t)
	var users []string
	for i := range 9 {
		users = append(users, fmt.Sprintf("p%02d", i))
	}
	a.MakeNamedUsers(users...)
	post, other := a.publishPost("alice"), a.publishPost("alice")
	for i, user := range users {
		a.publishAnswer(user, post)
		a.must(user, `mutation($id: ID!) { likePost(input: {postId: $id}) { changed } }`, map[string]any{"id": post})
		if i%2 == 0 {
			a.must(user, `mutation { hideFrom(input: {userId: "user:bob"}) { changed } }`, nil)
		}
	}
	slices.Reverse(users)
	foreign := map[string]string{}
	for list, path := range map[string][]any{"comments": {"node", "author", "key"}, "likes": {"node", "key"}} {
		node := map[string]string{"comments": "author { key }", "likes": "key"}[list]
		query := "query($id: ID!, $after: String) { node(id: $id) { ... on Post { " + list + "(first: 2, after: $after) { edges { cursor node { " + node + " } } pageInfo { hasNextPage endCursor } } } } }"
		for viewer, want := range map[string][]string{"alice": users, "bob": {"p07", "p05", "p03", "p01"}} {
			var walked []string
			var after any
			for more := true; more; {
				got := a.must(viewer, query, map[string]any{"id": post, "after": after})
				walked = append(walked, got.edgeValues(list, path...)...)
				after, more = got.valueAt("node", list, "pageInfo", "endCursor"), got.valueAt("node", list, "pageInfo", "hasNextPage") == true
				foreign[list], _ = got.valueAt("node", list, "edges", 0, "cursor").(string)
				if got := a.askAs(viewer, query, map[string]any{"id": other, "after": foreign[list]}); got.code() != services.Invalid {
					t.Errorf("a cursor of another post's %s: %+v", list, got)
				}
			}
			if !slices.Equal(walked, want) {
				t.Errorf("%s walks through the %s %v, want %v", viewer, list, walked, want)
			}
		}
	}
	for list, cursor := range map[string]string{"comments": foreign["likes"], "likes": foreign["comments"]} {
		for _, after := range []string{cursor, "", "x", "!", feedCursorText(1, 5)} {
			got := a.askAs("alice", "query($id: ID!, $after: String) { node(id: $id) { ... on Post { likeCount "+list+"(after: $after) { edges { cursor } } } } }", map[string]any{"id": post, "after": after})
			if got.code() != services.Invalid || got.valueAt("node", "likeCount") != 9.0 {
				t.Errorf("%s after %q: %+v", list, after, got)
			}
		}
	}
}

// aScreenOfPostsIsReadInBatches checks that a page of 20 posts takes one query for each kind of object on it: answers, likes and parents.
// So does a page of notifications.
func aScreenOfPostsIsReadInBatches(t *testing.T, c *filledWorld) {
	const fields = "id viewerHasLiked likeCount commentCount viewerCanEdit editedAt"
	const post = fields + ` body author { name } comments(first: 3) { edges { node { ` + fields + ` author { name } } } pageInfo { hasNextPage } }
		likes(first: 3) { edges { node { name } } } parent { ` + fields + ` author { name } }`
	got := c.askColdAndWarm(t, "{ viewer { homeFeed(first: 20) { edges { node { "+post+" } } } } }", nil)
	commented := 0
	edges, _ := got.valueAt("viewer", "homeFeed", "edges").([]any)
	for i := range edges {
		if got.valueAt("viewer", "homeFeed", "edges", i, "node", "comments", "edges", 0, "node", "author", "name") != nil {
			commented++
		}
	}
	if len(edges) != 20 || commented == 0 {
		t.Errorf("%d posts, %d of them with comments: %v", len(edges), commented, got.Data)
	}
	c.askColdAndWarm(t, "{ viewer { notifications(first: 20) { edges { node { subject { "+post+" } causes(first: 5) { ... on User { name } ... on Post { "+post+" } } } } } } }", nil)
}

// The notifications of ann, the author of a thread's post, have the posts that answer or mention ann, and the users who acted.
// Posts that are hidden from ann leave the notifications. Users who like ann's post or follow ann stay, unless ann blocks them.
func TestANotificationHasItsCausesAndActors(t *testing.T) {
	th := newCommentThread(t)
	th.must("plain", `mutation { follow(input: {userId: "user:ann"}) { changed } publishPost(input: {body: "hello @ann"}) { post { id } } }`, nil)
	at := th.Clock.Now().Add(time.Hour)
	got := th.must("plain", `mutation($at: Time!) { scheduleShow(input: {title: "Evening", plannedAt: $at}) { show { id } } }`, map[string]any{"at": at})
	show := got.valueAt("scheduleShow", "show", "id")
	th.must("ann", `mutation($id: ID!) { remindMe(input: {showId: $id}) { changed } }`, map[string]any{"id": show})
	th.must("plain", `mutation($id: ID!) { startShow(input: {showId: $id}) { changed } }`, map[string]any{"id": show})
	th.RunAllJobs(th.Fanout)
	causes := func(first int) map[string][]string {
		t.Helper()
		query := fmt.Sprintf(`{ viewer { notifications { edges { node { category causes(first: %d) { __typename
			... on Post { author { key } body parentId } ... on User { key } ... on Show { title } } } } } } }`, first)
		got, found := th.must("ann", query, nil), map[string][]string{}
		edges, _ := got.valueAt("viewer", "notifications", "edges").([]any)
		for i := range edges {
			category, _ := got.valueAt("viewer", "notifications", "edges", i, "node", "category").(string)
			list, ok := got.valueAt("viewer", "notifications", "edges", i, "node", "causes").([]any)
			if !ok {
				t.Errorf("the causes of a %s are null", category)
			}
			found[category] = []string{}
			for k := range list {
				cause := list[k].(map[string]any)
				author, _ := cause["author"].(map[string]any)
				found[category] = append(found[category], fmt.Sprint(cause["__typename"], " ", firstNonNil(author["key"], cause["key"], cause["title"])))
			}
		}
		return found
	}
	want := map[string][]string{
		"COMMENT": {"Post muted", "Post blocked", "Post blocker", "Post hider", "Post plain"},
		"LIKE":    {"User deleter", "User muted", "User blocked", "User blocker", "User hider", "User plain"},
		"MENTION": {"Post plain"}, "FOLLOW": {"User plain"}, "REMINDER": {"Show Evening"},
	}
	if got := causes(100); !reflect.DeepEqual(got, want) {
		t.Errorf("ann is led to %v, want %v", got, want)
	}
	if got := causes(2); !reflect.DeepEqual(got["LIKE"], want["LIKE"][:2]) || !reflect.DeepEqual(got["COMMENT"], want["COMMENT"][:2]) {
		t.Errorf("with first 2 ann is led to %v", got)
	}
	th.must("hider", `mutation { hideFrom(input: {userId: "user:ann"}) { changed } }`, nil)
	th.must("blocker", `mutation { block(input: {userId: "user:ann"}) { changed } }`, nil)
	th.must("ann", `mutation { block(input: {userId: "user:blocked"}) { changed } mute(input: {userId: "user:muted"}) { changed } }`, nil)
	want["COMMENT"], want["LIKE"] = []string{"Post muted", "Post plain"}, []string{"User deleter", "User muted", "User blocker", "User hider", "User plain"}
	for _, when := range []string{"before the jobs ran", "afterwards"} {
		if got := causes(100); !reflect.DeepEqual(got["COMMENT"], want["COMMENT"]) || !reflect.DeepEqual(got["LIKE"], want["LIKE"]) {
			t.Errorf("%s ann is led to %v, want %v", when, got, want)
		}
		th.RunAllJobs(th.Fanout)
	}
	th.must("plain", `mutation { hideFrom(input: {userId: "user:ann"}) { changed } }`, nil)
	if got := causes(100); !reflect.DeepEqual(got["FOLLOW"], want["FOLLOW"]) {
		t.Errorf("ann is not led to a follower who hides: %v", got)
	}
	got = th.askAs("ann", `{ viewer { notifications { edges { node { id causes(first: 0) { __typename } } } } } }`, nil)
	if got.code() != services.Invalid || got.valueAt("viewer", "notifications", "edges", 0, "node", "id") == nil {
		t.Errorf("with first 0: %+v", got)
	}
}

// firstNonNil returns the first value that is not nil.
func firstNonNil(values ...any) any {
	for _, value := range values {
		if value != nil {
			return value
		}
	}
	return nil
}
