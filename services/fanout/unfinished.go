package fanout

import (
	"context"

	"tidings/services"
	"tidings/services/rdb"
	"tidings/services/store"
)

// AddInFlight adds posts that are still on their way to one reader's inbox, those of the authors whom he follows, as their
// fan-out will, and says whether anything changed by it.
func (f *Fanout) AddInFlight(ctx context.Context, reader services.UserID, posts []store.InFlightFanout) (added bool, err error) {
	if len(posts) == 0 {
		return false, nil
	}
	authors := make([]services.UserID, len(posts))
	for i, post := range posts {
		authors[i] = post.Author
	}
	edges, err := f.store.EdgesFrom(ctx, reader, authors)
	if err != nil {
		return false, err
	}
	for _, post := range posts {
		if _, follows := edges[post.Author]; !follows {
			continue
		}
		result, err := f.addAgain(ctx, reader, post.Post)
		if err != nil {
			return added, err
		}
		added = added || result.Status == rdb.Applied
		f.hint(ctx, []services.UserID{reader}, []rdb.Result{result})
	}
	return added, nil
}
