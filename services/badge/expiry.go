package badge

import (
	"context"

	"golang.org/x/sync/errgroup"

	"tidings/services"
	"tidings/services/rdb"
)

// holdsAged reports whether a document's own counts hold items that are too old for them on a day: Redis counts posts as of a
// day, and messages as of the day on which the next one leaves. All other counts are kept by day, or computed from the node
// cache at rendering.
func (s *Service) holdsAged(document *rdb.Document, today int64) (feed, conversations bool) {
	feed = (document.FeedCount > 0 || document.FeedMore) && document.FeedAged < s.settings.Ages.Mark(services.SourceHomeFeed, today)
	leaves := document.Conversations.LeavesOn
	return document.Ready && feed, document.Ready && leaves > 0 && leaves <= today
}

// ageDocuments removes from documents the items that have become too old since they were counted, and reads these documents
// again: further round trips, once, for each user with such items. It returns the users whose documents could not be updated.
func (s *Service) ageDocuments(ctx context.Context, users []services.UserID, documents []rdb.Document, today int64) (stale map[services.UserID]bool) {
	if !s.settings.Ages.Any() {
		return nil
	}
	var feeds, conversations, both []services.UserID
	var places []int
	for i := range documents {
		feed, chat := s.holdsAged(&documents[i], today)
		if feed {
			feeds = append(feeds, users[i])
		}
		if chat {
			conversations = append(conversations, users[i])
		}
		if feed || chat {
			both, places = append(both, users[i]), append(places, i)
		}
	}
	if len(both) == 0 {
		return nil
	}
	var again []rdb.Document
	err := s.age(ctx, feeds, conversations, today)
	if err == nil {
		again, err = s.redis.Documents(ctx, both)
	}
	if err != nil && ctx.Err() == nil {
		s.log.Warn("what is too old was not taken out of badges; counting in SQL", "error", err)
	}
	stale = map[services.UserID]bool{}
	for i, user := range both {
		if err == nil {
			documents[places[i]] = again[i]
		}
		feed, chat := s.holdsAged(&documents[places[i]], today)
		if feed || chat {
			stale[user] = true
		}
	}
	return stale
}

func (s *Service) age(ctx context.Context, feeds, conversations []services.UserID, today int64) error {
	if len(feeds) > 0 {
		if err := s.fanout.AgeFeeds(ctx, feeds, today); err != nil {
			return err
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(cap(s.fallback))
	for _, user := range conversations {
		group.Go(func() error { return s.fanout.AgeConversations(ctx, user, today) })
	}
	return group.Wait()
}
