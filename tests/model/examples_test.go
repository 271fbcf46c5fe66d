package model

import (
	"fmt"
	"slices"
	"testing"

	"tidings/tests/world"
)

// Three authors have 10, 8 and 14 posts. When the reader last read their feed, the authors had 6, 7 and 12 posts. So the badge counts
// 4 + 1 + 2 posts.
func TestUnreadCountSumsNewPostsOfFollowedAuthors(t *testing.T) {
	world.ForEachStoragePair(t, func(t *testing.T, options world.NodeOptions) {
		options.ManualStepping = true
		n := world.StartNode(t, options)
		then, now := map[string]int{"a": 6, "b": 7, "c": 12}, map[string]int{"a": 10, "b": 8, "c": 14}
		for author := range then {
			n.Follow("reader", author)
		}
		last := ""
		for author, count := range then {
			for i := range count {
				last = n.Publish(author, fmt.Sprint(author, i))
			}
		}
		n.SettleJobsAndCaches()
		if got := n.Badges("reader").HomeFeed.Value; got != 6+7+12 {
			t.Fatalf("before looking: %d, want 25", got)
		}
		if got := n.MarkFeedSeen("reader", last).HomeFeed.Value; got != 0 {
			t.Fatalf("after looking: %d, want 0", got)
		}
		for author, count := range now {
			for i := then[author]; i < count; i++ {
				n.Publish(author, fmt.Sprint(author, i))
			}
		}
		n.SettleJobsAndCaches()
		waitExactFeedCount(t, n, "reader", "after more posts", 7)
	})
}

// waitExactFeedCount reads a user's count of new posts until it is exact. Each answer must have the number in want: on a busy
// machine Redis may miss its deadline, and a count is right but STALE for a moment.
func waitExactFeedCount(t *testing.T, n *world.Node, as, when string, want int) {
	t.Helper()
	world.Eventually(t, world.RedisLossRecoveryTimeout, when+" the count is exact", func() bool {
		got := n.Badges(as).HomeFeed
		if got.Value != want || got.Precision != "EXACT" && got.Precision != "STALE" {
			t.Fatalf("%s: %+v, want %d", when, got, want)
		}
		return got.Precision == "EXACT"
	})
}

// A client reads a page of 5 posts at a time T1 and the second page at T3; an 11th post is published at T2 between them. No post is on
// both pages, and none is missing, even if the post after which the second page starts was deleted at T2.
func TestSecondPageRepeatsNothing(t *testing.T) {
	world.ForEachStoragePair(t, func(t *testing.T, options world.NodeOptions) {
		for _, deleted := range []bool{false, true} {
			t.Run(fmt.Sprintf("last deleted %t", deleted), func(t *testing.T) {
				options := options
				options.ManualStepping = true
				n := world.StartNode(t, options)
				reader, author := fmt.Sprintf("reader-%t", deleted), fmt.Sprintf("author-%t", deleted)
				n.Follow(reader, author)
				var posts []string
				for i := range 10 {
					posts = append(posts, n.Publish(author, fmt.Sprint(i)))
				}
				n.SettleJobsAndCaches()
				slices.Reverse(posts)
				first := n.ReadFeedPage(reader, 5, "", "")
				if !slices.Equal(first.Ids(), posts[:5]) {
					t.Fatalf("T1: %v, want %v", first.Ids(), posts[:5])
				}
				n.Publish(author, "the eleventh")
				if deleted {
					n.MustAsk(author, `mutation($p:ID!){deletePost(input:{postId:$p}){postId}}`, map[string]any{"p": posts[4]}, nil)
				}
				n.SettleJobsAndCaches()
				second := n.ReadFeedPage(reader, 5, "", *first.LastID)
				if !slices.Equal(second.Ids(), posts[5:]) {
					t.Fatalf("T3: %v, want %v", second.Ids(), posts[5:])
				}
				if second.PageInfo.HasNextPage || second.End == nil || *second.End != "END" {
					t.Fatalf("T3 should say END: %+v", second)
				}
			})
		}
	})
}
