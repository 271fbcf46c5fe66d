package badge

import (
	"context"

	"tidings/services"
	"tidings/services/badge/source"
	"tidings/services/rdb"
)

// holdsExpired reports whether a document's own counts may include items that are too old on the given day. Sources that count by
// day, or on reading, are not among expiringSources: rendering leaves their old items out.
func (s *Service) holdsExpired(document *rdb.Document, today int64) bool {
	if !document.Ready {
		return false
	}
	for _, expiring := range s.expiringSources {
		if expiring.HoldsExpired(document, today) {
			return true
		}
	}
	return false
}

// removeExpiredItems removes from documents the items that have become too old since they were counted, and reads these documents
// again. This costs further round trips once a day, for users who may have such items. It returns the users whose documents could not
// be updated.
func (s *Service) removeExpiredItems(ctx context.Context, users []services.UserID, documents []rdb.Document, today int64) (stale map[services.UserID]bool) {
	// Most installations let nothing expire but notifications, which are counted by day. They pay only for this test of a
	// flag.
	if !s.settings.Expiry.AnyExpires() {
		return nil
	}
	var held []services.UserID
	var indexes []int
	for i := range documents {
		if s.holdsExpired(&documents[i], today) {
			held, indexes = append(held, users[i]), append(indexes, i)
		}
	}
	if len(held) == 0 {
		return nil
	}
	var again []rdb.Document
	// removeExpiredBySource changes the documents in Redis, so that the next reader finds nothing to do.
	err := s.removeExpiredBySource(ctx, users, documents, indexes, today)
	if err == nil {
		again, err = s.redis.Documents(ctx, held)
	}
	if err != nil && ctx.Err() == nil {
		s.log.Warn("expired items were not removed from badges in Redis; counting in SQL", "error", err)
	}
	stale = map[services.UserID]bool{}
	for i, user := range held {
		if err == nil {
			documents[indexes[i]] = again[i]
		}
		// Redis could not be updated, or returned the document from before the update.
		if s.holdsExpired(&documents[indexes[i]], today) {
			stale[user] = true
		}
	}
	return stale
}

// removeExpiredBySource lets each source remove its expired items from the documents at the given indexes.
func (s *Service) removeExpiredBySource(ctx context.Context, users []services.UserID, documents []rdb.Document, indexes []int, today int64) error {
	for _, expiring := range s.expiringSources {
		var due []services.UserID
		for _, index := range indexes {
			if expiring.HoldsExpired(&documents[index], today) {
				due = append(due, users[index])
			}
		}
		if len(due) == 0 {
			continue
		}
		if err := expiring.RemoveExpired(ctx, due, today); err != nil {
			return err
		}
	}
	return nil
}

// expiringSources returns the sources that implement source.ExpiringSource.
func (l sourceList) expiringSources() (found []source.ExpiringSource) {
	for _, one := range l {
		if expiring, ok := one.(source.ExpiringSource); ok {
			found = append(found, expiring)
		}
	}
	return found
}
