package posts

import (
	"context"
	"log/slog"
	"math/rand/v2"
	"sync/atomic"

	"tidings/services"
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

// CountAudit compares the counts of posts with the facts, some posts each turn of services/audit. It is for one goroutine, except
// Metrics.
type CountAudit struct {
	db     *sql.DB
	log    *slog.Logger
	below  services.PostID // the posts below it are recounted next; a node that restarts begins again at the newest post
	mended atomic.Uint64   // the number of posts whose counts were wrong, and were repaired
}

// NewCountAudit makes the audit of counts of one node.
func NewCountAudit(db *sql.DB, log *slog.Logger) *CountAudit {
	return &CountAudit{db: db, log: log, below: services.MaxPostID}
}

// RunOnce compares the counts of some posts with the facts, and repairs the counts that differ. It walks from the newest post of any
// kind to the oldest, and then starts again. During an upgrade, a node of the previous release may not count its writes. Any other
// difference is a fault: counts and facts are read at one moment, and are changed by the same transactions.
func (a *CountAudit) RunOnce(ctx context.Context) error {
	page, err := readCountsBelow(ctx, a.db, a.below, postsPerTurn)
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
	found, err := readRecounts(ctx, a.db, due)
	if err != nil {
		return err
	}
	for _, of := range found {
		if of.matches() {
			continue
		}
		a.mended.Add(1)
		a.log.Error("the counts of a post differed from the facts and are mended", "post", of.Post.String(),
			"likes", of.Stored.Likes, "counted", of.Facts.Likes, "comments", of.Stored.Comments, "countedComments", of.Facts.Comments)
		if err := a.db.Write(ctx, func(tx *sql.Tx) error { return mendCounts(ctx, tx, of.Post) }); err != nil {
			return err
		}
	}
	a.below = next
	return nil
}
