package contract

import (
	"fmt"
	"strings"
	"testing"

	"tidings/services"
	"tidings/services/sql/sqltest"
	"tidings/tests/world"
)

// unusualUserKeys are keys that a careless program would split, escape or fold. Each must be a separate user.
var unusualUserKeys = []string{
	"auth0|123", "auth0%7C123", "did:plc:x", "ann@example.org", "@127.0.0.1", "Zo\u00eb", "zo\u00eb", "Zoe", "\u674e\u96f7", "a b", "a/b", "user:alice", "alice:admin", `q"uo\te`,
	"host", "admins", "{u1}:b", "a,b", "' OR 1=1 --", "100%", strings.Repeat("\u754c", services.MaxKeyCharacters),
}

// Keys of any form are different users in tokens, events, IDs and lists, whether the answer is compiled or not.
func TestUsersHaveTheKeysOfTheHost(t *testing.T) {
	n := world.StartNode(t, world.NodeOptions{Database: sqltest.SQLite(t), Redis: "embedded", ManualStepping: true})
	id := func(key string) string { return services.GlobalID(services.UserType, key) }
	followInCircle(t, n)
	type person struct{ ID, Key string }
	var seen struct {
		Viewer struct {
			ID       string
			User     person
			Badges   struct{ ID string }
			HomeFeed struct {
				Nodes []struct {
					Body   string
					Author person
				}
			}
		}
		Node struct {
			person
			Followers struct{ Nodes []person }
		}
	}
	const query = `query($id:ID!){viewer{id user{id key} badges{id} homeFeed{nodes{body author{id key}}}} node(id:$id){id ...on User{key followers{nodes{id key}}}}}`
	ids := map[string]string{}
	for i, key := range unusualUserKeys {
		token := strings.TrimPrefix(id(key), "user:")
		n.MustAsk(token, query, map[string]any{"id": id(key)}, &seen)
		before, after := unusualUserKeys[(i+len(unusualUserKeys)-1)%len(unusualUserKeys)], unusualUserKeys[(i+1)%len(unusualUserKeys)]
		me := person{id(key), key}
		if v := seen.Viewer; v.ID != services.GlobalID(services.ViewerType, key) || v.User != me || v.Badges.ID != services.GlobalID(services.BadgesType, key) {
			t.Errorf("%q: %+v", key, v)
		}
		bodies := map[string]person{}
		for _, post := range seen.Viewer.HomeFeed.Nodes {
			bodies[post.Body] = post.Author
		}
		if len(bodies) != 2 || bodies["by "+key] != me || bodies["by "+before] != (person{id(before), before}) {
			t.Errorf("%q reads %v", key, bodies)
		}
		if seen.Node.person != me || fmt.Sprint(seen.Node.Followers.Nodes) != fmt.Sprint([]person{{id(after), after}}) {
			t.Errorf("%q is %+v", key, seen.Node)
		}
		// Read the same page through the generated code: the query has a field that is not compiled.
		var slow struct {
			Viewer struct {
				HomeFeed struct{ Nodes []struct{ Author person } }
			}
		}
		n.MustAsk(token, `{viewer{homeFeed{nodes{author{id key followers(first:1){nodes{id}}}}}}}`, nil, &slow)
		for i, post := range slow.Viewer.HomeFeed.Nodes {
			if post.Author != seen.Viewer.HomeFeed.Nodes[i].Author {
				t.Errorf("%q: %v and %v", key, post.Author, seen.Viewer.HomeFeed.Nodes[i].Author)
			}
		}
		if other, taken := ids[seen.Viewer.User.ID]; taken {
			t.Errorf("%q and %q have the ID %s", key, other, seen.Viewer.User.ID)
		}
		ids[seen.Viewer.User.ID] = key
		for _, kind := range []string{services.ViewerType, services.BadgesType} {
			if got := n.Ask("stranger", `query($id:ID!){node(id:$id){id}}`, map[string]any{"id": services.GlobalID(kind, key)}); string(got.Data) != `{"node":null}` {
				t.Errorf("a stranger asks for the %s of %q: %s", kind, key, got.Data)
			}
		}
	}
}

// followInCircle lets each user of unusualUserKeys follow the user before in the list, the first one the last, and publish a post.
func followInCircle(t *testing.T, n *world.Node) {
	t.Helper()
	id := func(key string) string { return services.GlobalID(services.UserType, key) }
	var events []any
	for i, key := range unusualUserKeys {
		next := unusualUserKeys[(i+1)%len(unusualUserKeys)]
		events = append(events, ingestEvent("follow", "as", id(next), "userId", id(key)), ingestEvent("publishPost", "as", id(key), "body", "by "+key))
	}
	var answer struct {
		Ingest struct {
			Results []struct{ Error *struct{ Message string } }
		}
	}
	n.MustAsk("host:ingest", `mutation($e:[IngestEvent!]!){ingest(events:$e){results{error{message}}}}`, map[string]any{"e": events}, &answer)
	for i, result := range answer.Ingest.Results {
		if result.Error != nil {
			t.Errorf("%v: %s", events[i], result.Error.Message)
		}
	}
}
