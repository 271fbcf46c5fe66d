package resolvers

import (
	"strings"
	"testing"
)

// roundTripLimitFactor returns how many times maxRoundTrips round trips a query may take. It is 2 for a query of the objects behind
// the counts, which are known only after the counts have been explained.
func roundTripLimitFactor(query string) int {
	if strings.Contains(query, "nodeId") {
		return 2
	}
	return 1
}

// The objects behind the counts of badges are read in batches. They have many types, whose fields conflict in one selection, so the
// selection is written by hand. It has the types with fields that cause further reads.
func itemsOfTheBadgesAreReadInBatches(t *testing.T, c *filledWorld) {
	const author = "author { key name viewerFollows }"
	const node = `node { __typename id ... on Post { ` + author + ` likeCount viewerHasLiked commentCount parent { id } comments { nodes { id } } }
		... on Notification { subject { id ` + author + ` } actors { key } causes { __typename ... on Post { ` + author + ` } ... on User { key viewerMutes } } }
		... on Conversation { lastMessage { ` + author + ` } members { nodes { key } } messages { nodes { ` + author + ` mentions { key } } } }
		... on Show { host { key } viewerHasReminder } ... on SiteMessage { title } ... on Announcement { unread } ... on View { newItems: unread { value } } }`
	got := c.askColdAndWarm(t, "{ viewer { badgeExplained { source items { nodeId "+node+" } } again: badgeExplained { items { "+node+" } } } }", nil)
	types := map[any]bool{}
	explained, _ := got.valueAt("viewer", "badgeExplained").([]any)
	for i := range explained {
		items, _ := got.valueAt("viewer", "badgeExplained", i, "items").([]any)
		for k := range items {
			item := func(name string) any { return got.valueAt("viewer", "badgeExplained", i, "items", k, "node", name) }
			if types[item("__typename")] = true; item("id") != got.valueAt("viewer", "badgeExplained", i, "items", k, "nodeId") {
				t.Errorf("%v is about %v", got.valueAt("viewer", "badgeExplained", i, "items", k, "nodeId"), item("id"))
			}
		}
	}
	for _, kind := range []string{"Post", "Notification", "SiteMessage", "Announcement", "Conversation", "Show", "View"} {
		if !types[kind] {
			t.Errorf("no count is about a %s: the test proves nothing of it", kind)
		}
	}
}
