package projector

import (
	"context"

	"tidings/services"
)

// Expiry is how long items of each source stay in its count.
func (p *Projector) Expiry() services.SourceExpiry { return p.cfg.Expiry }

// ExpireFeedPosts takes the posts that are too old on a day out of readers' counts. They stay in the list. For a reader without a
// document nothing is done: a rebuilt document is aged before it is rendered.
func (p *Projector) ExpireFeedPosts(ctx context.Context, readers []services.UserID, today int64) error {
	results, err := p.redis.ExpireFeedPosts(ctx, readers, p.cfg.Expiry.ExpiredPostsUpTo(today))
	if err != nil {
		return err
	}
	return p.HintAndMark(ctx, readers, results)
}
