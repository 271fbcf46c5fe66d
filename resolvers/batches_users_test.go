package resolvers

import (
	"fmt"
	"strings"
	"testing"
)

// For the users of a page, each kind of list, such as their followers, is read by one statement, wherever the users occur.
func listsOfTheUsersOfAListAreReadInBatches(t *testing.T, c *filledWorld) {
	const lists = `{ key viewerFollows followsViewer viewerMutes viewerBlocks viewerHides
		followers(first: 5) { nodes { key name } pageInfo { endCursor } } followees(first: 5) { nodes { key name } pageInfo { endCursor } }
		posts(first: 5) { nodes { id likeCount viewerHasLiked parent { id } } } shows(first: 5) { nodes { id title viewerHasReminder host { key } } } }`
	c.loadsReaderOnRestart = true
	for name, list := range map[string]string{
		"homeFeed": "homeFeed(first: 20) { nodes { author %s } }", "liveBoard": "liveBoard(first: 20) { nodes { host %s } }",
		"notifications": "notifications(first: 20) { nodes { actors %s } }", "mutes": "mutes(first: 20) { nodes %s }",
		"conversations": "conversations(first: 5) { nodes { members(first: 4) { nodes %s } } }", "user": "user %s",
	} {
		t.Run(name, func(t *testing.T) {
			got := c.askColdAndWarm(t, "{ viewer { "+fmt.Sprintf(list, lists)+" } }", nil)
			text := fmt.Sprint(got.Data)
			for _, one := range []string{"followers:map[nodes:[map[key:", "followees:map[nodes:[map[key:", "posts:map[nodes:[map[id:post:", "shows:map[nodes:[map[host:map[key:"} {
				if !strings.Contains(text, one) && name != "mutes" {
					t.Errorf("nobody's list has %s", one)
				}
			}
		})
	}
}
