package contract

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"tidings/services/sql/sqltest"
	"tidings/tests/world"
)

// othersActionsQuery selects every field that shows a user the acts of others on the user and on one of the user's posts.
const othersActionsQuery = `query($p:ID!){
	node(id:$p){... on Post{likeCount likes{nodes{key}}}}
	viewer{
		user{followers{nodes{key followsViewer}}}
		badges{total{value} notifications{total{value} like{value} follow{value}}}
		notifications{nodes{category actorCount actors{key} causes{... on User{key}}}}
		unseen:notifications(unseenOnly:true){nodes{category actorCount}}
		badgeExplained{source part count{value} items{node{... on Notification{category actorCount actors{key} causes(first:1){... on User{key}}}}}}
		awayDigest(since:"2020-01-01T00:00:00Z"){parts{source part count{value}}}
	}}`

// readOthersActions reads othersActionsQuery as a user, for a post, once all jobs are done.
func readOthersActions(n *world.Node, as, post string) (seen any) {
	n.TB.Helper()
	n.SettleJobsAndCaches()
	var data json.RawMessage
	n.MustAsk(as, othersActionsQuery, map[string]any{"p": post}, &data)
	world.DecodeJSON(n.TB, data, &seen)
	return seen
}

// userKeysInList returns the keys of an answer's list of objects with a key.
func userKeysInList(t *testing.T, list any) (keys []string) {
	t.Helper()
	for _, one := range list.([]any) {
		keys = append(keys, one.(map[string]any)["key"].(string))
	}
	return keys
}

// Dave likes a post of each user and follows them. Then dave hides from hank, blocks blair, and unfollows sam. Hank sees the same as
// before, and blair the same as sam: a hide shows nowhere, and a block looks like the unfollow that it includes. All lists name the
// same users.
func TestLikesAndFollowsTellNothingOfAHideOrBlock(t *testing.T) {
	n := world.StartNode(t, world.NodeOptions{Database: sqltest.SQLite(t), Redis: "embedded", ManualStepping: true})
	n.CreateUsers("dave", "hank", "blair", "sam")
	post, before := map[string]string{}, map[string]any{}
	for _, as := range []string{"hank", "blair", "sam"} {
		post[as] = n.Publish(as, "mine")
		n.Follow("dave", as)
		n.MustAsk("dave", mutLike, map[string]any{"v": post[as]}, nil)
		before[as] = readOthersActions(n, as, post[as])
		shown := before[as].(map[string]any)["viewer"].(map[string]any)["notifications"].(map[string]any)["nodes"].([]any)
		for _, one := range shown {
			if of := one.(map[string]any); len(userKeysInList(t, of["causes"])) != 1 || !cmp.Equal(of["causes"], of["actors"]) || of["actorCount"] != 1.0 {
				t.Errorf("%s is notified of %v", as, of)
			}
		}
		if len(shown) != 2 {
			t.Fatalf("%s is notified of %v", as, shown)
		}
	}
	n.MustAsk("dave", `mutation{hideFrom(input:{userId:"user:hank"}){user{id}} block(input:{userId:"user:blair"}){user{id}} unfollow(input:{userId:"user:sam"}){user{id}}}`, nil, nil)
	if diff := cmp.Diff(before["hank"], readOthersActions(n, "hank", post["hank"])); diff != "" {
		t.Errorf("a hide changes what hank sees:\n%s", diff)
	}
	unfollowed := readOthersActions(n, "sam", post["sam"])
	if diff := cmp.Diff(unfollowed, readOthersActions(n, "blair", post["blair"])); diff != "" {
		t.Errorf("a block does not look like an unfollow:\n%s", diff)
	}
	if cmp.Equal(before["sam"], unfollowed) {
		t.Error("the end of a follow shows nowhere")
	}
	// A like that is undone is removed from every list, also for users that the liker hides from.
	for _, as := range []string{"hank", "blair", "sam"} {
		n.MustAsk("dave", `mutation($v:ID!){unlikePost(input:{postId:$v}){changed}}`, map[string]any{"v": post[as]}, nil)
	}
	gone := readOthersActions(n, "sam", post["sam"])
	if diff := cmp.Diff(gone, readOthersActions(n, "blair", post["blair"])); diff != "" {
		t.Errorf("after an unlike blair sees another answer than sam:\n%s", diff)
	}
	if hanks := readOthersActions(n, "hank", post["hank"]).(map[string]any); !cmp.Equal(hanks["node"], gone.(map[string]any)["node"]) {
		t.Errorf("after an unlike hank is shown %v", hanks["node"])
	}
	// On another user's post, the list of likes omits users who hide from the viewer or block them.
	n.MustAsk("dave", mutLike, map[string]any{"v": post["sam"]}, nil)
	for as, want := range map[string]int{"sam": 1, "hank": 0, "blair": 0} {
		node := readOthersActions(n, as, post["sam"]).(map[string]any)["node"].(map[string]any)
		if likers := userKeysInList(t, node["likes"].(map[string]any)["nodes"]); len(likers) != want {
			t.Errorf("%s reads that %v like the post of sam", as, likers)
		}
	}
}
