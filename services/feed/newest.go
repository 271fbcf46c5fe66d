package feed

import (
	"context"

	"tidings/services"
	"tidings/services/nodecache"
	"tidings/services/posts"
	"tidings/services/rdb"
)

// NewestRequest asks for a reader's newest posts.
type NewestRequest struct {
	Reader services.UserID
	First  int // from 1 to 100 posts, which is less than a feed lists
}

// ReadNewest reads pages from the top of several readers' feeds in one round trip to Redis and without SQL, so that no reader
// waits long for another. It calls found with each page that is complete, the same page that Page returns. It leaves out readers
// whose page only Page can make: their inbox is missing or from before a long absence, it still lacks a command of
// theirs (OwesUpdate) or a post in flight, or the page needs more than Redis and the node's cache hold. No reader may be observed: see
// services.Observed.
//
// The error is UNAVAILABLE, if Redis does not answer. Then found is not called.
func (s *Service) ReadNewest(ctx context.Context, asked []NewestRequest, found func(i int, page Page)) error {
	readers, limits, owed := make([]services.UserID, len(asked)), make([]int, len(asked)), make([]bool, len(asked))
	// The owed updates and the posts in flight are read before the inboxes, as in readRaw and readRawNewest: if an update or a
	// fan-out ends in between, the reader is still left to Page.
	for i, one := range asked {
		readers[i], limits[i], owed[i] = one.Reader, one.First+1, s.jobs.OwesUpdate(one.Reader)
	}
	inFlight := s.inFlight.List()
	inboxes, err := s.redis.NewestOfInboxes(ctx, readers, limits)
	if err != nil {
		return err
	}
	for i := range inboxes {
		if owed[i] {
			continue
		}
		if page, ready := s.newestPage(&inboxes[i], asked[i].First, inFlight); ready {
			found(i, page)
		}
	}
	return nil
}

// newestPage makes a page from the top of an inbox and the node's cache. ready is false if they lack a part of the page.
func (s *Service) newestPage(inbox *rdb.InboxPage, first int, inFlight []posts.InFlightFanout) (page Page, ready bool) {
	if !inbox.Ready || s.projector.IsIdleIfSeenOn(inbox.LastActiveDay) {
		return page, false
	}
	var pulled []nodecache.PulledPosts
	if len(inbox.PulledAuthors) > 0 {
		var known bool
		if pulled, known = s.pulled.PostsOf(inbox.PulledAuthors); !known {
			return page, false
		}
	}
	raw := mergePage(*inbox, pulled, services.MaxPostID, first+1)
	if len(raw.missingInFlight(inFlight, services.MaxPostID, first+1)) > 0 {
		return page, false
	}
	entries := page.takeEntries(raw, first)
	page.Items, ready = s.appendCached(nil, entries)
	// A page from which deleted posts were left out is not ready if older posts can fill it.
	return page, ready && (len(page.Items) == len(entries) || !page.HasNext)
}
