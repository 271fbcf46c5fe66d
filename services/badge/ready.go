package badge

import (
	"context"

	"tidings/services"
	"tidings/services/badge/source"
	"tidings/services/rdb"
)

// ReadReady is ReadMany in one round trip to Redis, two if a document has changed, and without SQL, so that no user waits long for
// another. badges[i] is nil for a user
// whose document is not all there is to read: it is missing, from before a long absence, owed an update, older than an earlier
// answer, counts what is too old, or needs more than the node cache holds. Read does the rest for them. It is a visit of those whose
// badges it returns.
//
// The error is Redis', and nobody's badges are ready then: ReadFacts has them without asking Redis once more.
func (s *Service) ReadReady(ctx context.Context, users []services.UserID) ([]*services.Badges, error) {
	badges := make([]*services.Badges, len(users))
	at := s.moment(ctx)
	today := at.Today()
	// Before the documents are read, as in readInto: what is projected or passed meanwhile is left to Read as well.
	owed := make([]bool, len(users))
	for i, user := range users {
		owed[i] = s.jobs.OwesUpdate(user)
	}
	before := s.answered(users)
	documents, err := s.redis.DocumentsOfReaders(ctx, users)
	if err != nil {
		return badges, err
	}
	after := s.answered(users)
	for i, user := range users {
		_, answered := before[user]
		_, still := after[user]
		document := &documents[i]
		ready := document.Ready && !owed[i] && !answered && !still && !s.projector.Away(*document) &&
			!(s.settings.Ages.Any() && s.holdsAged(document, today)) && !s.waits(user, document, today)
		if !ready { // withMemory asks for nothing that an empty document has
			*document = rdb.Document{}
		}
	}
	s.withMemory(ctx, users, documents, false, today)
	for i, user := range users {
		if documents[i].Ready {
			badges[i] = s.render(user, documents[i], at)
			s.visits.note(user, documents[i].Day)
		}
	}
	return badges, nil
}

// waits reports whether a source would ask SQL for a document.
func (s *Service) waits(user services.UserID, document *rdb.Document, today int64) bool {
	for _, one := range s.waiters {
		if one.Waits(user, document, today) {
			return true
		}
	}
	return false
}

// waiters are the sources that may ask SQL for a document.
func (l sourceList) waiters() (waiters []source.Waiter) {
	for _, one := range l {
		if waiter, waits := one.(source.Waiter); waits {
			waiters = append(waiters, waiter)
		}
	}
	return waiters
}
