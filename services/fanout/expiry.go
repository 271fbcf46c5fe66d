package fanout

import (
	"context"

	"tidings/services"
)

// Expiry is how long items of each source stay in its number.
func (f *Fanout) Expiry() services.SourceExpiry { return f.cfg.Expiry }

// AgeFeeds takes posts that are too old on a day out of readers' counts.
func (f *Fanout) AgeFeeds(ctx context.Context, readers []services.UserID, today int64) error {
	results, err := f.redis.AgeFeeds(ctx, readers, f.cfg.Expiry.Mark(services.SourceHomeFeed, today))
	if err != nil {
		return err
	}
	f.Hint(ctx, readers, results)
	return nil
}
