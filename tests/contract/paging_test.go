package contract

import (
	"fmt"
	"slices"
	"testing"

	"tidings/services/redis/redistest"
	"tidings/services/sql/sqltest"
	"tidings/tests/world"
)

// makeFeedWithDeletedPosts makes a reader whose feed holds posts that are deleted but not removed yet, because no worker has run
// since. deleted reports whether post i is deleted, counted from the newest. makeFeedWithDeletedPosts returns the posts that are
// left.
func makeFeedWithDeletedPosts(t *testing.T, n *world.Node, posts int, deleted func(i int) bool) (visible []string) {
	t.Helper()
	c := &smallNode{Node: n}
	n.Follow("reader", "author")
	n.Badges("reader")
	events := make([]any, posts)
	for i := range events {
		events[i] = ingestEvent("publishPost", "as", "user:author", "body", fmt.Sprint(i))
	}
	published := c.ingest(t, events...)
	n.SettleJobsAndCaches()
	var deletions []any
	for i, post := range slices.Backward(published) {
		if post.ID == nil {
			t.Fatalf("post %d: %+v", i, post.Error)
		}
		if deleted(posts - 1 - i) {
			deletions = append(deletions, ingestEvent("deletePost", "as", "user:author", "postId", *post.ID))
		} else {
			visible = append(visible, *post.ID)
		}
	}
	for i, result := range c.ingest(t, deletions...) {
		if result.Error != nil {
			t.Fatalf("deletion %d: %+v", i, result.Error)
		}
	}
	return visible
}

// Pages of any size are refilled after deleted posts were omitted, and only the last page is short.
func TestPagesAreRefilled(t *testing.T) {
	for name, deleted := range map[string]func(i int) bool{
		"every second":        func(i int) bool { return i%2 == 1 },
		"the newest five":     func(i int) bool { return i < 5 },
		"the oldest five":     func(i int) bool { return i >= 15 },
		"a run in the middle": func(i int) bool { return i > 3 && i < 17 },
		"all but the oldest":  func(i int) bool { return i < 19 },
	} {
		t.Run(name, func(t *testing.T) {
			n := world.StartNode(t, world.NodeOptions{Database: sqltest.SQLite(t), Redis: "embedded", ManualStepping: true})
			visible := makeFeedWithDeletedPosts(t, n, 20, deleted)
			for _, first := range []int{1, 2, 3, 7, 100} {
				var listed []string
				for after := ""; ; {
					page := n.ReadFeedPage("reader", first, after, "")
					listed = append(listed, page.Ids()...)
					if !page.PageInfo.HasNextPage {
						if page.End == nil || *page.End != "END" {
							t.Errorf("first %d: the end is %v, want END", first, page.End)
						}
						break
					}
					if len(page.Edges) != first {
						t.Errorf("first %d: a page of %d that is not the last", first, len(page.Edges))
					}
					after = *page.PageInfo.EndCursor
				}
				if !slices.Equal(listed, visible) {
					t.Errorf("first %d: listed %v, want %v", first, listed, visible)
				}
			}
		})
	}
}

// If all posts that a feed keeps are deleted at once, the page is empty and ends with RETENTION. Its last ID is then the position
// that was reached, because no post is shown. Once the deletions are projected, older posts appear.
func TestFeedOfDeletedPosts(t *testing.T) {
	n := world.StartNode(t, world.NodeOptions{Database: sqltest.SQLite(t), Redis: redistest.Redis(t), ManualStepping: true})
	visible := makeFeedWithDeletedPosts(t, n, 325, func(i int) bool { return i < 315 })
	page := n.ReadFeedPage("reader", 20, "", "")
	if len(page.Edges) != 0 || page.PageInfo.HasNextPage || page.End == nil || *page.End != "RETENTION" || page.LastID == nil {
		t.Fatalf("the page: %d posts, %+v, last id %v, end %v", len(page.Edges), page.PageInfo, page.LastID, page.End)
	}
	if *page.LastID <= visible[0] {
		t.Errorf("the last id %s is older than what is kept", *page.LastID)
	}
	n.SettleJobsAndCaches()
	if listed := n.ReadWholeFeed("reader", 100); !slices.Equal(listed, visible) {
		t.Errorf("when the deletions are projected: %v, want %v", listed, visible)
	}
	if got := n.Badges("reader").HomeFeed; got.Value != len(visible) || got.Precision != "EXACT" {
		t.Errorf("%+v count, want %d", got, len(visible))
	}
}
