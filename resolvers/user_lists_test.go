package resolvers

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"tidings/services"
	"tidings/services/fanout/fanouttest"
)

const profileQuery = `query($id: ID!) { node(id: $id) { ... on User { key viewerFollows followsViewer viewerMutes viewerBlocks viewerHides
	followers { edges { node { key } } } followees { edges { node { key } } } posts { edges { node { id } } end } shows { edges { node { id host { key } } } } } } }`

// profile describes a user in one line, as a viewer sees the user.
func (a *testAPI) profile(key, user string) string {
	a.t.Helper()
	got := a.must(key, profileQuery, map[string]any{"id": "user:" + user})
	var line strings.Builder
	for _, field := range []string{"viewerFollows", "followsViewer", "viewerMutes", "viewerBlocks", "viewerHides"} {
		if got.valueAt("node", field) == true {
			line.WriteString(field + " ")
		}
	}
	for _, list := range []string{"followers", "followees", "posts", "shows"} {
		edges, _ := got.valueAt("node", list, "edges").([]any)
		fmt.Fprintf(&line, "%s:", list)
		for i := range edges {
			if name := got.valueAt("node", list, "edges", i, "node", "key"); name != nil {
				fmt.Fprintf(&line, " %v", name)
			} else {
				line.WriteString(" +")
			}
		}
		line.WriteString("; ")
	}
	return line.String()
}

// A viewer with relations to a user sees these relations and the user's lists; a stranger sees only the lists. To a viewer who is
// blocked or hidden from, all lists are empty, and only what the viewer has set is still shown. A user who hides from
// the viewer is in no list but the viewer's own.
func TestAProfileShowsWhatItsViewerMaySee(t *testing.T) {
	a := newAPI(t)
	a.MakeNamedUsers("stranger", "carol", "dan")
	a.runUserMutation("alice", "follow", "user:bob")
	a.runUserMutation("bob", "follow", "user:alice")
	a.runUserMutation("carol", "follow", "user:bob")
	a.publishPost("bob")
	a.scheduleShow("bob", time.Hour)
	a.publishAnswerMentioning("alice", a.publishPost("bob"), "a comment, which home feeds do not show")
	const all = "followers: carol alice; followees: alice; posts: + +; shows: +; "
	const nothing = "followers:; followees:; posts:; shows:; "
	want := func(what, key, user, profile string) {
		t.Helper()
		if got := a.profile(key, user); got != profile {
			t.Errorf("%s: %s sees of %s %q, want %q", what, key, user, got, profile)
		}
	}
	want("at first", "alice", "bob", "viewerFollows followsViewer "+all)
	want("at first", "stranger", "bob", all)
	want("at first", "bob", "bob", all)
	a.runUserMutation("alice", "mute", "user:bob")
	want("muted", "alice", "bob", "viewerFollows followsViewer viewerMutes "+all)
	want("muted", "bob", "alice", "viewerFollows followsViewer followers: bob; followees: bob; posts:; shows:; ")
	a.runUserMutation("bob", "hideFrom", "user:carol")
	want("hidden from", "carol", "bob", "viewerFollows "+nothing)
	want("hiding", "bob", "carol", "followsViewer viewerHides followers:; followees: bob; posts:; shows:; ")
	want("bob is in no list that carol sees", "carol", "alice", "followers:; followees:; posts:; shows:; ")
	a.runUserMutation("bob", "follow", "user:carol")
	want("but in their own", "carol", "carol", "followers: bob; followees: bob; posts:; shows:; ")
	a.runUserMutation("bob", "block", "user:stranger")
	want("blocked", "stranger", "bob", nothing)
	want("blocked", "stranger", "dan", nothing)
	want("blocking", "bob", "stranger", "viewerBlocks "+nothing)
	a.runUserMutation("bob", "block", "user:alice")
	want("a block ends the follows", "alice", "bob", "viewerMutes "+nothing)
	want("a block ends the follows", "dan", "bob", "followers: carol; followees: carol; posts: + +; shows: +; ")
}

// A page continues after the position where the last page ended, even if the item at that position is gone.
func TestACursorOfAUsersListOutlivesItsItem(t *testing.T) {
	a := newAPI(t)
	a.MakeNamedUsers("bob")
	var posts []string
	for i := range 3 {
		key := fmt.Sprint("fan", i)
		a.runUserMutation(key, "follow", "user:bob")
		a.MakeNamedUsers(key)
		a.runUserMutation("bob", "follow", "user:"+key)
		posts = append(posts, a.publishPost("bob"))
	}
	const query = `query($id: ID!, $followers: String, $followees: String, $posts: String) { node(id: $id) { ... on User {
		followers(first: 1, after: $followers) { nodes { key } pageInfo { endCursor hasNextPage } } followees(first: 1, after: $followees) { nodes { key } pageInfo { endCursor } }
		posts(first: 1, after: $posts) { nodes { id likeCount author { viewerFollows } } pageInfo { endCursor } end } } } }`
	page := func(after map[string]any) apiAnswer {
		after["id"] = "user:bob"
		return a.must("alice", query, after)
	}
	first := page(map[string]any{})
	after := map[string]any{}
	for _, list := range []string{"followers", "followees", "posts"} {
		after[list] = first.valueAt("node", list, "pageInfo", "endCursor")
	}
	a.runUserMutation("fan2", "unfollow", "user:bob")
	a.runUserMutation("bob", "unfollow", "user:fan2")
	a.must("bob", `mutation($id: ID!) { deletePost(input: {postId: $id}) { postId } }`, map[string]any{"id": posts[2]})
	next := page(after)
	if next.valueAt("node", "followers", "nodes", 0, "key") != "fan1" || next.valueAt("node", "followees", "nodes", 0, "key") != "fan1" || next.valueAt("node", "posts", "nodes", 0, "id") != posts[1] {
		t.Errorf("after %v comes %v", first.Data, next.Data)
	}
	if next.valueAt("node", "posts", "end") != nil || next.valueAt("node", "posts", "nodes", 0, "author", "viewerFollows") != false || next.valueAt("node", "followers", "pageInfo", "hasNextPage") != true {
		t.Errorf("the second page: %v", next.Data)
	}
}

// Each list of a user can be read to its end, and refuses cursors of another user or list.
func TestListsOfAUserArePaged(t *testing.T) {
	a := newAPIOn(t, fanouttest.New(t, fanouttest.Options{}), 0, 0)
	a.MakeNamedUsers("bob", "carol")
	for i := range 5 {
		key := fmt.Sprint("fan", i)
		a.runUserMutation(key, "follow", "user:bob")
		a.MakeNamedUsers(key)
		a.runUserMutation("bob", "follow", "user:"+key)
		a.runUserMutation(key, "follow", "user:carol")
		a.runUserMutation("carol", "follow", "user:"+key)
		for _, author := range []string{"bob", "carol"} {
			a.publishPost(author)
			a.scheduleShow(author, time.Duration(i+1)*time.Hour)
		}
	}
	lists := []string{"followers", "followees", "posts", "shows"}
	query := func(list string) string {
		return fmt.Sprintf(`query($id: ID!, $first: Int, $after: String) { node(id: $id) { ... on User { %s(first: $first, after: $after) {
			edges { cursor node { id } } pageInfo { hasNextPage startCursor endCursor } } } } }`, list)
	}
	for _, list := range lists {
		var ids []string
		var after, some any
		for more := any(true); more == true; {
			got := a.must("alice", query(list), map[string]any{"id": "user:bob", "first": 2, "after": after})
			page := func(path ...any) any { return got.valueAt(append([]any{"node", list}, path...)...) }
			edges, _ := page("edges").([]any)
			for i := range edges {
				ids = append(ids, page("edges", i, "node", "id").(string))
			}
			if some = page("edges", 0, "cursor"); some != page("pageInfo", "startCursor") || page("edges", len(edges)-1, "cursor") != page("pageInfo", "endCursor") {
				t.Errorf("%s: %v", list, page())
			}
			more, after = page("pageInfo", "hasNextPage"), page("pageInfo", "endCursor")
		}
		if slices.Sort(ids); len(ids) != 5 || len(slices.Compact(ids)) != 5 {
			t.Errorf("%s are %v", list, ids)
		}
		for _, other := range lists {
			if got := a.askAs("alice", query(other), map[string]any{"id": "user:bob", "after": some}); (got.code() == services.Invalid) == (other == list) {
				t.Errorf("a cursor of the %s among the %s: %+v", list, other, got)
			}
		}
		if got := a.askAs("alice", query(list), map[string]any{"id": "user:carol", "after": some}); got.code() != services.Invalid || !strings.Contains(got.Errors[0].Message, "another user's") {
			t.Errorf("a cursor of bob's %s among carol's: %+v", list, got)
		}
		foreign := []string{"", "no cursor", commentCursorText(1, 1), feedCursorText(2, 1), listCursorText(memberCursorKind, 2, 1), listCursorText(39, 2, 1), some.(string) + "A"}
		for _, cursor := range foreign {
			if got := a.askAs("alice", query(list), map[string]any{"id": "user:bob", "after": cursor}); got.code() != services.Invalid {
				t.Errorf("%s after %q: %+v", list, cursor, got)
			}
		}
		for _, first := range []int{0, 101} {
			if got := a.askAs("alice", query(list), map[string]any{"id": "user:bob", "first": first}); got.code() != services.Invalid {
				t.Errorf("%s, first %d: %+v", list, first, got)
			}
		}
	}
}
