package fanout

import (
	"context"

	"tidings/services"
	"tidings/services/people"
	"tidings/services/posts"
	"tidings/services/redis"
)

// AddInFlightPosts adds posts in flight to one reader's inbox, as the fan-outs will, and reports whether the inbox holds any of them
// now, added here or by a fan-out: a page that was read before may lack them. Posts of authors that the reader does not follow are
// skipped. services/feed calls it for each page of a feed, so that readers notice a slow fan-out neither in the list nor in the
// next count.
func (f *Fanout) AddInFlightPosts(ctx context.Context, reader services.UserID, inFlight []posts.InFlightFanout) (held bool, err error) {
	if len(inFlight) == 0 {
		return false, nil
	}
	authors := services.Map(inFlight, func(post posts.InFlightFanout) services.UserID { return post.Author })
	// One query leaves out most posts, because the reader follows few of the authors.
	edges, err := people.EdgesFrom(ctx, f.db, reader, authors)
	if err != nil {
		return false, err
	}
	for _, post := range inFlight {
		if _, follows := edges[post.Author]; !follows {
			continue
		}
		// mergePostIntoInbox takes a stamp of its own, because the inbox may have changed since the list was read.
		result, err := f.mergePostIntoInbox(ctx, reader, post.Post)
		if err != nil {
			return held, err
		}
		// Unchanged counts too: the fan-out may have added the post after the page was read.
		held = held || result.Status == redis.Applied || result.Status == redis.Unchanged
		if err := f.projector.HintAndMark(ctx, []services.UserID{reader}, []redis.Result{result}); err != nil {
			return held, err
		}
	}
	return held, nil
}
