package fanout

import (
	"context"

	"tidings/services"
	"tidings/services/people"
	"tidings/services/posts"
	"tidings/services/redis"
)

// AddInFlight adds posts in flight to one reader's inbox, as the fan-outs will, and reports whether this changed anything. Posts of authors
// whom the reader does not follow are skipped.
func (f *Fanout) AddInFlight(ctx context.Context, reader services.UserID, inFlight []posts.InFlightFanout) (added bool, err error) {
	if len(inFlight) == 0 {
		return false, nil
	}
	authors := make([]services.UserID, len(inFlight))
	for i, post := range inFlight {
		authors[i] = post.Author
	}
	edges, err := people.EdgesFrom(ctx, f.store, reader, authors)
	if err != nil {
		return false, err
	}
	for _, post := range inFlight {
		if _, follows := edges[post.Author]; !follows {
			continue
		}
		result, err := f.addAgain(ctx, reader, post.Post)
		if err != nil {
			return added, err
		}
		added = added || result.Status == redis.Applied
		if err := f.Projector.Changed(ctx, []services.UserID{reader}, []redis.Result{result}); err != nil {
			return added, err
		}
	}
	return added, nil
}
