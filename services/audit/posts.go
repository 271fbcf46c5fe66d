package audit

import (
	"context"
	"math/rand/v2"

	"tidings/services"
	"tidings/services/posts"
	"tidings/services/store"
)

const (
	// postsPerUser is how many of a user's newest posts are recounted in each lap.
	postsPerUser = 20
	// dearPosts is how many likes and answers make a recount dear, about 10 ms: such a post is recounted in one lap of many.
	dearPosts, dearLaps = 100_000, 100
)

// recount compares the counts of the newest posts of some users with the facts, and mends those that differ. Both are of one
// moment, and are changed by the same transactions: any difference is a fault.
func (a *Audit) recount(ctx context.Context, users []services.UserID) error {
	kept, err := posts.NewestCounts(ctx, a.Store.DB, users, postsPerUser)
	if err != nil {
		return err
	}
	var due []services.PostID
	for post, of := range kept {
		if of.Likes+of.Comments < dearPosts || rand.IntN(dearLaps) == 0 {
			due = append(due, post)
		}
	}
	recounts, err := posts.Recounts(ctx, a.Store.DB, due)
	if err != nil {
		return err
	}
	for _, found := range recounts {
		if found.Right() {
			continue
		}
		a.miscounted.Add(1)
		a.Log.Error("the counts of a post differed from the facts and are mended", "post", found.Post.String(),
			"likes", found.Kept.Likes, "counted", found.Facts.Likes, "comments", found.Kept.Comments, "countedComments", found.Facts.Comments)
		if err := a.Store.Write(ctx, func(tx *store.Tx) error { return posts.MendCounts(ctx, tx.Tx, found.Post) }); err != nil {
			return err
		}
	}
	return nil
}
