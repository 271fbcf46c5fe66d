package resolvers

import (
	"testing"

	"tidings/dataloader"
	"tidings/graph"
	"tidings/services"
	"tidings/services/erasures"
	"tidings/services/feed"
	"tidings/services/live"
)

// A user who is being erased has no key. Lists and events leave such a user out, even if the facts still name them.
func TestUsersWithoutAKeyAreLeftOut(t *testing.T) {
	a := newAPI(t)
	ids := a.MakeNamedUsers("alice", "carol")
	alice, carol := ids[0], ids[1]
	talk := a.createConversation("GROUP", "alice", "bob", "carol")
	a.must("alice", `mutation($c:ID!){sendMessage(input:{conversationId:$c,body:"you",mentionIds:["user:bob","user:carol"]}){message{id}}}`, map[string]any{"c": talk})
	if _, _, err := erasures.Begin(t.Context(), a.DB, "carol"); err != nil {
		t.Fatal(err)
	}
	a.Caches.People.Drop(carol, "carol")
	keys := func(users []graph.User) (keys []string) {
		for _, user := range users {
			keys = append(keys, user.Key)
		}
		return keys
	}
	check := func(what string, keys []string, want int) {
		t.Helper()
		for _, key := range keys {
			if key == "" {
				t.Errorf("%s has a user without a key: %q", what, keys)
			}
		}
		if len(keys) != want {
			t.Errorf("%s: %q, want %d", what, keys, want)
		}
	}
	viewer, both := &graph.Viewer{UserID: alice}, []services.UserID{carol, alice}
	change, err := a.resolver.homeFeedChange(t.Context(), viewer, feed.FeedChange{NewestAuthors: both, Badges: &services.Badges{}})
	a.Must(err)
	check("homeFeedChanged", keys(change.Authors), 1)
	ctx := dataloader.With(t.Context(), a.resolver.Readers)
	authors, err := a.resolver.AwayDigest().Authors(ctx, &services.Digest{Authors: both})
	a.Must(err)
	check("awayDigest", keys(authors), 1)
	board, err := a.resolver.liveBoardChange(t.Context(), viewer, live.BoardChange{Badges: &services.Badges{}, Difference: live.Difference{
		Ended: []live.Show{{ID: 1, Host: carol}, {ID: 2, Host: alice}}, Cancelled: []live.Show{{ID: 3, Host: carol}},
	}})
	a.Must(err)
	var hosts []string
	for _, show := range append(board.Ended, board.Cancelled...) {
		hosts = append(hosts, show.Host.Key)
	}
	check("liveBoardChanged", hosts, 1)

	listed := func(what string, list any, want int) {
		t.Helper()
		var keys []string
		for _, one := range list.([]any) {
			keys = append(keys, one.(map[string]any)["key"].(string))
		}
		check(what, keys, want)
	}
	got := a.must("bob", `query($c:ID!){node(id:$c){... on Conversation{members(first:3){nodes{key} pageInfo{hasNextPage endCursor}} messages(first:1){nodes{mentions{key}}}}}}`, map[string]any{"c": talk})
	listed("members", got.valueAt("node", "members", "nodes"), 2)
	listed("mentions", got.valueAt("node", "messages", "nodes", 0, "mentions"), 1)
	// A page whose last member is left out has the cursor of that member, so that the next page goes on after them.
	end := got.valueAt("node", "members", "pageInfo", "endCursor")
	if end == nil {
		t.Fatal("the page has no end")
	}
	next := a.must("bob", `query($c:ID!,$a:String){node(id:$c){... on Conversation{members(first:3,after:$a){nodes{key}}}}}`, map[string]any{"c": talk, "a": end})
	listed("the next members", next.valueAt("node", "members", "nodes"), 0)
}
