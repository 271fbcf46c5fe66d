package audit

import (
	"context"
	"math/rand/v2"

	"tidings/services"
	"tidings/services/posts"
	"tidings/services/sql"
)

const (
	// postsPerTurn is how many posts a turn looks at.
	postsPerTurn = 200
	// expensivePostItems is how many likes and answers make a recount expensive, about 10 ms. Such a post is recounted in one of
	// expensiveLaps laps on average.
	expensivePostItems, expensiveLaps = 100_000, 100
	// recountedItemsPerTurn is how many likes and answers a turn recounts, about a second's work.
	recountedItemsPerTurn = 10 * expensivePostItems
)

// recountPosts compares the counts of some posts with the facts, and repairs the counts that differ. It walks from the newest post
// of any kind to the oldest, and then starts again. During an upgrade, a node of the previous release may not count its
// writes. Any other difference is a fault: counts and facts are read at one moment, and are changed by the same transactions.
func (a *Audit) recountPosts(ctx context.Context) error {
	page, err := posts.CountsBelow(ctx, a.Store, a.recountPostsBelow, postsPerTurn)
	if err != nil {
		return err
	}
	// After the last page the walk begins again at the newest post.
	next, left := services.MaxPostID, recountedItemsPerTurn
	if len(page) == postsPerTurn {
		next = page[len(page)-1].Post
	}
	var due []services.PostID
	for _, of := range page {
		size := max(of.Likes, 0) + max(of.Comments, 0)
		if size >= expensivePostItems && rand.IntN(expensiveLaps) != 0 {
			continue
		}
		if left -= size; left < 0 && len(due) > 0 {
			next = of.Post + 1 // this post is the first of the next turn
			break
		}
		due = append(due, of.Post)
	}
	recounts, err := posts.Recounts(ctx, a.Store, due)
	if err != nil {
		return err
	}
	for _, found := range recounts {
		if found.Matches() {
			continue
		}
		a.miscountedPosts.Add(1)
		a.Log.Error("the counts of a post differed from the facts and are mended", "post", found.Post.String(),
			"likes", found.Stored.Likes, "counted", found.Facts.Likes, "comments", found.Stored.Comments, "countedComments", found.Facts.Comments)
		if err := a.Store.Write(ctx, func(tx *sql.Tx) error { return posts.MendCounts(ctx, tx, found.Post) }); err != nil {
			return err
		}
	}
	a.recountPostsBelow = next
	return nil
}
