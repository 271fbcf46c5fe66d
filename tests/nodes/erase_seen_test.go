package nodes

import (
	"fmt"
	"testing"

	"tidings/services/sql/sqltest"
	"tidings/tests/world"
)

// A feed cannot be marked as seen up to a post of an erased author. A reader that the author hid from gets the same answer before and
// after the erasure. A page of the feed can still begin after that post.
func TestErasureLeavesNoMarkInFeeds(t *testing.T) {
	sqltest.EachURL(t, func(t *testing.T, url string) {
		n := world.StartNode(t, world.NodeOptions{Database: url, Redis: "embedded", ManualStepping: true})
		newRandomActors(n, 1, 2)
		n.MustAsk(leaverKey, `mutation{hideFrom(input:{userId:"user:bob"}){__typename}}`, nil, nil)
		post := n.Publish(leaverKey, "a post")
		mark := fmt.Sprintf(`mutation{markHomeFeedSeen(input:{upTo:%q}){__typename}}`, post)
		if code := n.Ask("bob", mark, nil).ErrorCode(); code != "NOT_FOUND" {
			t.Errorf("bob is answered %q before", code)
		}
		eraseLeaver(n)
		n.SettleJobsAndCaches()
		for _, reader := range []string{"ann", "bob"} {
			if code := n.Ask(reader, mark, nil).ErrorCode(); code != "NOT_FOUND" {
				t.Errorf("%s is answered %q", reader, code)
			}
			if code := n.Ask(reader, fmt.Sprintf(`{viewer{homeFeed(lastId:%q){nodes{id}}}}`, post), nil).ErrorCode(); code != "" {
				t.Errorf("the page of %s is answered %q", reader, code)
			}
		}
	})
}
