package badge

import (
	"context"

	"tidings/services"
	"tidings/services/badge/source"
	"tidings/services/rdb"
)

// ReadWithoutSQL returns the badges of several users in one round trip to Redis, two if a document has changed, and without SQL, so that
// no user waits long for another. badges[i] is nil for a user whose document does not suffice: it is missing, is from before a long
// absence, lacks an update, is older than an earlier answer, counts items that are too old, or needs more than the node cache holds. The
// caller reads these users by Read. ReadWithoutSQL is a visit of the users whose badges it returns.
//
// An error comes from Redis, and no badges are ready then: ReadFacts reads them without asking Redis again.
func (s *Service) ReadWithoutSQL(ctx context.Context, users []services.UserID) ([]*services.Badges, error) {
	badges := make([]*services.Badges, len(users))
	at := s.moment(ctx)
	today := at.Today()
	// owed and before are taken before the documents are read, as in readInto. An update that is projected after that, or a
	// fallback version that is forgotten after that, may be missing from the documents: Read answers these users too.
	owed := make([]bool, len(users))
	for i, user := range users {
		owed[i] = s.jobs.OwesUpdate(user)
	}
	before := s.fallbackVersionsOf(users)
	documents, err := s.redis.DocumentsCached(ctx, users)
	if err != nil {
		return badges, err
	}
	after := s.fallbackVersionsOf(users)
	for i, user := range users {
		_, answered := before[user]
		_, still := after[user]
		document := &documents[i]
		ready := document.Ready && !owed[i] && !answered && !still && !s.projector.IsOfIdleUser(*document) &&
			!(s.settings.Expiry.AnyExpires() && s.holdsExpired(document, today)) && s.addWithoutSQL(user, document, today)
		if !ready {
			*document = rdb.Document{}
		}
	}
	for _, one := range s.cacheReaders { // they look nothing up for an empty document
		one.AddCached(ctx, users, documents, today)
	}
	for i, user := range users {
		if documents[i].Ready {
			badges[i] = s.render(ctx, user, documents[i], at)
			s.visits.record(user, documents[i].LastActiveDay)
		}
	}
	return badges, nil
}

// addWithoutSQL adds to a document the state of the sources that may ask SQL, as far as this node holds it, and reports whether that is
// all of it.
func (s *Service) addWithoutSQL(user services.UserID, document *rdb.Document, today int64) (complete bool) {
	for _, one := range s.sqlReaders {
		if !one.AddWithoutSQL(user, document, today) {
			return false
		}
	}
	return true
}

// splitSQLReaders returns the sources that may ask SQL for a document, and the others.
func (l sourceList) splitSQLReaders() (readers []source.SQLReader, others sourceList) {
	for _, one := range l {
		if reader, reads := one.(source.SQLReader); reads {
			readers = append(readers, reader)
		} else {
			others = append(others, one)
		}
	}
	return readers, others
}
